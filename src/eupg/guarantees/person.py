"""The claim for one person, from how their records took part in the releases.

Only this module computes it, from the one release of a model in memory or from all releases of a workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from eupg.guarantees.differential_privacy import DifferentiallyPrivate
from eupg.guarantees.exact import Exact
from eupg.guarantees.guarantee import Guarantee, Unit, assuming, both
from eupg.guarantees.wording import REQUESTS_APART, others_kept


@dataclass(frozen=True, kw_only=True)
class Involvement:
    """How the records of one person took part, once the records in question are forgotten.

    Parameters
    ----------
    released
        The number of the person's forgotten records in each release, including those forgotten earlier.
    others, stays
        The number of the person's records that are kept, and whether any of these was released.
    seen_raw
        Whether a model was fitted on the person's records. If so, the claim assumes that nobody chose a request by
        looking at that model.
    """

    released: tuple[int, ...]
    others: int = 0
    stays: bool = False
    seen_raw: bool = False


def claim_for_person(
    person: Involvement,
    claims: Sequence[Guarantee],
    *,
    caveats: tuple[str, ...] = (),
    of_method: tuple[str, ...] = (),
) -> Guarantee:
    """Return the claim for a person once the records in question are forgotten.

    Parameters
    ----------
    person
        How the person's records took part.
    claims
        The claim of each release for one of its records, in the order of ``person.released``.
    caveats, of_method
        Caveats of the claim for someone who was in no release, and of every claim of the method.

    Examples
    --------
    >>> from eupg.guarantees import KAnonymous
    >>> claim_for_person(Involvement(released=(3,)), [KAnonymous(k=30)]).strength()
    'k = 30, linked with probability at most 3/30'
    >>> claim_for_person(Involvement(released=(0,)), [KAnonymous(k=30)]).strength()
    'exact'
    """
    claim = _of_releases(person, claims)
    if claim is None:
        claim = Exact(caveats=caveats)
    if person.others:
        claim = claim.narrowed(others_kept(person.others))
    claim = replace(claim, caveats=both(claim.caveats, of_method))
    if person.seen_raw == (REQUESTS_APART in claim.caveats):
        return claim
    return assuming(claim, REQUESTS_APART, needed=person.seen_raw)


def _of_releases(person: Involvement, claims: Sequence[Guarantee]) -> Guarantee | None:
    """Return the joint claim of the releases that hold the person's records; None where none of them does."""
    involved = [claim.for_person(n) for n, claim in zip(person.released, claims, strict=True) if n]
    if person.stays:
        involved = [claim.for_part() for claim in involved]
    if len(set(person.released) - {0}) > 1:
        # All claims are stated for the largest number: a release with fewer of the records changes in those at most.
        involved = [_about(claim, max(person.released)) for claim in involved]
    return reduce(lambda one, other: one.compose(other), involved) if involved else None


def _about(claim: Guarantee, records: int) -> Guarantee:
    if isinstance(claim, DifferentiallyPrivate) and claim.unit is Unit.RECORD:
        return replace(claim, records=records)
    return claim
