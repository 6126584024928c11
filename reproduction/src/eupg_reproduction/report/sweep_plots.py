"""Figures of sweeps: strength of the protection, share of people forgotten, epochs of fine-tuning, phases."""

from __future__ import annotations

from typing import Any

from eupg_reproduction.experiments import experiment
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.drawing import (
    HATCHES,
    LOOKS,
    Look,
    below,
    legend,
    level,
    line,
    panels,
    ticks,
    tidy,
    title,
)
from eupg_reproduction.report.quality import EUPG, views
from eupg_reproduction.report.runtime import timed
from eupg_reproduction.report.sweeps import ORIGINAL, curve, swept
from eupg_reproduction.report.view import SHORT, UTILITY, View
from eupg_reproduction.report.words import SETS

_WORDS = {
    "protect": "protect",
    "pretrain": "pretrain",
    "finetune": "fine-tune on all",
    "forget": "a forget: fine-tune on the retained",
}


def protection(axes: Any, book: Book) -> None:
    """Draw the base model's utility and what an attack finds, against k and against ε."""
    grid = panels(axes, 2, 2, sharex="col", sharey="row")
    sides = (("k_sweep", "k", LOOKS["k=30"]), ("epsilon_sweep", "ε of local DP", LOOKS["ε=1"]))
    for column, (name, word, look) in enumerate(sides):
        (view,) = views(book, name)
        for row, (figure, label) in enumerate((("utility", "accuracy, %"), ("audit.auc", "RMIA AUC, %"))):
            one = grid[row, column]
            points = {float(m.split("=")[1]): view.spread("heart", m, figure) for m in view.grid.methods if "=" in m}
            line(one, points, look, "k-anonymous base" if word == "k" else "base under local DP")
            level(one, view.spread("heart", ORIGINAL, figure), LOOKS["Retrain"], "original data")
            one.set_xscale("log")
            ticks(one, list(points), [f"{x:g}" for x in points])
            if not column:
                one.set_ylabel(label)
            tidy(one)
        grid[1, column].set_xlabel(word)
    legend(grid[0, 0].figure, columns=3)


def forget_ratio(axes: Any, book: Book) -> None:
    """Draw utility and what an attack finds against the share of people forgotten."""
    grid = panels(axes, 1, 2)
    declared = experiment("forget_ratio").grids[0]
    shares = [float(share) for share in swept(declared, "forget")]
    for one, (figure, label) in zip(
        grid[0], ((UTILITY, "accuracy, %"), ("after.audit.auc", "RMIA AUC, %")), strict=True
    ):
        for i, method in enumerate(declared.methods):
            # A little apart, so that spreads do not lie on each other.
            points = {
                100 * share + 0.7 * (i - 2.5): View(book, declared, "mlp", {"forget": share}).spread(
                    "adult", method, figure
                )
                for share in shares
            }
            line(one, points, LOOKS[method], method)
        one.set_ylabel(label)
        one.set_xlabel("people forgotten, %")
        ticks(one, [100 * s for s in shares if s != 0.05], [f"{100 * s:g}" for s in shares if s != 0.05])
        tidy(one)
    legend(grid[0, 0].figure, columns=3)


def epochs(axes: Any, book: Book) -> None:
    """Draw utility after forgetting against epochs of fine-tuning."""
    grid = panels(axes, 1, 3)
    (quality,) = views(book, "quality_mlp")
    for one, t in zip(grid[0], SETS, strict=True):
        for method in (*EUPG, SHORT, "Certified-SP"):
            found = curve(book, t, method)
            line(one, {float(n): spread for n, spread in found.items()}, LOOKS[method], method)
        level(one, quality.spread(t, "Retrain"), LOOKS["Retrain"], "Retrain, 50 epochs")
        one.set_xlabel("epochs on the retained records")
        one.set_title(title(t), fontsize=10)
        tidy(one)
    _cut_low(grid[0], book)
    legend(grid[0, 0].figure, columns=3)


def _cut_low(row: Any, book: Book) -> None:
    """Leave out of the picture a base that only guesses, so that the rest can be told apart."""
    for one, t in zip(row, SETS, strict=True):
        curves = {method: curve(book, t, method) for method in (*EUPG, SHORT)}
        known = [s.mean for m, some in curves.items() for n, s in some.items() if s and (n != 0 or m == EUPG[0])]
        if known:
            one.set_ylim(min(known) - 0.3, max(known) + 0.3)
        base = curves[EUPG[1]].get(0)
        below(one, [f"{EUPG[1]} at 0, {base.mean:.1f}"] if base and known and base.mean < min(known) - 0.3 else [])


def phases(axes: Any, book: Book) -> None:
    """Draw seconds of each phase as bars, beside a full and a short retraining."""
    grid = panels(axes, 1, 3, sharex=False)
    view = timed(book)["mlp"]
    for one, t in zip(grid[0], SETS, strict=True):
        for place, method in enumerate(reversed(EUPG)):
            left = 0.0
            for phase, (color, hatch) in HATCHES.items():
                found = view.spread(t, method, f"seconds.{phase}")
                if found is None:
                    continue
                # A forget comes later, alone: it is not on top of training.
                start, height = (0.0, place - 0.35) if phase == "forget" else (left, place)
                one.barh(
                    height,
                    found.mean,
                    0.3,
                    start,
                    color=color,
                    hatch=hatch,
                    edgecolor="white",
                    linewidth=0.5,
                    label=_WORDS[phase],
                )
                left += 0 if phase == "forget" else found.mean
        _lines(one, view, t)
        one.set_yticks([0 - 0.17, 1 - 0.17], [m.replace("EUPG ", "") for m in reversed(EUPG)])
        one.set_title(SETS[t], fontsize=10)
        one.set_xlabel("seconds")
        tidy(one)
    legend(grid[0, 0].figure, columns=3)


def _lines(axes: Any, view: View, t: str) -> None:
    for method in ("Retrain", SHORT):
        found = view.spread(t, method, "seconds.forget")
        look: Look = LOOKS[method]
        if found is not None:
            axes.axvline(found.mean, color=look.color, linestyle=look.line, linewidth=1.3, label=f"{method}: a forget")
