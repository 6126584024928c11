"""A lower bound on ε, from the outputs of a mechanism alone.

With (ε, δ)-differential privacy, P₁(S) ≤ e^ε · P₂(S) + δ on two neighbouring inputs for every set S of outputs. Run the
mechanism many times on both inputs and count S: exact binomial bounds (Clopper and Pearson, 1934) then refute every ε
below log((low₁ − δ) / high₂). The bound can refute a claim but never prove one: a larger ε may hide in a set, or in a
pair of inputs, that was not tried.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eupg.audit.intervals import Floats, binomial_bounds
from eupg.data.attribute import Role
from eupg.data.dataset import Dataset
from eupg.data.kind import Accepts, DataKind
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.guarantees import DifferentiallyPrivate
from eupg.protect.mechanism import Mechanism, rows_are_independent
from eupg.rng import Randomness
from eupg.validation import check_below_one, check_whole

# Outputs, one per run: whole numbers (int64) or scores (float64).
Sample = NDArray[Any]
# A set of outputs: the listed ones, or those at or above (True) or below (False) a threshold.
OutputSet = NDArray[np.int64] | tuple[float, bool]
# With more distinct records than this, each is too rare to count: a score replaces the record.
_MOST_OUTCOMES = 1024
_MOST_BINS = 64
_MOST_THRESHOLDS = 512
_TINY = 1e-300
_TABLES = Accepts(DataKind.TABLE, instead="epsilon_lower_bound, with outputs of its runs on two pictures")


@dataclass(frozen=True)
class EpsilonBound:
    """The largest ε that two samples of outputs refute (0 if none), and the counts behind it.

    ``outputs`` describes the set that was counted: it occurred in ``hits`` of ``runs`` on the input that favours it,
    and in ``other_hits`` of ``other_runs`` on the other. ``chosen_apart`` is True if the set was chosen on runs that
    are not counted here, and False if it was fixed beforehand.
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
        """Return whether a claimed ε is too small to be true; a number means ε at this bound's δ."""
        if isinstance(claim, DifferentiallyPrivate):
            if claim.delta > self.delta:
                raise ParameterError(
                    f"the claim allows delta={claim.delta:g}, the bound only {self.delta:g}: "
                    f"compute the bound with delta={claim.delta:g}"
                )
            claim = claim.epsilon
        return self.epsilon > claim

    def sentence(self) -> str:
        """State the bound in plain words, with its limits."""
        budget = f" at δ={self.delta:g}" if self.delta else ""
        choice = "chosen on other runs than those counted" if self.chosen_apart else "fixed beforehand"
        return (
            f"With {100 * self.confidence:g} % confidence ε{budget} is at least {self.epsilon:.3g}: {self.outputs} "
            f"occurred in {self.hits:,} of {self.runs:,} runs on one input and in {self.other_hits:,} of "
            f"{self.other_runs:,} on the other (the set was {choice}). "
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

    One half of the runs chooses the set of outputs and the direction; the other half is counted. A single set is
    tested, so the bound holds exactly with the stated confidence, half of the error for each of its two counts. With
    ``candidates`` nothing is chosen: all runs are counted, and all candidates share the error in both directions.

    Parameters
    ----------
    first, second
        Independent outputs on the two inputs. Whole numbers and booleans may form any set; other numbers are scores,
        whose sets are those at or above, or below, a threshold.
    confidence
        Probability that the true ε is not below the bound.
    delta
        The δ of the claim.
    candidates
        Sets fixed before any output was seen: collections of whole numbers, or thresholds for scores.

    Examples
    --------
    A coin that tells the truth three times in four has ε = log 3 ≈ 1.099.

    >>> truth, lie = [1] * 7500 + [0] * 2500, [1] * 2500 + [0] * 7500
    >>> bound = epsilon_lower_bound(truth, lie, candidates=[{1}])
    >>> round(bound.epsilon, 3), bound.contradicts(1.0), bound.contradicts(1.1)
    (1.047, True, False)
    """
    a, b = _sample(first, "first"), _sample(second, "second")
    if a.dtype != b.dtype:
        raise DataError(f"both samples must hold the same kind of output, got {a.dtype} and {b.dtype}: convert one")
    check_below_one("confidence", confidence)
    check_below_one("delta", delta)
    if candidates is not None:
        sets = _candidate_sets(a, candidates)
        error = (1 - confidence) / (2 * len(sets))
        bounds = [_bound(s, *pair, error, delta) for s in sets for pair in ((a, b), (b, a))]
        best = max(bounds, key=lambda bound: bound.epsilon)
        return replace(best, confidence=confidence, chosen_apart=False)
    if min(len(a), len(b)) < 4:
        raise DataError(f"half of the runs choose and half are counted, got {len(a)} and {len(b)}: run at least 4 each")
    # A fixed shuffle halves sorted or patterned samples fairly too.
    a, b = (sample[np.random.default_rng(0).permutation(len(sample))] for sample in (a, b))
    return _chosen_apart((a[::2], b[::2]), (a[1::2], b[1::2]), confidence, delta)


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
    """Protect one record n times and another n times, and bound ε from the outputs.

    For mechanisms that treat each record independently, such as local differential privacy, and state so by an
    attribute ``rows_are_independent``: then n copies in one table are n independent runs. Others are refused. An output
    is a whole released row. If there are too many distinct rows to count, a row's score is the sum of its attributes'
    log-ratios: a quarter of the runs estimates these, a quarter chooses the threshold, and half are counted.

    Parameters
    ----------
    mechanism
        A mechanism with independent rows whose claim is differential privacy.
    schema
        The meaning of the columns; columns that name records or people are left out.
    first_record, second_record
        Two values of one record, as a person writes them: ``{"age": 40, "town": "A", "ill": "no"}``.
    n
        Runs on each.
    """
    _TABLES.check(schema, "audit_mechanism_epsilon")
    claim = mechanism.guarantee(schema)
    if not isinstance(claim, DifferentiallyPrivate):
        raise ParameterError(f"ε belongs to differential privacy, got a claim of {claim.notion}: audit linkage instead")
    if not rows_are_independent(mechanism):
        raise ParameterError(
            f"{type(mechanism).__name__} does not state that its rows are independent, so {n} rows are one run, not "
            f"{n}: run it many times on two neighbouring tables and give one number per run to epsilon_lower_bound; if "
            "it does treat each record independently, set its rows_are_independent to True"
        )
    check_whole("n", n, at_least=4)
    check_below_one("confidence", confidence)
    tables = [_copies(schema, record, int(n)) for record in (first_record, second_record)]
    one, two = (np.r_[t.X[0], t.y[0]] for t in tables)
    same = (one == two) | (np.isnan(one) & np.isnan(two))
    differing = [a.name for a, alike in zip((*schema.features, schema.label), same, strict=True) if not alike]
    for name in (name for name in differing if name in claim.leaves_open):
        raise ParameterError(f"the records differ in {name!r}, which the claim leaves open: give both the same value")
    rows = []
    for name, table in zip(("first", "second"), tables, strict=True):
        release = mechanism.protect(table, rng.stage(f"{name} record"))
        if len(release) != n:
            raise DataError(f"expected one row per record, got {len(release)} rows for {n}: run it once per record")
        rows.append(np.column_stack([release.X, release.y]))
    return _chosen_apart(*_outcomes(rows[0], rows[1]), confidence, claim.delta)


def _chosen_apart(
    choosing: tuple[Sample, Sample], counted: tuple[Sample, Sample], confidence: float, delta: float
) -> EpsilonBound:
    """Choose a set and a direction on some runs, and count it on others."""
    outputs, swapped = _choose(*choosing, 1 - confidence, delta)
    favoured, other = counted[::-1] if swapped else counted
    return replace(_bound(outputs, favoured, other, 1 - confidence, delta), confidence=confidence)


def _bound(outputs: OutputSet, favoured: Sample, other: Sample, error: float, delta: float) -> EpsilonBound:
    counts = (_count(outputs, favoured), len(favoured), _count(outputs, other), len(other))
    epsilon = max(0.0, float(epsilons(*counts, error, delta)))
    return EpsilonBound(epsilon, delta, 1 - error, _describe(outputs), *counts, chosen_apart=True)


def epsilons(hits: ArrayLike, runs: int, others: ArrayLike, other_runs: int, error: float, delta: float) -> Floats:
    """Return log((low − δ) / high); each of the two bounds is wrong with half of the error."""
    low, _ = binomial_bounds(hits, runs, error=error / 2)
    _, high = binomial_bounds(others, other_runs, error=error / 2)
    return np.asarray(np.log(np.maximum(low - delta, _TINY) / high))


def _sample(values: ArrayLike, name: str) -> Sample:
    sample = np.asarray(values)
    if sample.ndim != 1 or not len(sample):
        raise DataError(f"the {name} sample must be a list of outputs, one per run, got shape {sample.shape}")
    if sample.dtype.kind in "biu":
        return sample.astype(np.int64)
    if sample.dtype.kind != "f":
        raise DataError(f"the {name} sample must hold whole numbers or scores, got {sample.dtype}: number the outputs")
    if np.isnan(sample).any():
        raise DataError(f"the {name} sample has {np.isnan(sample).sum()} scores that are NaN: give them a value")
    return sample.astype(np.float64)


def _candidate_sets(a: Sample, candidates: Sequence[Collection[int] | float]) -> list[OutputSet]:
    if not len(candidates):
        raise ParameterError("candidates must name at least one set of outputs, got none: pass one, or leave them out")
    sets: list[OutputSet] = []
    for c in candidates:
        if isinstance(c, Collection) == (a.dtype == np.float64):
            expected = (
                "a threshold for scores" if a.dtype == np.float64 else "a collection of whole numbers for outputs"
            )
            raise ParameterError(f"each candidate must be {expected}, got {c!r}")
        sets += [np.array(sorted(c))] if isinstance(c, Collection) else [(float(c), True), (float(c), False)]
    return sets


def _choose(a: Sample, b: Sample, error: float, delta: float) -> tuple[OutputSet, bool]:
    """Return the set that shows the largest ε on these runs, and whether the second input favours it.

    One half of the runs ranks whole numbers by how much the first input favours them. The other half chooses among the
    sets above or below a rank, which would be the best sets if the ranking were exact, and the plain thresholds.
    """
    if a.dtype == np.float64:
        _, threshold, above, swapped = _best_threshold(a, b, error, delta)
        return (threshold, above), swapped
    outputs, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    first, second = (np.bincount(c[::2], minlength=len(outputs)) for c in np.split(codes, [len(a)]))
    # An output that does not occur in this half gets ratio 1, in the middle of the ranking.
    order = np.argsort((first + 1) / (second + 1), kind="stable")
    rank = np.empty(len(outputs))
    rank[order] = np.arange(len(outputs))
    ranks_a, ranks_b = (rank[c][1::2] for c in np.split(codes, [len(a)]))
    by_rank = _best_threshold(ranks_a, ranks_b, error, delta)
    by_value = _best_threshold(a[1::2].astype(np.float64), b[1::2].astype(np.float64), error, delta)
    _, threshold, above, swapped = max(by_rank, by_value)
    if by_value > by_rank:
        return (threshold, above), swapped
    return outputs[rank >= threshold if above else rank < threshold], swapped


def _best_threshold(a: Floats, b: Floats, error: float, delta: float) -> tuple[float, float, bool, bool]:
    """Return the largest ε of all thresholds, the threshold, its side, and whether the second input favours it."""
    thresholds = _thresholds(np.concatenate([a, b]))
    # Among many sets a rare one looks good by luck: sharing the error among all of them prefers sets that would repeat.
    error /= 4 * len(thresholds)
    below = [np.searchsorted(np.sort(scores), thresholds) for scores in (a, b)]
    best = (-math.inf, 0.0, True, False)
    for above in (True, False):
        first, second = (len(s) - under if above else under for s, under in zip((a, b), below, strict=True))
        for swapped, hits in ((False, (first, len(a), second, len(b))), (True, (second, len(b), first, len(a)))):
            bounds = epsilons(*hits, error, delta)
            i = int(bounds.argmax())
            best = max(best, (float(bounds[i]), float(thresholds[i]), above, swapped))
    return best


def _thresholds(scores: Floats) -> Floats:
    """Return every distinct score, or quantiles of many, closely spaced in both tails, where large ratios occur."""
    distinct = np.unique(scores)
    if len(distinct) <= _MOST_THRESHOLDS:
        return distinct
    tail = np.geomspace(1e-5, 0.5, _MOST_THRESHOLDS // 2)
    return np.unique(np.quantile(scores, np.concatenate([tail, 1 - tail]), method="higher"))


def _count(outputs: OutputSet, sample: Sample) -> int:
    if isinstance(outputs, tuple):
        return int((sample >= outputs[0] if outputs[1] else sample < outputs[0]).sum())
    return int(np.isin(sample, outputs).sum())


def _describe(outputs: OutputSet) -> str:
    if isinstance(outputs, tuple):
        return f"an output {'of at least' if outputs[1] else 'below'} {outputs[0]:g}"
    shown = ", ".join(str(o) for o in outputs[:6].tolist())
    return f"an output in {{{shown}{f' and {len(outputs) - 6} more' if len(outputs) > 6 else ''}}}"


def _copies(schema: Schema, record: Mapping[str, Any], n: int) -> Dataset:
    import pandas as pd

    nameless = Schema(tuple(a for a in schema.attributes if a.role not in (Role.IDENTIFIER, Role.SUBJECT)))
    one = Dataset.from_table(pd.DataFrame([dict(record)]), nameless)
    names = np.arange(n).astype(np.str_)
    return Dataset(nameless, np.repeat(one.X, n, axis=0), np.repeat(one.y, n), names, names)


def _outcomes(first: Floats, second: Floats) -> tuple[tuple[Sample, Sample], tuple[Sample, Sample]]:
    """Return runs to choose on and runs to count: distinct rows by number, or by a score if there are too many."""
    n, both = len(first), np.concatenate([first, second])
    numbers, scores = np.zeros(len(both), dtype=np.int64), np.zeros(len(both))
    # Half of the runs are counted and influence nothing. A quarter shapes the scores, if they are used.
    shaping, choosing = np.r_[0:n:4, n : 2 * n : 4], slice(0, n, 2)
    for column in both.T:
        values, codes = np.unique(column, return_inverse=True)
        numbers = np.unique(numbers * len(values) + codes, return_inverse=True)[1]
        codes = _binned(column, codes, column[shaping])
        counts, others = (np.bincount(codes[rows], minlength=codes.max() + 1) for rows in np.split(shaping, 2))
        scores += np.log((counts + 1) / (others + 1))[codes]
    outcomes: Sample = numbers
    if len(np.unique(numbers[shaping])) > _MOST_OUTCOMES:
        outcomes, choosing = scores, slice(2, n, 4)
    a, b = outcomes[:n], outcomes[n:]
    return (a[choosing], b[choosing]), (a[1::2], b[1::2])


def _binned(column: Floats, codes: NDArray[np.intp], shaping: Floats) -> NDArray[np.intp]:
    """Put the values of a fine grid into bins of equal counts, and missing values into their own."""
    if codes.max() < _MOST_BINS:
        return codes
    edges = np.unique(np.quantile(shaping[~np.isnan(shaping)], np.linspace(0, 1, _MOST_BINS), method="lower"))
    return np.where(np.isnan(column), len(edges) + 1, np.searchsorted(edges, column))
