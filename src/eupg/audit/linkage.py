"""How often a record is found again in a k-anonymous release, against the 1/k that was claimed.

Part of stage 6, audit; the owner of the records runs it. Three questions about a release whose quasi-identifiers were
permuted inside groups (``docs/guarantees.md``, "Probabilistic k-anonymity"):

- *linked*: an adversary who knows a record's quasi-identifiers, the release and the groups picks the best-matching row.
  How often does that row carry the record's unpermuted part? At most once in k, if the claim holds.
- *intact*: how often does some row still show all quasi-identifiers of a record together, and how often would it if
  each attribute had been permuted on its own?
- *complement*: what can someone rebuild who also knows every retained record, and subtracts them from the release?
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eupg.audit.complement import Complement, subtract
from eupg.audit.output_sets import binomial_bounds
from eupg.data.attribute import Numeric, Role
from eupg.data.dataset import Dataset, Matrix, RecordId
from eupg.data.picture import require_table
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.guarantees import Guarantee, KAnonymous
from eupg.protect.kanonymity import Groups
from eupg.protect.release import Release
from eupg.rng import Randomness
from eupg.validation import check_whole

Mask = NDArray[np.bool_]


class Grouping(Protocol):
    """A mechanism that protects by mixing records inside groups, such as ``ProbabilisticKAnonymity``."""

    def guarantee(self, schema: Schema) -> Guarantee:
        """Return the claim for tables of this schema."""

    def groups(self, data: Dataset) -> Groups:
        """Return the group of each record."""

    def protect(self, data: Dataset, rng: Randomness) -> Release:
        """Make a release of the records."""


@dataclass(frozen=True)
class Rate:
    """A share that was counted, its exact interval, and the largest share that would fit the claim."""

    hits: int
    trials: int
    low: float
    high: float
    bound: float

    @classmethod
    def counted(cls, outcomes: Matrix, bound: float, *, confidence: float) -> Rate:
        """Count ones among zeros, with the interval of Clopper and Pearson."""
        hits, trials = int(outcomes.sum()), len(outcomes)
        low, high = binomial_bounds(hits, trials, error=(1 - confidence) / 2)
        return cls(hits, trials, float(low), float(high), bound)

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
    """What an adversary achieved against a k-anonymous release, beside what was claimed.

    Parameters
    ----------
    k
        The claim: at most one guess in k is right.
    records, targets, releases
        Records in each release, those that were looked for, and how many releases were made and attacked.
    confidence
        Of both intervals together: an honest mechanism is accused with probability 1 − confidence at most.
    linked
        Guesses that hit the record's own row, one guess a group and release, against 1/k.
    intact
        Targets whose quasi-identifiers still stood in one row, against what independent permutations give.
    complement
        The same release against someone who knows every record but the targets.
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
        """Whether the release does worse than its claim, at the stated confidence."""
        return self.linked.contradicts or self.intact.contradicts

    def sentence(self) -> str:
        """Say the result in plain words, for a certificate."""
        known, sure = self.complement, f"{100 * self.confidence:g} %"
        verdict = "contradicts the claim" if self.contradicts else "is in line with the claim, and does not prove it"
        found = (
            f"k={self.k}, {self.releases} releases, {self.linked.trials:,} guesses: the best-matching row was the "
            f"record's own in {self.linked}, and one row still showed all quasi-identifiers in {self.intact}. At "
            f"{sure} confidence this {verdict}."
        )
        if self.targets == self.records:
            return f"{found} All records were targets, so none was known to the adversary beforehand."
        return (
            f"{found} Someone who knows every record but the {self.targets:,} targets picks the right row with "
            f"probability {known.linked:.0%} and rebuilds {known.rebuilt:.0%} of the targets exactly "
            f"({known.certain:.0%} for certain); {known.effective_k}."
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

    The audit gives each record a number as a confidential attribute, which the mechanism leaves in its row, to know
    the right answer; the adversary does not see it. Guesses inside one group depend on each other, so each release and
    group counts for one, at a target drawn at random: the guesses are independent and the interval is exact. (Groups
    differ in size; the interval for equal chances is then only wider than it need be.) Rows are matched by the
    attributes that agree, a rare value counting for more than a common one; ties are broken at random.

    Parameters
    ----------
    mechanism
        What to audit: any mechanism with groups whose claim is probabilistic k-anonymity.
    data
        The records, all of them.
    rng
        Randomness of the releases and of the adversary.
    targets
        Ids of the records to look for, such as those to be forgotten; the complement attack knows all others. All
        records, if left out: then nobody is known.
    trials
        Number of releases to make and attack.
    confidence
        An honest mechanism is accused with probability 1 − confidence at most.

    Examples
    --------
    >>> from eupg import ProbabilisticKAnonymity, Seeded, sources
    >>> data = sources.rand_hie().train
    >>> report = linkage(ProbabilisticKAnonymity(k=20), data, Seeded(7), targets=data.ids[::2000], trials=2)
    >>> report.linked.bound, report.contradicts, report.complement.rebuilt
    (0.05, False, 1.0)
    """
    claim, groups, wanted = _checked(mechanism, data, targets, trials)
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence must lie between 0 and 1, got {confidence!r}")
    marked = _marked(data)
    if (mechanism.groups(marked) != groups).any():
        raise PrivacyError("a confidential attribute changed the groups: form them from the quasi-identifiers alone")
    known = [j for j, a in enumerate(data.schema.features) if a.role is Role.QUASI_IDENTIFIER]
    truth, guesses, shares = data.X[:, known], [], []
    for t in range(trials):
        stream = rng.stage(f"release {t}")
        shown = _followed(mechanism.protect(marked, stream))[:, known]
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
    """Guess for one target a group; return whether it was right, whether any row was intact, and the chance of that."""
    drawn = generator.permutation(np.flatnonzero(wanted))
    attacked, first = np.unique(groups[drawn], return_index=True)
    target = drawn[first]
    rows = np.flatnonzero(np.isin(groups, attacked))
    rows = rows[np.argsort(groups[rows], kind="stable")]
    place = np.searchsorted(attacked, groups[rows])
    size = np.bincount(place)
    starts = np.cumsum(size) - size
    wished = truth[target[place]]
    match = (shown[rows] == wished) | (np.isnan(shown[rows]) & np.isnan(wished))
    share = np.add.reduceat(match, starts, axis=0) / size[:, None]
    # Should an attribute have kept its place, a match on a rare value says more: log(1 / share).
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


def _followed(release: Release) -> Matrix:
    """Return the released rows in the order of the records whose unpermuted part they carry."""
    order = np.argsort(release.X[:, -1], kind="stable")
    if not np.array_equal(release.X[order, -1], np.arange(len(order))):
        raise DataError("the mechanism changed a confidential attribute, so rows cannot be followed: it must keep them")
    return release.X[order]


def _checked(
    mechanism: Grouping, data: Dataset, targets: Iterable[RecordId] | None, trials: int
) -> tuple[KAnonymous, Groups, Mask]:
    require_table(data.schema, "linkage", "patch_linkage")
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
