"""Tables of bases from full-record DP synthesis: utility against ε with nobody seen raw, and with some."""

from __future__ import annotations

from eupg.learn.recipes import MODELS as LEARNERS
from eupg_reproduction.experiments import experiment
from eupg_reproduction.report.book import Book
from eupg_reproduction.report.frontier import PLACES, counted, frontier_table, scratch, served, short
from eupg_reproduction.report.versus import Pair, verdict
from eupg_reproduction.report.view import above, sentences
from eupg_reproduction.report.words import MISSING, MODELS, SETS, mean, shown, span, table

EPSILONS = tuple(method.removeprefix("synthesis ε=") for method in experiment("synthesis").grids[0].methods)
ONE = "synthesis ε=1"
_SHARES = (0.02, 0.05, 1.0)


def synthesis(book: Book) -> dict[str, str]:
    """Return the values of the section on synthesis."""
    values = {
        "base_table": _base_table(book),
        "frontier_table": frontier_table(book, ONE, _SHARES),
        **counted(book, ONE, _SHARES[:2], "few"),
        **counted(book, ONE, _SHARES[2:], "all"),
    }
    for t in SETS:
        values[f"best_{t}"] = best(book, t, ONE)
        values[f"retrain_{t}"] = best(book, t, None)
        values[f"low_{t}"] = best(book, t, "synthesis ε=0.25")
        values[f"tight_{t}"] = best(book, t, "synthesis ε=0.1")
    for t in SETS:
        values[f"lost_{t}"] = span((_above_retrain(book, t, m, ONE) for m in LEARNERS), sign=True)
        values[f"over_local_{t}"] = span((_over(book, t, m, "ε=1") for m in LEARNERS), sign=True)
        values[f"over_k30_{t}"] = span((_over(book, t, m, "k=30") for m in LEARNERS), sign=True)
    return values | {"control": _controls(book), "worst_draw": _worst(book)}


def best(book: Book, t: str, method: str | None) -> str:
    """Name the best utility over the learners: of a base alone, or of Retrain."""
    found = {m: served(book, t, m, method, 0.0) if method else scratch(book, t, m, 1.0) for m in LEARNERS}
    known = {m: one for m, one in found.items() if one is not None}
    if not known:
        return MISSING
    top = max(known, key=lambda m: known[m].mean)
    return f"{known[top].mean:.1f} ({MODELS[top]})"


def _base_table(book: Book) -> str:
    rows = []
    for t, model in PLACES:
        bases = [served(book, t, model, f"synthesis ε={e}", 0.0) for e in EPSILONS]
        beside = [served(book, t, model, name, 0.0) for name in ("ε=1", "ε=4", "k=30")]
        controls = [scratch(book, t, model, 1.0), short(book, t, model)]
        rows.append(
            [f"{SETS[t]}, {MODELS[model]}", *(shown(one, 1) for one in bases), *map(mean, beside), *map(mean, controls)]
        )
    head = ["", *(f"ε={e}" for e in EPSILONS), "local ε=1", "local ε=4", "k=30", "Retrain", "short retrain"]
    return table(head, rows)


def _above_retrain(book: Book, t: str, model: str, method: str) -> float | None:
    return above(served(book, t, model, method, 0.0), scratch(book, t, model, 1.0))


def _over(book: Book, t: str, model: str, other: str) -> float | None:
    return above(*(served(book, t, model, m, 0.0) for m in (ONE, other)))


def _controls(book: Book) -> str:
    """Say where a base that never saw anyone is beaten by the short retrain, which sees everyone."""
    lines = []
    for t in SETS:
        pairs = [Pair(MODELS[m], served(book, t, m, ONE, 0.0), short(book, t, m)) for m in LEARNERS]
        lines.append(verdict(f"{SETS[t]}: the base at ε=1", pairs).replace(" on ", " with "))
    return sentences(lines)


def _worst(book: Book) -> str:
    """Name the widest spread between draws at ε=1."""
    found = {(t, m): served(book, t, m, ONE, 0.0) for t, m in PLACES}
    known = {where: one for where, one in found.items() if one is not None}
    if not known:
        return MISSING
    t, m = max(known, key=lambda where: known[where].std)
    return f"{known[t, m].std:.1f} ({SETS[t]}, {MODELS[m]})"
