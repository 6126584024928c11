"""What attacks find: intervals that cover a guess, people seen raw and never seen raw, and which ε is refuted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from eupg.protect.synthesis import DPSynthesis
from eupg_reproduction import methods
from eupg_reproduction.epsilon_models import NEVER, UNPROTECTED
from eupg_reproduction.report.tidy import Book, Where, mean_of, places
from eupg_reproduction.report.words import MISSING, MODELS, SETS, listed, percent, signed, span

GROUPS = ("seen raw", "never seen raw")


class Covered(NamedTuple):
    """In how many repetitions the 95 % interval of an audit covers 50, what a guess gives."""

    covers: int
    total: int

    def __str__(self) -> str:
        """Show it as a count."""
        return f"{self.covers} of {self.total}" if self.total else MISSING


def covered(book: Book, where: Where, audit: str = "after.audit") -> Covered:
    """Count the intervals of an audit that cover 50."""
    ends = zip(book.values(where, f"{audit}.low"), book.values(where, f"{audit}.high"), strict=True)
    marks = [low <= 50 <= high for low, high in ends]
    return Covered(sum(marks), len(marks))


def together(counts: Iterable[Covered]) -> Covered:
    """Put counts together."""
    covers, totals = zip(*counts, strict=True)
    return Covered(sum(covers), sum(totals))


def audited_groups(book: Book) -> pd.DataFrame:
    """Return what membership inference finds before any erasure, of people seen raw and never seen raw."""
    rows = []
    for where in places("exposure_audit"):
        row: dict[str, Any] = {"method": where["method"], "exposure": where["exposure"], "set": SETS[str(where["set"])]}
        for group in GROUPS:
            auc, count = book.spread(where, f"{group}.auc"), covered(book, where, group)
            row |= {f"{group}, AUC": mean_of(auc), f"{group}, AUC ±": auc.std if auc else None}
            row |= {f"{group}, covers 50": count.covers if auc else None, f"{group}, runs": count.total}
        rows.append(row)
    return pd.DataFrame(rows)


def found_out(table: pd.DataFrame) -> str:
    """Say where most repetitions found something before any erasure."""
    words = [
        f"{row['set']}, {row.method}, {percent(row.exposure)} exposed, {group} ({signed(row[f'{group}, AUC'] - 50, 1)})"
        for _, row in table.iterrows()
        for group in GROUPS
        if row[f"{group}, runs"] and 2 * row[f"{group}, covers 50"] < row[f"{group}, runs"]
    ]
    return listed(words)


class Tried(NamedTuple):
    """One way to make a model, attacked in some repetitions; ``claimed`` is None for a control."""

    method: str
    table: str
    model: str
    share: float
    canary: str
    claimed: float | None
    bounds: Sequence[float]
    mosts: Sequence[float]
    counts: Sequence[float]

    @property
    def base(self) -> float | None:
        """The ε of the base alone, whatever it was fine-tuned on; None where nothing is protected."""
        mechanism = None if self.method == UNPROTECTED else methods.mechanism(self.method)
        return mechanism.epsilon if isinstance(mechanism, DPSynthesis) else None

    def __str__(self) -> str:
        """Name it, with what was found."""
        way = f"{percent(self.share)} exposed, {self.canary}" if self.base is not None else "all seen raw"
        bound = "nothing" if self.bounds and not any(self.bounds) else span(self.bounds, 2)
        return f"{self.method}, {SETS[self.table]} {MODELS[self.model]}, {way} ({bound})"


def tried(book: Book) -> Iterator[Tried]:
    """Yield every way of the experiment, claims and controls, whether it was measured or not."""
    for where in places("epsilon_models"):
        method, t, model, canary = (str(where[key]) for key in ("method", "set", "model", "canary"))
        bounds, mosts, counts = (book.values(where, figure) for figure in ("bound.epsilon", "most", "runs"))
        one = Tried(method, t, model, float(where["exposure"]), canary, None, bounds, mosts, counts)
        yield one._replace(claimed=one.base if one.canary == NEVER else None)


def refuted_claims(book: Book) -> str:
    """Say which claims are refuted, or how near any came to it."""
    known = [one for one in tried(book) if one.claimed is not None and one.bounds]
    if not known:
        return f"Claims: {MISSING}."
    broken = [str(one) for one in known if one.claimed is not None and max(one.bounds) > one.claimed]
    if broken:
        return f"**{len(broken)} of {len(known)} claims are refuted** (below what): {listed(broken)}."
    top = max(known, key=lambda one: max(one.bounds))
    largest = f"the largest bound is that of {top}" if max(top.bounds) else "no bound is above 0"
    # An ε above what so many runs can show stands whatever they find.
    safe = sum(one.claimed is not None and one.claimed >= max(one.mosts) for one in known)
    return (
        f"None of the {len(known)} claims is refuted; {largest}. {safe} of them claim more than these runs can refute."
    )


def refuted_controls(book: Book) -> str:
    """Say in which controls the canary is found, and in which it is not."""
    known = [one for one in tried(book) if one.claimed is None and one.bounds]
    if not known:
        return f"Controls: {MISSING}."
    raw = [one for one in known if one.base is not None]
    # Above the ε of the base a bound can only come from what was seen raw.
    sure = [str(one) for one in raw if one.base is not None and max(one.bounds) > one.base]
    lost = [str(one) for one in known if not max(one.bounds)]
    bare = span((bound for one in known if one.base is None for bound in one.bounds), 2)
    return (
        f"Controls: without protection the bound is {bare}. Of {len(raw)} served models that see the canary raw, "
        f"{len(sure)} exceed the ε of their base, so that it was the raw record that showed: {listed(sure, 'none')}. "
        f"Controls in which nothing is found: {listed(lost, 'none')}."
    )
