import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.guarantees import guarantee_from_json
from eupg.guarantees.wording import percent
from eupg.protect.kanonymity import ProbabilisticKAnonymity, constant_share, effective_k, shared_values
from eupg.protect.microaggregation.choice import MDAV, MDAVBySize, RefinedMDAV
from eupg.rng import Secret, Seeded
from people import SCHEMA, people
from unshuffled import NoShuffle


@given(st.integers(2, 12), st.integers(0, 1000), st.integers(40, 90))
@settings(max_examples=25, deadline=None)
def test_each_group_keeps_its_values_column_by_column(k, seed, rows):
    data = people(rows, seed)
    mechanism = ProbabilisticKAnonymity(k)
    groups = mechanism.groups(data)
    release = mechanism.protect(data, NoShuffle(seed))
    for group in range(groups.max() + 1):
        before, after = data.X[groups == group], release.X[groups == group]
        assert k <= len(before) < 2 * k
        np.testing.assert_array_equal(np.sort(before, axis=0), np.sort(after, axis=0))
    np.testing.assert_array_equal(release.y, data.y)


def test_attributes_move_independently_of_each_other():
    data = people(900)
    release = ProbabilisticKAnonymity(30).protect(data, NoShuffle(3))
    moved = [{tuple(r) for r in data.X[:, [i, j]]} for i, j in ((0, 1), (0, 3))]
    kept = [np.mean([tuple(r) in m for r in release.X[:, c]]) for m, c in zip(moved, ([0, 1], [0, 3]), strict=True)]
    assert kept[0] < 0.5


def test_position_of_a_value_in_its_group_is_uniform():
    """Chi-square over 3,000 releases at 1e-6; a permutation that leaves the value alone one time in ten fails."""
    from scipy.stats import chisquare

    label = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
    schema = Schema((Numeric(name="v", lower=0, upper=9), label))
    data = Dataset(schema, np.arange(5.0)[:, None], np.array([0, 1, 0, 1, 0]), *[np.arange(5).astype(str)] * 2)
    releases = np.array([ProbabilisticKAnonymity(3).protect(data, NoShuffle(s)).X[:, 0] for s in range(3000)])
    seen = np.bincount(np.argmax(releases == 0, axis=1), minlength=5)
    assert chisquare(seen).pvalue > 1e-6
    lazy = np.where(np.arange(3000) % 10 == 0, 0, np.argmax(releases == 0, axis=1))
    assert chisquare(np.bincount(lazy, minlength=5)).pvalue < 1e-6


def test_row_order_is_shuffled():
    data = people()
    assert (ProbabilisticKAnonymity(10).protect(data, Secret()).y != data.y).any()


def test_confidential_attributes_and_label_stay_and_the_claim_says_so():
    attributes = [a if a.name != "income" else Numeric(name="income", lower=0, upper=5000, role=Role.CONFIDENTIAL)
                  for a in SCHEMA.attributes]  # fmt: skip
    data = people()
    data = Dataset(Schema(tuple(attributes)), data.X, data.y, data.ids, data.subjects)
    claim = ProbabilisticKAnonymity(10).guarantee(data.schema)
    assert claim.leaves_open == ("income", "ill")
    assert "income" not in claim.covers
    release = ProbabilisticKAnonymity(10).protect(data, NoShuffle(1))
    np.testing.assert_array_equal(release.X[:, 1], data.X[:, 1])


def test_label_takes_no_part_in_the_grouping():
    data = people()
    flipped = Dataset(data.schema, data.X, 1 - data.y, data.ids, data.subjects)
    mechanism = ProbabilisticKAnonymity(10)
    np.testing.assert_array_equal(mechanism.groups(data), mechanism.groups(flipped))


def test_fewer_records_than_k_is_refused():
    with pytest.raises(DataError, match=r"k=20 needs at least 20 records, got 12: lower k or protect more records"):
        ProbabilisticKAnonymity(20).protect(people(12), Secret())


@pytest.mark.parametrize("k", [1, 0, 2.0, True, None])
def test_k_must_be_a_whole_number_of_at_least_two(k):
    with pytest.raises(ParameterError, match="k must be a whole number of at least 2"):
        ProbabilisticKAnonymity(k)


def test_no_quasi_identifier_is_refused():
    label = SCHEMA.label
    schema = Schema((Numeric(name="v", lower=0, upper=9, role=Role.CONFIDENTIAL), label))
    with pytest.raises(DataError, match="nothing to permute"):
        ProbabilisticKAnonymity(3).guarantee(schema)


@pytest.mark.parametrize("way", [MDAV(), RefinedMDAV(), MDAVBySize(exact_to=0)], ids=repr)
def test_release_of_every_way_to_form_groups_keeps_values_and_the_claim(way):
    data, mechanism = people(400), ProbabilisticKAnonymity(7, way)
    groups, release = mechanism.groups(data), mechanism.protect(data, NoShuffle(3))
    sizes = np.bincount(groups)
    assert sizes.min() >= 7
    assert sizes.max() < 14
    for group in range(len(sizes)):
        before, after = data.X[groups == group], release.X[groups == group]
        np.testing.assert_array_equal(np.sort(before, axis=0), np.sort(after, axis=0))
    assert mechanism.guarantee(data.schema) == ProbabilisticKAnonymity(7).guarantee(data.schema)


class TooSmall:
    """Forms a group of two."""

    def group(self, X, k):
        return np.minimum(np.arange(len(X)) // 2, 1)


def test_groups_smaller_than_k_are_refused():
    with pytest.raises(PrivacyError, match=r"at least k=5 for each of 60 records.*smallest group of 2: use MDAV"):
        ProbabilisticKAnonymity(5, TooSmall()).protect(people(60), Secret())


@pytest.mark.parametrize("way", ["mdav", None, MDAV])
def test_way_to_form_groups_must_be_an_object_that_forms_groups(way):
    with pytest.raises(ParameterError, match=r"expected a way to form groups such as MDAV\(\) or RefinedMDAV\(\), got"):
        ProbabilisticKAnonymity(5, way)


def test_effective_k_counts_forgotten_people_in_a_group_once():
    groups = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    subjects = np.array(["a", "a", "b", "c", "d", "e", "f", "g"])
    forgotten = np.array([True, True, True, False, True, False, False, False])
    # Group 0: a (twice) and b are forgotten, so 2 people; group 1: d alone.
    found = effective_k(groups, forgotten, subjects)
    assert (found.minimum, found.median, found.alone) == (1, 2.0, 0.25)
    assert "25% of them stand alone" in str(found)
    with pytest.raises(DataError, match="no record is forgotten"):
        effective_k(groups, np.zeros(8, bool), subjects)


def test_columns_constant_within_groups_are_reported():
    data = people(60)
    groups = np.repeat([0, 1], 30)
    X = data.X.copy()
    X[:30, 3] = 1
    shares = constant_share(Dataset(data.schema, X, data.y, data.ids, data.subjects), groups)
    assert shares["town"] == 0.5
    assert shares["age"] == 0.0


def test_share_of_records_whose_group_has_one_value_is_measured_with_the_release():
    """Groups of 10, 20 and 30 records: the label is the same in the first, the income in the last."""
    data = people(60)
    groups = np.repeat([0, 1, 2], [10, 20, 30])
    X, y = data.X.copy(), data.y.copy()
    y[:10], y[10:12], y[30:32] = 1, [0, 1], [0, 1]
    X[30:, 1] = 500.0
    X[30:, 5] = np.nan
    changed = Dataset(data.schema, X, y, data.ids, data.subjects)
    assert shared_values(changed, groups, ("income", "score", "ill")) == {"income": 0.5, "score": 0.5, "ill": 0.1667}


def test_claim_of_a_release_carries_what_its_groups_share():
    attributes = [a if a.name != "income" else Numeric(name="income", lower=0, upper=5000, role=Role.CONFIDENTIAL)
                  for a in SCHEMA.attributes]  # fmt: skip
    data = people()
    confidential = Dataset(Schema(tuple(attributes)), data.X, data.y, data.ids, data.subjects)
    mechanism = ProbabilisticKAnonymity(5)
    release, groups = mechanism.protect_in_groups(confidential, Seeded(1))
    shares = dict(release.guarantee.shared)
    assert set(shares) == {"income", "ill"}
    assert shares == shared_values(confidential, groups, ("income", "ill"))
    assert f"ill {percent(shares['ill'])}" in release.guarantee.sentence()
    assert "Measured:" in release.guarantee.sentence()
    assert mechanism.guarantee(confidential.schema).shared is None
    assert "Measured:" not in mechanism.guarantee(confidential.schema).sentence()
    assert guarantee_from_json(release.guarantee.to_json()).shared == release.guarantee.shared
    assert release.guarantee.for_person(3).shared == release.guarantee.shared
