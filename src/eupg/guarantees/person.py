"""What is claimed for one person, from how their records took part in the releases.

This is the only place that answers the question. The histories differ (a model in memory knows one release, a workspace
knows all of them), the answer does not.
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
    """How the records of one person took part, as it stands once the records in question are forgotten.

    Parameters
    ----------
    released
        For each release, how many forgotten records of the person it holds, those forgotten earlier included.
    others
        How many records of the person are kept.
    stays
        Whether any of those that are kept was released.
    seen_raw
        Whether a model fitted on the person's records may have shown them, so that it has to be assumed that nobody
        chose a request by looking at it.
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
    """Return what holds for a person once the records in question are forgotten.

    Parameters
    ----------
    person
        How the person's records took part.
    claims
        What each release claims for one of its records, in the order of ``person.released``.
    caveats
        What narrows the claim for someone who was in no release.
    of_method
        What narrows every claim of the method.

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
    """Return what the releases that hold the person's records claim together; None where none of them does."""
    involved = [claim.for_person(n) for n, claim in zip(person.released, claims, strict=True) if n]
    if person.stays:
        involved = [claim.for_part() for claim in involved]
    if len(set(person.released) - {0}) > 1:
        # A release that holds fewer of their records changes in no more than those, whichever of them all change.
        involved = [_about(claim, max(person.released)) for claim in involved]
    return reduce(lambda one, other: one.compose(other), involved) if involved else None


def _about(claim: Guarantee, records: int) -> Guarantee:
    if isinstance(claim, DifferentiallyPrivate) and claim.unit is Unit.RECORD:
        return replace(claim, records=records)
    return claim
