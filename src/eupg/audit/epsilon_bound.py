"""How large ε must at least be, judged from a mechanism's outputs alone.

Part of stage 6, audit. A mechanism with (ε, δ)-differential privacy gives, on two neighbouring inputs and for every set
S of outputs, P₁(S) ≤ e^ε · P₂(S) + δ. Run it many times on both inputs and count S: exact binomial bounds (Clopper and
Pearson, 1934) then refute every ε below log((low₁ − δ) / high₂). The bound can refute a claim. It can never prove one:
a larger ε may hide in a set, or in a pair of inputs, that was not tried.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eupg.audit.output_sets import OutputSet, Sample, choose, count, epsilons, words
from eupg.data.attribute import Role
from eupg.data.dataset import Dataset
from eupg.data.picture import require_table
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.guarantees import DifferentiallyPrivate
from eupg.protect.mechanism import Mechanism, rows_are_independent
from eupg.rng import Randomness
from eupg.validation import check_below_one, check_whole

Floats = NDArray[np.float64]
# With more distinct records than this, each is too rare to count: a score stands in for the record.
_MOST_OUTCOMES = 1024
_MOST_BINS = 64


@dataclass(frozen=True)
class EpsilonBound:
    """The largest ε that two samples of outputs refute, and the counts it rests on.

    Parameters
    ----------
    epsilon
        Every smaller ε is refuted; 0 where nothing is.
    delta, confidence
        The δ that was allowed for, and the chance that the bound holds.
    outputs
        The set of outputs that was counted, in words.
    hits, runs
        How often it came up on the input that favours it, and of how many runs.
    other_hits, other_runs
        The same on the other input.
    chosen_apart
        True when the set was chosen on runs that are not counted here; False when it was fixed beforehand.
    """

    epsilon: float
    delta: float
    confidence: float
    outputs: str
    hits: int
    runs: int
    other_hits: int
    other_runs: int
    chosen_apart: bool

    def contradicts(self, claim: float | DifferentiallyPrivate) -> bool:
        """Tell whether a claimed ε is too small to be true, at the stated confidence.

        A number is taken as ε at this bound's δ. An equal ε is no contradiction.
        """
        if isinstance(claim, DifferentiallyPrivate):
            if claim.delta > self.delta:
                raise ParameterError(
                    f"the claim allows delta={claim.delta:g}, the bound only {self.delta:g}: "
                    f"compute the bound with delta={claim.delta:g}"
                )
            claim = claim.epsilon
        return self.epsilon > claim

    def sentence(self) -> str:
        """Say the bound in plain words, with what it does not show."""
        budget = f" at δ={self.delta:g}" if self.delta else ""
        apart = "chosen on other runs than those counted" if self.chosen_apart else "fixed beforehand"
        return (
            f"With {100 * self.confidence:g} % confidence ε{budget} is at least {self.epsilon:.3g}: {self.outputs} "
            f"came up in {self.hits:,} of {self.runs:,} runs on one input and in {self.other_hits:,} of "
            f"{self.other_runs:,} on the other (the set was {apart}). "
            "This is a lower bound: it can refute a claim, never prove one."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def epsilon_lower_bound(
    first: ArrayLike,
    second: ArrayLike,
    *,
    confidence: float = 0.95,
    delta: float = 0.0,
    candidates: Sequence[Collection[int] | float] | None = None,
) -> EpsilonBound:
    """Find the largest ε that a mechanism's outputs on two neighbouring inputs refute.

    One half of the runs chooses the set of outputs and the direction; the other half is counted. So one set is tested,
    and the bound holds with the stated confidence, exactly: half of the error for each of its two counts. With
    ``candidates`` nothing is chosen: all runs are counted, and the error is shared by all candidates in both
    directions.

    Parameters
    ----------
    first, second
        Independent outputs on the one and on the other input. Of whole numbers or booleans, any set may be
        tried; other numbers are scores, and the sets are those at or above, or below, a threshold.
    confidence
        Chance that the true ε is not below the bound.
    delta
        The δ of the claim.
    candidates
        Sets fixed before any output was seen: collections of whole numbers, or thresholds for scores.

    Examples
    --------
    A coin that tells the truth three times in four has ε = log 3 ≈ 1.099.

    >>> truth, lie = [1] * 7500 + [0] * 2500, [1] * 2500 + [0] * 7500
    >>> found = epsilon_lower_bound(truth, lie, candidates=[{1}])
    >>> round(found.epsilon, 3), found.contradicts(1.0), found.contradicts(1.1)
    (1.047, True, False)
    """
    a, b = _sample(first, "first"), _sample(second, "second")
    if a.dtype != b.dtype:
        raise DataError(f"both samples must hold the same kind of output, got {a.dtype} and {b.dtype}: convert one")
    check_below_one("confidence", confidence)
    check_below_one("delta", delta)
    error = 1 - confidence
    if candidates is not None:
        sets = _given(a, candidates)
        error /= 2 * len(sets)
        bounds = [_bound(s, *pair, error, delta) for s in sets for pair in ((a, b), (b, a))]
        found = max(bounds, key=lambda bound: bound.epsilon)
        return replace(found, confidence=confidence, chosen_apart=False)
    if min(len(a), len(b)) < 4:
        raise DataError(f"half of the runs choose and half are counted, got {len(a)} and {len(b)}: run at least 4 each")
    # A fixed shuffle, so that samples that come sorted or in a pattern are halved fairly too.
    a, b = (sample[np.random.default_rng(0).permutation(len(sample))] for sample in (a, b))
    return _apart((a[::2], b[::2]), (a[1::2], b[1::2]), confidence, delta)


def audit_mechanism_epsilon(
    mechanism: Mechanism,
    schema: Schema,
    first_record: Mapping[str, Any],
    second_record: Mapping[str, Any],
    n: int,
    rng: Randomness,
    *,
    confidence: float = 0.95,
) -> EpsilonBound:
    """Protect one record n times, and another n times, and bound ε from what comes out.

    For mechanisms that treat each record on its own, such as local differential privacy, and say so by an attribute
    ``rows_are_independent``: n copies in one table are then n independent runs. Others are refused. A released row is
    one output, all of its attributes together. Where these are too many to count one by one, a row's score is the sum
    of its attributes' log-ratios: a quarter of the runs estimates these, a quarter chooses the threshold, and half are
    counted.

    Parameters
    ----------
    mechanism
        What to audit; its claim must be differential privacy, and its rows independent.
    schema
        What the columns mean; columns that name records or people are left out.
    first_record, second_record
        Two values of one record, as a person writes them: ``{"age": 40, "town": "A", "ill": "no"}``.
    n
        Runs on each.
    """
    require_table(schema, "audit_mechanism_epsilon", "epsilon_lower_bound, with outputs of its runs on two pictures")
    claim = mechanism.guarantee(schema)
    if not isinstance(claim, DifferentiallyPrivate):
        raise ParameterError(f"ε belongs to differential privacy, got a claim of {claim.notion}: audit linkage instead")
    _check_runs(mechanism, n)
    tables = [_copies(schema, record, int(n)) for record in (first_record, second_record)]
    one, two = (np.r_[t.X[0], t.y[0]] for t in tables)
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    differ = [a.name for a, alike in zip((*schema.features, schema.label), same, strict=True) if not alike]
    for name in (d for d in differ if d in claim.leaves_open):
        raise ParameterError(f"the records differ in {name!r}, which the claim leaves open: give both the same value")
    rows = []
    for name, table in zip(("first", "second"), tables, strict=True):
        release = mechanism.protect(table, rng.stage(f"{name} record"))
        if len(release) != n:
            raise DataError(f"expected a row a record, got {len(release)} rows for {n}: run it once a record instead")
        rows.append(np.column_stack([release.X, release.y]))
    check_below_one("confidence", confidence)
    return _apart(*_outcomes(rows[0], rows[1]), confidence, claim.delta)


def _check_runs(mechanism: Mechanism, n: int) -> None:
    """Refuse rows that are not runs of their own, and too few of them."""
    if not rows_are_independent(mechanism):
        raise ParameterError(
            f"{type(mechanism).__name__} does not say that its rows are independent, so that {n} rows are one run and "
            f"not {n}: run it on two neighbouring tables, many times each, and give one number a run to "
            "epsilon_lower_bound; if it does treat each record on its own, set its rows_are_independent to True"
        )
    check_whole("n", n, at_least=4)


def _apart(
    choosing: tuple[Sample, Sample], counted: tuple[Sample, Sample], confidence: float, delta: float
) -> EpsilonBound:
    """Choose a set and a direction on some runs, and count it on others."""
    outputs, swapped = choose(*choosing, 1 - confidence, delta)
    favoured, other = counted[::-1] if swapped else counted
    return replace(_bound(outputs, favoured, other, 1 - confidence, delta), confidence=confidence)


def _bound(outputs: OutputSet, favoured: Sample, other: Sample, error: float, delta: float) -> EpsilonBound:
    counts = (count(outputs, favoured), len(favoured), count(outputs, other), len(other))
    epsilon = max(0.0, float(epsilons(*counts, error, delta)))
    return EpsilonBound(epsilon, delta, 1 - error, words(outputs), *counts, chosen_apart=True)


def _given(a: Sample, candidates: Sequence[Collection[int] | float]) -> list[OutputSet]:
    if not len(candidates):
        raise ParameterError("candidates must name at least one set of outputs, got none: pass one, or leave them out")
    sets: list[OutputSet] = []
    for c in candidates:
        if isinstance(c, Collection) == (a.dtype == np.float64):
            wanted = "a threshold for scores" if a.dtype == np.float64 else "a collection of whole numbers for outputs"
            raise ParameterError(f"each candidate must be {wanted}, got {c!r}")
        sets += [np.array(sorted(c))] if isinstance(c, Collection) else [(float(c), True), (float(c), False)]
    return sets


def _sample(values: ArrayLike, name: str) -> Sample:
    sample = np.asarray(values)
    if sample.ndim != 1 or not len(sample):
        raise DataError(f"the {name} sample must be a list of outputs, one a run, got shape {sample.shape}")
    if sample.dtype.kind in "biu":
        return sample.astype(np.int64)
    if sample.dtype.kind != "f":
        raise DataError(f"the {name} sample must hold whole numbers or scores, got {sample.dtype}: number the outputs")
    if np.isnan(sample).any():
        raise DataError(f"the {name} sample has {np.isnan(sample).sum()} scores that are no number: give them a value")
    return sample.astype(np.float64)


def _copies(schema: Schema, record: Mapping[str, Any], n: int) -> Dataset:
    import pandas as pd

    nameless = Schema(tuple(a for a in schema.attributes if a.role not in (Role.IDENTIFIER, Role.SUBJECT)))
    one = Dataset.from_table(pd.DataFrame([dict(record)]), nameless)
    names = np.arange(n).astype(np.str_)
    return Dataset(nameless, np.repeat(one.X, n, axis=0), np.repeat(one.y, n), names, names)


def _outcomes(first: Floats, second: Floats) -> tuple[tuple[Sample, Sample], tuple[Sample, Sample]]:
    """Give each distinct row a number, or where these are too many a score; return runs to choose on, and to count."""
    n, both = len(first), np.concatenate([first, second])
    numbers, scores = np.zeros(len(both), dtype=np.int64), np.zeros(len(both))
    # Half of the runs are counted, and shape nothing. A quarter shapes the score, if there is one.
    shaping, choosing = np.r_[0:n:4, n : 2 * n : 4], slice(0, n, 2)
    for column in both.T:
        values, codes = np.unique(column, return_inverse=True)
        numbers = np.unique(numbers * len(values) + codes, return_inverse=True)[1]
        codes = _coarse(column, codes, column[shaping])
        seen, others = (np.bincount(codes[rows], minlength=codes.max() + 1) for rows in np.split(shaping, 2))
        scores += np.log((seen + 1) / (others + 1))[codes]
    outcomes: Sample = numbers
    if len(np.unique(numbers[shaping])) > _MOST_OUTCOMES:
        outcomes, choosing = scores, slice(2, n, 4)
    a, b = outcomes[:n], outcomes[n:]
    return (a[choosing], b[choosing]), (a[1::2], b[1::2])


def _coarse(column: Floats, codes: NDArray[np.intp], choosing: Floats) -> NDArray[np.intp]:
    """Put the values of a fine grid into bins of equal counts, and missing ones into one of their own."""
    if codes.max() < _MOST_BINS:
        return codes
    edges = np.unique(np.quantile(choosing[~np.isnan(choosing)], np.linspace(0, 1, _MOST_BINS), method="lower"))
    return np.where(np.isnan(column), len(edges) + 1, np.searchsorted(edges, column))
