"""Linkage: how often a record is found again in a k-anonymous release, compared with the claimed 1/k.

The owner of the records runs this audit. It asks three questions about a release whose quasi-identifiers were permuted
inside groups (``docs/guarantees.md``, "Probabilistic k-anonymity"):

- *linked*: an adversary who knows a record's quasi-identifiers, the release and the groups picks the best-matching row.
  How often does that row carry the record's unpermuted part? At most once in k, if the claim holds.
- *intact*: how often does one row still show all quasi-identifiers of a record, compared with independent permutations?
- *complement*: what can someone rebuild who also knows every retained record, and subtracts them from the release?
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eupg.audit.intervals import clopper_pearson
from eupg.audit.releases.known_others import Complement, subtract
from eupg.data.attribute import Numeric, Role
from eupg.data.dataset import Dataset, Matrix, RecordId
from eupg.data.kind import Accepts, DataKind
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.guarantees import KAnonymous
from eupg.protect.mechanism import Grouping
from eupg.protect.microaggregation.groups import Groups
from eupg.protect.release import Release
from eupg.rng import Randomness
from eupg.validation import check_whole

Mask = NDArray[np.bool_]
_TABLES = Accepts(DataKind.TABLE, instead="patch_linkage of the reproduction package")


@dataclass(frozen=True)
class Rate:
    """A counted share, its exact interval, and the largest share that agrees with the claim."""

    hits: int
    trials: int
    low: float
    high: float
    bound: float

    @classmethod
    def counted(cls, outcomes: Matrix, bound: float, *, confidence: float) -> Rate:
        """Count the ones among zeros and ones."""
        hits, trials = int(outcomes.sum()), len(outcomes)
        return cls(hits, trials, *clopper_pearson(hits, trials, level=confidence), bound)

    @property
    def rate(self) -> float:
        """The share itself."""
        return self.hits / self.trials

    @property
    def contradicts(self) -> bool:
        """Whether the whole interval lies above the bound."""
        return self.low > self.bound

    def __str__(self) -> str:
        """Show the share, its interval and the bound, in percent."""
        return f"{self.rate:.2%} ({self.low:.2%} to {self.high:.2%}; bound {self.bound:.2%})"


@dataclass(frozen=True)
class LinkageReport:
    """What an adversary achieved against a k-anonymous release, compared with the claim.

    ``linked`` counts guesses that hit the record's own row, one per group and release, against 1/k; ``intact`` counts
    targets whose quasi-identifiers still stood in one row, against independent permutations; ``complement`` is the
    result of an adversary who knows every record except the targets. ``confidence`` is that of both intervals together:
    an honest mechanism is accused with probability 1 − confidence at most.
    """

    k: int
    records: int
    targets: int
    releases: int
    confidence: float
    linked: Rate
    intact: Rate
    complement: Complement

    @property
    def contradicts(self) -> bool:
        """Whether the release contradicts its claim, at the stated confidence."""
        return self.linked.contradicts or self.intact.contradicts

    def sentence(self) -> str:
        """State the result in plain words, for a certificate."""
        known = self.complement
        verdict = "contradicts the claim" if self.contradicts else "is consistent with the claim, and does not prove it"
        words = (
            f"k={self.k}, {self.releases} releases, {self.linked.trials:,} guesses: the best-matching row was the "
            f"record's own in {self.linked}, and one row still showed all quasi-identifiers in {self.intact}. At "
            f"{100 * self.confidence:g} % confidence this {verdict}."
        )
        if self.targets == self.records:
            return f"{words} All records were targets, so the adversary knew none of them beforehand."
        return (
            f"{words} Someone who knows every record except the {self.targets:,} targets picks the right row with "
            f"probability {known.linked:.0%} and rebuilds {known.rebuilt:.0%} of the targets exactly "
            f"({known.certain:.0%} with certainty); {known.effective_k}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        values = asdict(self) | {"contradicts": self.contradicts}
        for name, counted in (("linked", self.linked), ("intact", self.intact)):
            values[name]["rate"] = counted.rate
        return values


def linkage(
    mechanism: Grouping,
    data: Dataset,
    rng: Randomness,
    *,
    targets: Iterable[RecordId] | None = None,
    trials: int = 20,
    confidence: float = 0.99,
) -> LinkageReport:
    """Attack releases of these records, and compare how often a record is found with the claimed 1/k.

    To know the right answer, the audit gives each record a number as a confidential attribute, which the mechanism
    leaves in its row and the adversary does not see. Guesses inside one group depend on each other, so each group and
    release counts once, at a random target: the guesses are independent and the interval is exact. (With groups of
    different sizes it is wider than necessary.) Rows are matched by the attributes that agree, rare values counting
    more than common ones; ties are broken at random.

    Parameters
    ----------
    mechanism
        A mechanism with groups whose claim is probabilistic k-anonymity.
    data
        All records.
    rng
        Randomness of the releases and of the adversary.
    targets
        Ids of the records to look for, such as those to be forgotten; the complement attack knows all others. By
        default all records, so that none is known.
    trials
        Number of releases to make and attack.
    confidence
        An honest mechanism is accused with probability 1 − confidence at most.

    Examples
    --------
    >>> from eupg import Seeded, sources
    >>> from eupg.protect import ProbabilisticKAnonymity
    >>> data = sources.rand_hie().train
    >>> report = linkage(ProbabilisticKAnonymity(k=20), data, Seeded(7), targets=data.ids[::2000], trials=2)
    >>> report.linked.bound, report.contradicts, report.complement.rebuilt
    (0.05, False, 1.0)
    """
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must lie between 0 and 1, got {confidence!r}")
    claim, groups, wanted = _checked(mechanism, data, targets, trials)
    marked = _marked(data)
    if (mechanism.groups(marked) != groups).any():
        raise PrivacyError("a confidential attribute changed the groups: form them from the quasi-identifiers alone")
    known = [j for j, a in enumerate(data.schema.features) if a.role is Role.QUASI_IDENTIFIER]
    truth, guesses, shares = data.X[:, known], [], []
    for t in range(trials):
        stream = rng.stage(f"release {t}")
        shown = _traced(mechanism.protect(marked, stream))[:, known]
        guesses.append(_attack(truth, shown, groups, wanted, stream.stage("adversary").generator()))
        shares.append(subtract(truth, shown, groups, wanted, stream.stage("complement")))
    right, together, chance = np.concatenate(guesses, axis=1)
    return LinkageReport(
        k=claim.k,
        records=len(data),
        targets=int(wanted.sum()),
        releases=int(trials),
        confidence=float(confidence),
        linked=Rate.counted(right, claim.bound, confidence=confidence),
        intact=Rate.counted(together, float(chance.mean()), confidence=confidence),
        complement=Complement.of(shares, groups, wanted, data.subjects),
    )


def _attack(truth: Matrix, shown: Matrix, groups: Groups, wanted: Mask, generator: np.random.Generator) -> Matrix:
    """Guess for one target per group: return whether it was right, whether a row was intact, and the chance of that."""
    drawn = generator.permutation(np.flatnonzero(wanted))
    attacked, first = np.unique(groups[drawn], return_index=True)
    target = drawn[first]
    rows = np.flatnonzero(np.isin(groups, attacked))
    rows = rows[np.argsort(groups[rows], kind="stable")]
    place = np.searchsorted(attacked, groups[rows])
    size = np.bincount(place)
    starts = np.cumsum(size) - size
    known = truth[target[place]]
    match = (shown[rows] == known) | (np.isnan(shown[rows]) & np.isnan(known))
    share = np.add.reduceat(match, starts, axis=0) / size[:, None]
    # If an attribute kept its place, a match on a rare value says more: log(1 / share).
    weight = -np.log(np.where(share > 0, share, 1.0))
    score = (match * weight[place]).sum(axis=1).round(9)
    best = np.lexsort((generator.random(len(rows)), score, place))[starts + size - 1]
    intact = np.logical_or.reduceat(match.all(axis=1), starts)
    return np.stack([rows[best] == target, intact, np.minimum(1.0, size * share.prod(axis=1))]).astype(np.float64)


def _marked(data: Dataset) -> Dataset:
    """Return the records with their position as one more confidential attribute, the last."""
    name = "position"
    while name in (a.name for a in data.schema.attributes):
        name += "'"
    marker = Numeric(name=name, role=Role.CONFIDENTIAL, lower=0, upper=len(data))
    X = np.column_stack([data.X, np.arange(len(data))])
    return Dataset(Schema((*data.schema.attributes, marker)), X, data.y, data.ids, data.subjects)


def _traced(release: Release) -> Matrix:
    """Return the released rows in the order of the records whose unpermuted part they carry."""
    order = np.argsort(release.X[:, -1], kind="stable")
    if not np.array_equal(release.X[order, -1], np.arange(len(order))):
        raise DataError("the mechanism changed a confidential attribute, so rows cannot be traced: it must not do so")
    return release.X[order]


def _checked(
    mechanism: Grouping, data: Dataset, targets: Iterable[RecordId] | None, trials: int
) -> tuple[KAnonymous, Groups, Mask]:
    _TABLES.check(data.schema, "linkage")
    claim = mechanism.guarantee(data.schema)
    if not isinstance(claim, KAnonymous) or not hasattr(mechanism, "groups"):
        raise ParameterError(
            f"linkage is bounded by k-anonymity, got {type(mechanism).__name__} with a claim of {claim.notion}: "
            "audit differential privacy with epsilon_lower_bound"
        )
    check_whole("trials", trials, at_least=1)
    wanted = np.ones(len(data), dtype=np.bool_) if targets is None else data.where(targets)
    if not wanted.any():
        raise DataError("no target to look for: name at least one record, or leave targets out for all")
    return claim, mechanism.groups(data), wanted
