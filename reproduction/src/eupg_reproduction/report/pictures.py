"""The section on images: the paper's table for ResNet-18 beside ours, two recipes, what audits find, and the goals."""

from __future__ import annotations

from collections.abc import Sequence

from eupg_reproduction.published import published
from eupg_reproduction.report.audits import Covered, covered
from eupg_reproduction.report.book import REPEATS, Book, asked, measured
from eupg_reproduction.report.picture_places import (
    METHODS,
    MODEL,
    RMIA,
    SET,
    base_epochs,
    better_methods,
    better_recipe,
    blocks,
    by_block,
    declared,
    everywhere,
    paper_recipe,
    tuned_epochs,
)
from eupg_reproduction.report.picture_search import Searched, search_table
from eupg_reproduction.report.picture_sweeps import block_table, epochs_tables, shown_table
from eupg_reproduction.report.picture_times import times
from eupg_reproduction.report.quality import COMPARED, EUPG, FIGURES, beside_paper
from eupg_reproduction.report.versus import Pair, verdict
from eupg_reproduction.report.view import SHORT, UTILITY, View, above, sentences
from eupg_reproduction.report.words import MISSING, NONE, listed, mean, met, shown, signed, span, table
from eupg_reproduction.spread import Spread

_RETRAIN, _LEAST = 94.0, {EUPG[0]: 85.4, EUPG[1]: 83.2}
_BEST, _CLEARLY, _COLLAPSE, _COVERED = 90.0, 1.0, 2.0, 0.9


def images(book: Book) -> dict[str, str]:
    """Return the values of the section on images."""
    view = paper_recipe(book)
    return {
        **_quality(view),
        "runs": _runs(book),
        "devices": _devices(book),
        "recipes_table": _recipes(book),
        "control": control(book),
        "better_short": _gain(book, SHORT),
        "sisa": _signed(above(view.spread(SET, "SISA"), view.spread(SET, "SISA", "before.utility"))),
        "sisa_below": _signed(above(view.spread(SET, "SISA"), view.spread(SET, "Retrain"))),
        "certified_short": _signed(above(view.spread(SET, "Certified-SP"), view.spread(SET, SHORT))),
        "before_retrain": view.shown(SET, "Retrain", "before.audit.auc", 1),
        "before_eupg": span(_mean(view.spread(SET, m, "before.audit.auc")) for m in EUPG),
        "before_short": view.shown(SET, SHORT, "before.audit.auc", 1),
        "before_paper": mean(_paper("Retrain", "before")),
        "after_paper": span(_mean(_paper(m, "after")) for m in METHODS if m != "Retrain"),
        **_audits(book),
        **search_table(book.searched or Searched()),
        **block_table(book),
        **shown_table(book),
        **epochs_tables(book),
        **times(book),
    }


def _quality(view: View) -> dict[str, str]:
    """Return three tables beside the paper's, and how many of its figures lie inside the two spreads."""
    found = {}
    for metric in FIGURES:
        rows = [[m, *beside_paper(view, "quality_resnet18", SET, m, metric)] for m in METHODS]
        marks = [mark for row in rows for mark in (row[4], row[8]) if mark != NONE]
        found[f"table_{metric}"] = table(COMPARED, rows)
        found[f"inside_{metric}"] = f"{marks.count('yes')} of {len(marks)}" if marks else MISSING
    return found


def _paper(method: str, phase: str) -> Spread | None:
    return published("quality_resnet18", SET, MODEL, method, "mia_auc", phase)


def _runs(book: Book) -> str:
    """Say how many runs of the pictures there are to be, and how many there are."""
    wanted = {cell.key for one in measured() if one.gpu for cell in one.cells(REPEATS)}
    return f"{sum(key in book.results for key in wanted)} of {len(wanted)}"


def _devices(book: Book) -> str:
    """Name the devices on which the runs were made."""
    found = {
        str(run.metrics["device"]) for where in everywhere() for run in book.runs(where) if "device" in run.metrics
    }
    return listed(sorted(found), MISSING)


def _recipes(book: Book) -> str:
    rows = []
    for method in better_methods():
        paper, better = paper_recipe(book), better_recipe(book, method)
        views = (paper, better)
        apart = above(*(view.spread(SET, method) for view in (better, paper)))
        rows.append(
            [
                method,
                base_epochs(better.where(SET, method)),
                *(declared(view, method, UTILITY) for view in views),
                NONE if apart is None else signed(apart),
                *(declared(view, method, RMIA) for view in views),
            ]
        )
    head = ["method", "epochs of the better base", "paper's recipe", "better recipe", "difference"]
    return table([*head, "RMIA AUC, paper's recipe", "RMIA AUC, better recipe"], rows)


def control(book: Book) -> str:
    """Say of EUPG under both recipes where the short retrain under the same recipe beats it."""
    lines = []
    for method in (m for m in better_methods() if m != SHORT):
        pairs = []
        for name, view, short in (
            ("the paper's recipe", paper_recipe(book), paper_recipe(book)),
            ("the better recipe", better_recipe(book, method), better_recipe(book, SHORT)),
        ):
            if asked(view.where(SET, method)):
                pairs.append(Pair(name, view.spread(SET, method), short.spread(SET, SHORT)))
        lines.append(judged(method, pairs))
    return sentences(lines)


def judged(method: str, pairs: Sequence[Pair]) -> str:
    """Give a verdict where both sides were run at least twice; one run has no spread to judge by.

    Examples
    --------
    >>> judged("EUPG", [Pair("a", Spread(90.0, 0.1, 3), Spread(88.0, 0.1, 3))])
    'EUPG is beaten nowhere, level nowhere and ahead under a (+2.00)'
    >>> judged("EUPG", [Pair("a", Spread(90.0, 0.0, 1), Spread(88.0, 0.1, 3))])
    'EUPG: under a +2.00 in a single run, too few to judge'
    """
    alone, enough = list[str](), list[Pair]()
    for pair in pairs:
        if pair.method is not None and pair.control is not None and min(pair.method.count, pair.control.count) < 2:
            alone.append(f"under {pair.place} {signed(pair.method.minus(pair.control))} in a single run")
        else:
            enough.append(pair)
    parts = [verdict(method, enough).replace(" on ", " under ")] if enough else []
    if alone:
        parts.append(f"{'' if enough else f'{method}: '}{listed(alone)}, too few to judge")
    return "; ".join(parts)


def _gain(book: Book, method: str) -> str:
    return _signed(above(better_recipe(book, method).spread(SET, method), paper_recipe(book).spread(SET, method)))


def _signed(difference: float | None) -> str:
    return MISSING if difference is None else signed(difference)


def _mean(found: Spread | None) -> float | None:
    return None if found is None else found.mean


def _audits(book: Book) -> dict[str, str]:
    """Count the intervals that cover 50: after unlearning, and of bases alone, which no request changes."""
    groups: dict[str, list[Covered]] = {}
    means: dict[str, list[float | None]] = {}
    for where in sorted(everywhere(), key=lambda where: where["finetune"] == 0):
        name = str(where["method"]) + ("" if where["finetune"] else ", base alone")
        groups.setdefault(name, []).append(covered(book, where, "after.audit"))
        means.setdefault(name, []).append(_mean(book.spread(where, RMIA)))
    rows = []
    for name, counts in groups.items():
        count = _together(counts)
        rows.append([name, str(count) if count.total else MISSING, span(means[name])])
    total = covered_after(book)
    return {
        "audits_table": table(["method", "intervals that cover 50", "AUC, over recipes and epochs"], rows),
        "covers": f"{total} ({100 * total.covers / total.total:.0f} %)" if total.total else MISSING,
    }


def covered_after(book: Book) -> Covered:
    """Count the audits after unlearning whose interval covers 50; bases alone have unlearned nothing."""
    return _together([covered(book, where, "after.audit") for where in everywhere() if where["finetune"]])


def _together(counts: Sequence[Covered]) -> Covered:
    return Covered(sum(count.covers for count in counts), sum(count.total for count in counts))


def picture_goals(book: Book) -> list[list[str]]:
    """Return one row a goal: what it is, what was found, whether it is met."""
    view = paper_recipe(book)
    full, total = view.spread(SET, "Retrain"), covered_after(book)
    covers = total.covers >= _COVERED * total.total if total.total else None
    words = "images, audits after unlearning: at least 90 % of their 95 % intervals cover 50"
    return [
        [
            f"images, Retrain after unlearning: at least {_RETRAIN:g}",
            view.shown(SET, "Retrain"),
            met(full and full.mean >= _RETRAIN),
        ],
        *(_reaches(book, method, least) for method, least in _LEAST.items()),
        _best_block(book),
        _no_collapse(view),
        [words, str(total) if total.total else MISSING, met(covers)],
    ]


def _reaches(book: Book, method: str, least: float) -> list[str]:
    """Ask of both recipes whether EUPG is as good as in the paper, beside its control."""
    views = {"the paper's recipe": (paper_recipe(book),) * 2}
    views["the better"] = (better_recipe(book, method), better_recipe(book, SHORT))
    known = [found.mean for view, _ in views.values() if (found := view.spread(SET, method)) is not None]
    words = f"images, {method} after unlearning, 5 epochs by either recipe: at least the paper's {least:g}"
    beside = "; ".join(
        f"{name} {view.shown(SET, method)}, short retrain {short.shown(SET, SHORT)}"
        for name, (view, short) in views.items()
    )
    return [words, beside if known else MISSING, met(max(known) >= least if known else None)]


def _best_block(book: Book) -> list[str]:
    """Ask of the best size of a block, chosen by this very figure, whether it is good and ahead of its control."""
    count = tuned_epochs()
    view = by_block(book, count)
    short = better_recipe(book, SHORT).spread(SET, SHORT)
    known = {method: found for method in blocks().values() if (found := view.spread(SET, method)) is not None}
    words = (
        f"images, k=30 with its best block by this figure, {count} epochs: above {_BEST:g}, and above the short "
        f"retrain of the same recipe by more than {_CLEARLY:g} point and the two spreads together"
    )
    if not known:
        return [words, MISSING, MISSING]
    best = max(known, key=lambda method: known[method].mean)
    control = better_recipe(book, SHORT).shown(SET, SHORT)
    good = None
    if short is not None:
        apart = known[best].minus(short)
        good = known[best].mean > _BEST and apart > _CLEARLY and not known[best].agrees(short)
    return [words, f"{view.shown(SET, best)} ({best}); short retrain {control}", met(good)]


def _no_collapse(view: View) -> list[str]:
    found = [view.spread(SET, "SISA", f"{phase}.utility") for phase in ("before", "after")]
    lost = above(found[1], found[0])
    of = view.repeats(SET, "SISA")
    paper = [published("quality_resnet18", SET, MODEL, "SISA", "utility", phase) for phase in ("before", "after")]
    fell = " → ".join(mean(one) for one in paper)
    words = f"images, SISA does not collapse: after unlearning within {_COLLAPSE:g} points of before (paper: {fell})"
    texts = " → ".join(shown(one, of=of) for one in found)
    return [words, MISSING if lost is None else texts, met(None if lost is None else abs(lost) <= _COLLAPSE)]
