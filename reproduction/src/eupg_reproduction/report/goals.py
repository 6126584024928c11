"""What was to be shown, what was found, and whether that is enough."""

from __future__ import annotations

from eupg_reproduction.report.agreement import compared, reached
from eupg_reproduction.report.audits import Covered, after_unlearning_counts, known_exposure
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.pictures import picture_goals
from eupg_reproduction.report.quality import EUPG
from eupg_reproduction.report.runtime import average, timed
from eupg_reproduction.report.sweeps import budget
from eupg_reproduction.report.view import SHORT
from eupg_reproduction.report.words import MISSING, MODELS, NONE, met, ratio, shown

_UTILITY, _COVERED = 0.9, 0.9
# On networks 5 of 50 epochs cannot give more than ten times; nine in ten counts as about that.
_FASTER = {"mlp": (9.0, "about 10×, at 5 of 50 epochs"), "xgboost": (2.7, "at least the paper's 2.7×")}


def goals(book: Book) -> list[list[str]]:
    """Return one row a goal: what it is, what was found, whether it is met."""
    times = [*(_speed(book, model) for model in _FASTER), _budget(book)]
    return [_utility(book), _audits(book), *_exposure(book), *times, *picture_goals(book)]


def _utility(book: Book) -> list[str]:
    cells = list(compared(book))
    known = [cell for cell in cells if cell.ours is not None]
    good = sum(not cell.missed for cell in known)
    words = "at least 90 % of the paper's utility cells on tables of people within 0.5 points, or better"
    return [words, reached(cells), met(good >= _UTILITY * len(known) if known else None)]


def _audits(book: Book) -> list[str]:
    counts = after_unlearning_counts(book).values()
    total = Covered(sum(c.covers for c in counts), sum(c.total for c in counts))
    words = "audits after unlearning: at least 90 % of their 95 % intervals cover 50"
    return [
        words,
        str(total) if total.total else MISSING,
        met(total.covers >= _COVERED * total.total if total.total else None),
    ]


def _exposure(book: Book) -> list[list[str]]:
    return [
        [
            f"exposure found before unlearning, {name}: AUC at least {least}",
            shown(found, 1),
            met(found and found.mean >= least),
        ]
        for name, found, least in known_exposure(book)
    ]


def _speed(book: Book, model: str) -> list[str]:
    view, (least, words) = timed(book)[model], _FASTER[model]
    eupg, short = average(view, EUPG[0]), average(view, SHORT)
    found = MISSING if eupg is None else f"{ratio(eupg)} (short retrain {ratio(short)})"
    return [
        f"a forget by EUPG k=30 against Retrain, {MODELS[model]}: {words}",
        found,
        met(None if eupg is None else eupg >= least),
    ]


def _budget(book: Book) -> list[str]:
    words = "the smallest budget of EUPG k=30 within 0.1 points of its 5 epochs, MLP: faster than Retrain by"
    found = budget(book)
    return [words, f"{found['budget_eupg']} (short retrain {found['budget_short']})", NONE]
