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

from eupg.audit.output_sets import clopper_pearson
from eupg.data.attribute import Numeric, Role
from eupg.data.dataset import Dataset, Matrix, RecordId
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.protect.guarantee import Guarantee, KAnonymous
from eupg.protect.kanonymity import EffectiveK, Groups, effective_k
from eupg.protect.release import Release
from eupg.rng import Randomness

Rows = NDArray[np.intp]


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
    def counted(cls, hits: int, trials: int, bound: float, *, confidence: float) -> Rate:
        """Count, with the interval of Clopper and Pearson."""
        low, high = clopper_pearson(hits, trials, error=(1 - confidence) / 2)
        return cls(int(hits), int(trials), float(low), float(high), float(bound))

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
class Complement:
    """What remains hidden from someone who knows every record but the targets.

    Parameters
    ----------
    linked
        Chance to pick a target's own row among those that no known record explains: the mean of 1 over their number.
    rebuilt
        Share of targets all of whose quasi-identifiers come out when what is left of each column is put together at
        random; those alone in their group always do.
    certain
        Share of targets that come out so whatever the luck: at most one attribute still varies in their group.
    effective_k
        How many targeted people hide together in a group.
    """

    linked: float
    rebuilt: float
    certain: float
    effective_k: EffectiveK


@dataclass(frozen=True)
class LinkageReport:
    """What an adversary achieved against a k-anonymous release, beside what was claimed.

    Parameters
    ----------
    k
        The claim: at most one guess in k is right.
    targets, releases
        Records that were looked for, and how many releases were made and attacked.
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
        verdict = (
            "this contradicts the claim" if self.contradicts else "this is in line with the claim and does not prove it"
        )
        known = self.complement
        return (
            f"Over {self.releases} releases with k={self.k}, the best-matching row was the record's own in "
            f"{self.linked} of {self.linked.trials:,} guesses, and all quasi-identifiers stood together in one row for "
            f"{self.intact}: at {100 * self.confidence:g} % confidence {verdict}. Someone who knows every record but the "
            f"{self.targets:,} targets picks the right row with probability {known.linked:.0%} and rebuilds "
            f"{known.rebuilt:.0%} of them exactly ({known.certain:.0%} for certain); {known.effective_k}."
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        rates = {"linked": {"rate": self.linked.rate}, "intact": {"rate": self.intact.rate}}
        values = asdict(self) | {"contradicts": self.contradicts}
        return {name: value | rates[name] if name in rates else value for name, value in values.items()}


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
    >>> people = data.of_subjects(data.subjects[:5]).ids
    >>> report = linkage(ProbabilisticKAnonymity(k=30), data, Seeded(7), targets=people, trials=2)
    >>> report.linked.bound, report.contradicts, report.complement.rebuilt
    (0.03333333333333333, False, 1.0)
    """
    claim, groups, wanted = _checked(mechanism, data, targets, trials, confidence)
    marked = _marked(data)
    known = [j for j, a in enumerate(data.schema.features) if a.role is Role.QUASI_IDENTIFIER]
    truth = data.X[:, known]
    right, together, chance, rebuilt = [], [], [], []
    for t in range(trials):
        stream = rng.stage(f"release {t}")
        shown = _followed(mechanism.protect(marked, stream))[:, known]
        attacked = _attack(truth, shown, groups, wanted, stream.stage("adversary").generator())
        for total, part in zip((right, together, chance), attacked, strict=True):
            total.append(part)
        rebuilt.append(_rebuild(truth, shown, groups, wanted, stream.stage("assembly")))
    guesses = sum(len(r) for r in right)
    return LinkageReport(
        k=claim.k,
        targets=int(wanted.sum()),
        releases=trials,
        confidence=confidence,
        linked=Rate.counted(sum(map(np.sum, right)), guesses, claim.bound, confidence=confidence),
        intact=Rate.counted(
            sum(map(np.sum, together)), guesses, float(np.mean(np.concatenate(chance))), confidence=confidence
        ),
        complement=_complement(truth, data, groups, wanted, float(np.mean(rebuilt))),
    )
