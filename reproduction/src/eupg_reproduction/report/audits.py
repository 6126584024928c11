"""What membership inference finds: nothing after unlearning, as it should be, and how much before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from eupg_reproduction.experiments import experiment
from eupg_reproduction.report.book import Book, Where, place
from eupg_reproduction.report.quality import views
from eupg_reproduction.report.refuted import refuted
from eupg_reproduction.report.view import View
from eupg_reproduction.report.words import MISSING, MODELS, NONE, SETS, listed, percent, shown, signed, span, table
from eupg_reproduction.spread import Spread

_GROUPS = ("seen raw", "never seen raw")
_METHODS = ("Retrain", "Short retrain", "SISA", "Certified-SP", "EUPG k=30", "EUPG ε=1")
_QUALITY = ("quality_mlp", "quality_xgboost", "quality_others")
# What a sound attack must find before anything is forgotten; else "nothing found" afterwards says nothing.
KNOWN = {("adult", "xgboost"): 56, ("heart", "xgboost"): 62}


class Covered(NamedTuple):
    """In how many repetitions the 95 % interval of an audit covers 50, what a guess gives."""

    covers: int
    total: int

    def __str__(self) -> str:
        """Show it as a count."""
        return f"{self.covers} of {self.total}"


def covered(book: Book, where: Where, audit: str) -> Covered:
    """Count the intervals of an audit that cover 50."""
    ends = zip(book.values(where, f"{audit}.low"), book.values(where, f"{audit}.high"), strict=True)
    marks = [low <= 50 <= high for low, high in ends]
    return Covered(sum(marks), len(marks))


def after_unlearning_counts(book: Book) -> dict[str, Covered]:
    """Count by method, over all sets and models, the audits after unlearning whose interval covers 50."""
    found = {}
    for method in _METHODS:
        counts = [covered(book, view.where(t, method), "after.audit") for view, t in _places(book, method)]
        found[method] = Covered(sum(c.covers for c in counts), sum(c.total for c in counts))
    return found


def after_unlearning(book: Book) -> dict[str, str]:
    """Return the values of the section on audits after unlearning."""
    counts, rows = after_unlearning_counts(book), []
    for method, count in counts.items():
        found = [view.spread(t, method, "after.audit.auc") for view, t in _places(book, method)]
        means = span(one.mean for one in found if one is not None)
        rows.append([method, str(count) if count.total else MISSING, means])
    total = sum(count.total for count in counts.values())
    covers = sum(count.covers for count in counts.values())
    return {
        "table": table(["method", "intervals that cover 50", "mean AUC, by set and model"], rows),
        "covers": f"{covers} of {total} ({100 * covers / total:.0f} %)" if total else MISSING,
        "outside": listed(list(_outside(book)), "none"),
    }


def _places(book: Book, method: str) -> Iterator[tuple[View, str]]:
    for view in (view for name in _QUALITY for view in views(book, name)):
        if method in view.grid.methods:
            yield from ((view, t) for t in view.grid.sets)


def _outside(book: Book) -> Iterator[str]:
    """Name the places where more than one repetition in five finds something."""
    for method in _METHODS:
        for view, t in _places(book, method):
            count = covered(book, view.where(t, method), "after.audit")
            found = view.spread(t, method, "after.audit.auc")
            if found is not None and count.total - count.covers > 1:
                yield f"{SETS[t]} {MODELS[view.model]} {method} (mean {found.mean:.1f}, {count} cover 50)"


def known_exposure(book: Book) -> list[tuple[str, Spread | None, int]]:
    """Return what the audit finds before unlearning where it must find something, and how much that is."""
    found = []
    for (t, model), least in KNOWN.items():
        (view,) = views(book, f"quality_{model}")
        found.append((f"{SETS[t]} {MODELS[model]}", view.spread(t, "Retrain", "before.audit.auc"), least))
    return found


class _Seen(NamedTuple):
    """One group of people in one audited model."""

    method: str
    share: float
    table: str
    group: str
    auc: Spread | None
    covering: Covered


def exposure_audit(book: Book) -> dict[str, str]:
    """Return the values of the section on membership inference before any erasure."""
    found = list(_seen(book))
    rows = []
    for one in (one for one in found if one.group == _GROUPS[0]):
        cells = []
        for other in (o for o in found if o[:3] == one[:3]):
            apply = (other.share, other.group) not in ((0.0, _GROUPS[0]), (1.0, _GROUPS[1]))
            cells += (
                [shown(other.auc, 1), str(other.covering)] if apply and other.auc else [MISSING if apply else NONE] * 2
            )
        rows.append([one.method, percent(one.share), SETS[one.table], *cells])
    head = ["protection", "exposed", "set", "seen raw: AUC", "covers 50", "never seen raw: AUC", "covers 50"]
    values = {
        "table": table(head, rows),
        "sure": listed([_sure(one) for one in found if 2 * one.covering.covers < one.covering.total]),
    }
    for method, word in (("k=30", "k"), ("synthesis ε=1", "synthesis")):
        for group in _GROUPS:
            means = [one.auc.mean for one in found if one.auc and (one.method, one.group) == (method, group)]
            values[f"{word}_{group.split(' ')[0]}"] = span(means)
    return values | refuted(book)


def _seen(book: Book) -> Iterator[_Seen]:
    for grid in experiment("exposure_audit").grids:
        shares = grid.settings["exposure"]
        for share in shares if isinstance(shares, tuple) else (shares,):
            for t in grid.sets:
                where = place(grid, t, "xgboost", grid.methods[0], {"exposure": share})
                for group in _GROUPS:
                    some = [run for run in book.runs(where) if group in run.metrics]
                    auc = Spread.of([float(run.metrics[group]["auc"]) for run in some]) if some else None
                    marks = [run.metrics[group]["low"] <= 50 <= run.metrics[group]["high"] for run in some]
                    yield _Seen(grid.methods[0], float(share), t, group, auc, Covered(sum(marks), len(marks)))


def _sure(one: _Seen) -> str:
    assert one.auc is not None
    return (
        f"{SETS[one.table]}, {one.method}, {percent(one.share)} exposed, {one.group} ({signed(one.auc.mean - 50, 1)})"
    )
