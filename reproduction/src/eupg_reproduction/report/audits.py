"""Audits in the report: intervals that cover chance, people seen raw and never seen raw, and lower bounds on ε."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from eupg.protect.synthesis.mechanism import DPSynthesis
from eupg_reproduction import methods
from eupg_reproduction.epsilon_models import NEVER, UNPROTECTED
from eupg_reproduction.report.tidy import Measurements, Where, mean_of, places
from eupg_reproduction.report.words import MISSING, MODELS, SETS, listed, percent, signed, span

GROUPS = ("seen raw", "never seen raw")


class Coverage(NamedTuple):
    """The repetitions in which the 95 % interval of an audit covers 50, which is chance."""

    covers: int
    total: int

    def __str__(self) -> str:
        """Return the count of the total."""
        return f"{self.covers} of {self.total}" if self.total else MISSING


def coverage(measurements: Measurements, where: Where, audit: str = "after.audit") -> Coverage:
    """Count the intervals of an audit that cover 50."""
    ends = zip(measurements.values(where, f"{audit}.low"), measurements.values(where, f"{audit}.high"), strict=True)
    covers = [low <= 50 <= high for low, high in ends]
    return Coverage(sum(covers), len(covers))


def audited_groups(measurements: Measurements) -> pd.DataFrame:
    """Return the audits before any erasure, of people seen raw and never seen raw."""
    rows = []
    for where in places("exposure_audit"):
        row: dict[str, Any] = {"method": where["method"], "exposure": where["exposure"], "set": SETS[str(where["set"])]}
        for group in GROUPS:
            auc, count = measurements.spread(where, f"{group}.auc"), coverage(measurements, where, group)
            row |= {f"{group}, AUC": mean_of(auc), f"{group}, AUC ±": auc.std if auc else None}
            row |= {f"{group}, covers 50": count.covers if auc else None, f"{group}, runs": count.total}
        rows.append(row)
    return pd.DataFrame(rows)


def exposed_groups(table: pd.DataFrame) -> str:
    """Name the groups in which most repetitions of the audit find something."""
    words = [
        f"{row['set']}, {row.method}, {percent(row.exposure)} exposed, {group} ({signed(row[f'{group}, AUC'] - 50, 1)})"
        for _, row in table.iterrows()
        for group in GROUPS
        if row[f"{group}, runs"] and 2 * row[f"{group}, covers 50"] < row[f"{group}, runs"]
    ]
    return listed(words)


class EpsilonAudit(NamedTuple):
    """The lower bounds on ε of one way to make a model; ``claimed`` is None for a control."""

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
        """The ε of the base alone; None without protection."""
        mechanism = None if self.method == UNPROTECTED else methods.mechanism(self.method)
        return mechanism.epsilon if isinstance(mechanism, DPSynthesis) else None

    def __str__(self) -> str:
        """Return its name and its bound."""
        way = f"{percent(self.share)} exposed, {self.canary}" if self.base is not None else "all seen raw"
        return f"{self.method}, {SETS[self.table]} {MODELS[self.model]}, {way} ({span(self.bounds, 2)})"


def epsilon_audits(measurements: Measurements) -> Iterator[EpsilonAudit]:
    """Yield every way of the experiment, claims and controls, whether or not it was measured."""
    for where in places("epsilon_models"):
        method, t, model, canary = (str(where[key]) for key in ("method", "set", "model", "canary"))
        bounds, mosts, counts = (measurements.values(where, figure) for figure in ("bound.epsilon", "most", "runs"))
        one = EpsilonAudit(method, t, model, float(where["exposure"]), canary, None, bounds, mosts, counts)
        yield one._replace(claimed=one.base if one.canary == NEVER else None)


def epsilon_claims(measurements: Measurements) -> str:
    """State which claims are refuted, or the largest bound."""
    known = [(one, one.claimed) for one in epsilon_audits(measurements) if one.claimed is not None and one.bounds]
    if not known:
        return f"Claims: {MISSING}."
    refuted = [str(one) for one, claimed in known if max(one.bounds) > claimed]
    if refuted:
        return f"**{len(refuted)} of {len(known)} claims are refuted**, with these bounds: {listed(refuted)}."
    top = max((one for one, _ in known), key=lambda one: max(one.bounds))
    largest = f"the largest bound is that of {top}" if max(top.bounds) else "no bound is above 0"
    # A claim above the largest bound that this many runs can give cannot be refuted by them.
    beyond = sum(claimed >= max(one.mosts) for one, claimed in known)
    return f"None of the {len(known)} claims is refuted; {largest}. {beyond} claim more than these runs can refute."


def epsilon_controls(measurements: Measurements) -> str:
    """State in how many controls the canary is found."""
    known = [one for one in epsilon_audits(measurements) if one.claimed is None and one.bounds]
    if not known:
        return f"Controls: {MISSING}."
    raw = [(one, one.base) for one in known if one.base is not None]
    # A bound above the ε of the base can only come from the raw record.
    exceeding = [str(one) for one, base in raw if max(one.bounds) > base]
    bare = span((bound for one in known if one.base is None for bound in one.bounds), 2)
    return (
        f"Controls: without protection the bound is {bare}; of {len(raw)} models that see the canary raw, "
        f"{len(exceeding)} exceed the ε of their base ({listed(exceeding, 'none')}), and "
        f"{sum(not max(one.bounds) for one in known)} show nothing."
    )
