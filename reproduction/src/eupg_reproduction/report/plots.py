"""The two headline figures, exposure and synthesis, and the one that decides: utility against the time of a forget."""

from __future__ import annotations

from statistics import median
from typing import Any, NamedTuple

from eupg_reproduction.report.book import Book
from eupg_reproduction.report.drawing import LOOKS, below, legend, level, line, panels, ticks, tidy, title
from eupg_reproduction.report.frontier import SHARES, scratch, served, short, where
from eupg_reproduction.report.quality import PLAIN, by_model
from eupg_reproduction.report.runtime import FORGET, timed
from eupg_reproduction.report.synthetic import EPSILONS
from eupg_reproduction.report.view import View
from eupg_reproduction.report.words import MODELS, SETS
from eupg_reproduction.spread import Spread

_LEARNERS, _OTHERS = ("xgboost", "mlp"), ("lightgbm", "logistic")
# A share of zero has no place on a logarithmic axis: the base alone stands left of it.
_NOBODY = 0.0022
_STARS = {
    f"base alone, {method}: no training": LOOKS[method].marks | {"markersize": 11, "marker": marker}
    for method, marker in (("k=30", "*"), ("synthesis ε=1", "p"))
}
# Points further below the best are named instead of drawn: they would press all others into one line.
_REACH = 6.0


def exposure(axes: Any, book: Book) -> None:
    """Draw utility against the share of people ever seen raw."""
    grid = panels(axes, 2, 3)
    for row, model in zip(grid, _LEARNERS, strict=True):
        for one, t in zip(row, SETS, strict=True):
            for method, label in (("k=30", "EUPG, k=30"), ("synthesis ε=1", "EUPG, synthesis ε=1")):
                points = {share or _NOBODY: served(book, t, model, method, share) for share in (0.0, *SHARES)}
                line(one, points, LOOKS[method], label)
            points = {share: scratch(book, t, model, share) for share in SHARES}
            line(one, points, LOOKS["From scratch"], "from scratch on the same people")
            level(one, scratch(book, t, model, 1.0), LOOKS["Retrain"], "Retrain on everyone")
            level(one, short(book, t, model), LOOKS["Short retrain"], "short retrain on everyone")
            one.set_xscale("log")
            ticks(one, (_NOBODY, *SHARES), ("0", *(f"{100 * share:g}" for share in SHARES)))
            one.set_title(title(t, f", {MODELS[model]}"), fontsize=10)
            tidy(one)
    for one in grid[-1]:
        one.set_xlabel("people ever seen raw, %")
    legend(grid[0, 0].figure, columns=3)


def synthesis(axes: Any, book: Book) -> None:
    """Draw the utility of bases that never saw a raw record against ε."""
    grid = panels(axes, 2, 3)
    for row, model in zip(grid, _LEARNERS, strict=True):
        for one, t in zip(row, SETS, strict=True):
            points = {float(e): served(book, t, model, f"synthesis ε={e}", 0.0) for e in EPSILONS}
            line(one, points, LOOKS["synthesis ε=1"], "synthesis, whole records (label too)")
            level(one, served(book, t, model, "k=30", 0.0), LOOKS["k=30"], "k=30")
            level(one, scratch(book, t, model, 1.0), LOOKS["Retrain"], "Retrain on everyone")
            level(one, short(book, t, model), LOOKS["Short retrain"], "short retrain on everyone")
            one.set_xscale("log")
            ticks(one, [float(e) for e in EPSILONS], EPSILONS)
            one.set_title(title(t, f", {MODELS[model]}"), fontsize=10)
            tidy(one)
            _local(one, {name: served(book, t, model, name, 0.0) for name in ("ε=1", "ε=4")})
    for one in grid[-1]:
        one.set_xlabel("ε of the base")
    legend(grid[0, 0].figure, columns=2)


def _local(axes: Any, found: dict[str, Spread | None]) -> None:
    """Draw bases under local DP where they fall into the picture, and name them where they lie below it."""
    low, high = axes.get_ylim()
    inside = {float(name[2:]): one for name, one in found.items() if one is not None and one.mean > low}
    line(axes, inside, LOOKS["ε=1"], "local DP, attributes only")
    axes.set_ylim(low, high)
    below(axes, [f"local DP {name}, {one.mean:.1f}" for name, one in found.items() if one and one.mean <= low])


def time(axes: Any, book: Book) -> None:
    """Draw utility after forgetting against the time of a forget, all methods, of the paper's models."""
    _time(axes, book, _LEARNERS)


def time_others(axes: Any, book: Book) -> None:
    """Draw the same of the models that the paper lacks."""
    _time(axes, book, _OTHERS)


def _time(axes: Any, book: Book, models: tuple[str, ...]) -> None:
    grid = panels(axes, len(models), 3)
    found = by_model(book, *PLAIN)
    for row, model in zip(grid, models, strict=True):
        quality, clock = found[model], timed(book)[model]
        for one, t in zip(row, SETS, strict=True):
            points = [
                _Point(method, forget_seconds(book, clock, quality, t, method), quality.spread(t, method))
                for method in clock.grid.methods
            ]
            for method in ("k=30", "synthesis ε=1"):
                kept = book.values(where(t, model, method, 0.0), "seconds.erase outside")
                utility = served(book, t, model, method, 0.0)
                points.append(_Point(f"base alone, {method}: no training", median(kept) if kept else None, utility))
            _scatter(one, points)
            one.set_xscale("log")
            one.set_title(title(t, f", {MODELS[model]}"), fontsize=10)
            one.margins(0.12)
            tidy(one)
    for one in grid[-1]:
        one.set_xlabel("seconds of a forget")
        one.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
    legend(grid[0, 0].figure, columns=3)


class _Point(NamedTuple):
    """A method in the picture of time: missing where its time or its utility is."""

    name: str
    seconds: float | None
    utility: Spread | None


def _scatter(axes: Any, points: list[_Point]) -> None:
    known = [(p.name, p.seconds, p.utility) for p in points if p.seconds is not None and p.utility is not None]
    best = max((utility.mean for _, _, utility in known), default=0.0)
    for name, x, y in known:
        if y.mean > best - _REACH:
            marks = _STARS[name] if name in _STARS else LOOKS[name].marks | {"markersize": 7}
            axes.errorbar(x, y.mean, y.std, linestyle="none", label=name, capsize=2, elinewidth=0.8, **marks)
    below(axes, [f"{name}, {y.mean:.1f}" for name, _, y in known if y.mean <= best - _REACH])


def forget_seconds(book: Book, clock: View, quality: View, t: str, method: str) -> float | None:
    """Return the median time of a forget: measured alone where that was done, else beside other processes."""
    alone = timed_alone(book)
    found = book.values((clock if alone else quality).where(t, method), FORGET)
    return median(found) if found else None


def timed_alone(book: Book) -> bool:
    """Tell whether every forget was timed with nothing beside."""
    return all(
        book.runs(timed(book)[model].where(t, method))
        for model in (*_LEARNERS, *_OTHERS)
        for method in timed(book)[model].grid.methods
        for t in SETS
    )
