"""What is claimed for one person: by the records behind each release, those that are kept, and what was seen raw."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.guarantees import (
    DifferentiallyPrivate,
    Exact,
    Involvement,
    KAnonymous,
    Neighbours,
    NoGuarantee,
    Unit,
    claim_for_person,
)
from eupg.guarantees.wording import REQUESTS_APART

PERSON = DifferentiallyPrivate(epsilon=1.0, unit=Unit.PERSON, neighbours=Neighbours.ADD_OR_REMOVE)
RELEASES = st.sampled_from([KAnonymous(k=30), DifferentiallyPrivate(epsilon=1.0), PERSON])


def test_someone_in_no_release_is_forgotten_exactly_with_the_caveats_of_the_table():
    found = claim_for_person(Involvement(released=(0, 0)), [KAnonymous(k=5)] * 2, caveats=("bounds read",))
    assert found == Exact(caveats=("bounds read",))


def test_budgets_of_releases_with_different_numbers_of_records_add_up():
    local = DifferentiallyPrivate(epsilon=1.0)
    found = claim_for_person(Involvement(released=(3, 2, 0)), [local] * 3)
    assert (found.epsilon, found.records) == (5.0, 3)


def test_second_k_anonymous_release_leaves_nothing_to_claim():
    assert isinstance(claim_for_person(Involvement(released=(1, 1)), [KAnonymous(k=30)] * 2), NoGuarantee)
    assert claim_for_person(Involvement(released=(0, 1)), [KAnonymous(k=30)] * 2) == KAnonymous(k=30)


def test_whoever_keeps_released_records_is_taken_out_and_put_back():
    found = claim_for_person(Involvement(released=(1,), others=2, stays=True), [PERSON])
    assert (found.epsilon, found.neighbours) == (2.0, Neighbours.ALTERED)
    assert "2 other records of the same person are kept" in found.caveats[0]


@given(RELEASES, st.integers(0, 4), st.integers(0, 3), st.booleans(), st.booleans())
def test_assumption_about_requests_is_made_exactly_where_a_model_had_seen_them(release, behind, others, seen, said):
    release = release.narrowed(REQUESTS_APART) if said else release
    person = Involvement(released=(behind,), others=others, stays=others > 0, seen_raw=seen)
    found = claim_for_person(person, [release], caveats=release.caveats, of_method=("topped up",))
    assert (REQUESTS_APART in found.caveats) == seen
    assert "topped up" in found.caveats
    assert ("record-level" in found.sentence()) == (others > 0)


def risk(claim):
    """Return a number that grows as the claim of these releases weakens."""
    if isinstance(claim, KAnonymous):
        return claim.bound
    if isinstance(claim, DifferentiallyPrivate):
        return claim.epsilon
    return 0.0 if isinstance(claim, Exact) else math.inf


@given(st.lists(RELEASES, min_size=1, max_size=3), st.data())
def test_more_records_behind_a_release_never_strengthen_the_claim(releases, data):
    counts = data.draw(st.lists(st.integers(0, 3), min_size=len(releases), max_size=len(releases)))
    more = [n + data.draw(st.integers(0, 2)) for n in counts]
    one, other = (claim_for_person(Involvement(released=tuple(n)), releases) for n in (counts, more))
    assert risk(one) <= risk(other)


def test_history_and_claims_of_different_lengths_are_refused():
    for counts, claims in itertools.product([(1,), (1, 1, 1)], [[PERSON] * 2]):
        with pytest.raises(ValueError, match=r"zip\(\) argument"):
            claim_for_person(Involvement(released=counts), claims)
