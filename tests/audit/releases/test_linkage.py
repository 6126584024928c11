"""The audit must leave an honest mechanism alone and accuse each of several broken ones.

Statistical tests run at a false-alarm rate of 1e-6 and say which violation they catch.
"""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from eupg.audit.releases.known_others import subtract
from eupg.audit.releases.linkage import Rate, linkage
from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError, PrivacyError, UnknownRecord
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.protect.local_dp import LocalDP
from eupg.protect.release import Release
from eupg.rng import Seeded
from people import SCHEMA, people

SURE = 1 - 1e-6
LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))


def table(X: np.ndarray, **more) -> Dataset:
    """Return records with one number a column, all of them quasi-identifiers, one person each."""
    X = np.asarray(X, dtype=float)
    columns = [Numeric(name=f"v{j}", lower=-1e6, upper=1e6) for j in range(X.shape[1])]
    names = np.arange(len(X)).astype(str)
    return Dataset(Schema((*columns, LABEL)), X, np.zeros(len(X), int), names, more.get("subjects", names))


def distinct(rows: int, columns: int = 4, seed: int = 0) -> Dataset:
    """Return records without a value in common: what a best-matching row says most about."""
    return table(np.random.default_rng(seed).normal(size=(rows, columns)))


def shuffled_within(X, groups, columns, rng, together=False):
    out = X.copy()
    for j in columns:
        stream = rng.stage("all" if together else f"attribute {j}")
        out[:, j] = X[stream.permutation_within(groups), j]
    return out


class HalfPermuted(ProbabilisticKAnonymity):
    """Permutes every other quasi-identifier."""

    def protect(self, data, rng):
        columns = range(0, len(data.schema.features) - 1, 2)
        X = shuffled_within(data.X, self.groups(data), columns, rng)
        return Release.shuffled(data, X, data.y, self.guarantee(data.schema), rng)


class MovesWholeRows(ProbabilisticKAnonymity):
    """Uses one permutation for all attributes: the label is torn off, the quasi-identifiers stay together."""

    def protect(self, data, rng):
        columns = range(len(data.schema.features) - 1)
        X = shuffled_within(data.X, self.groups(data), columns, rng, together=True)
        return Release.shuffled(data, X, data.y, self.guarantee(data.schema), rng)


class SmallGroups(ProbabilisticKAnonymity):
    """Claims k and groups by half of it."""

    def groups(self, data):
        return ProbabilisticKAnonymity(self.k // 2).groups(data)


@dataclass(frozen=True)
class LazySometimes(ProbabilisticKAnonymity):
    """Leaves all values where they were, in one release of ten."""

    def protect(self, data, rng):
        if rng.stage("lazy").words(1)[0] % 10:
            return super().protect(data, rng)
        return Release.shuffled(data, data.X, data.y, self.guarantee(data.schema), rng)


@pytest.mark.parametrize("data", [distinct(60), people(60)], ids=["distinct", "mixed"])
def test_honest_mechanism_is_linked_once_in_k(data):
    """Groups have k = 5 records each, so the chance is 1/5 exactly; 3,600 guesses place it within 3.4 points."""
    report = linkage(ProbabilisticKAnonymity(5), data, Seeded(1), trials=300, confidence=SURE)
    assert not report.contradicts
    assert report.linked.trials == 3600
    assert report.linked.low < 0.2 < report.linked.high
    assert report.linked.high - report.linked.low < 0.07


@pytest.mark.parametrize("broken", [HalfPermuted, SmallGroups, LazySometimes])
def test_broken_mechanism_is_linked_too_often(broken):
    """Caught: half of the attributes left in place, groups of k/2, and one release in ten left as it was."""
    report = linkage(broken(6), distinct(72), Seeded(2), trials=200, confidence=SURE)
    assert report.linked.contradicts
    assert report.contradicts
    assert "contradicts the claim" in report.sentence()


def test_quasi_identifiers_moved_together_are_found_intact():
    """The label's row is found no more often than claimed, but all quasi-identifiers still stand side by side."""
    report = linkage(MovesWholeRows(6), distinct(72), Seeded(2), trials=100, confidence=SURE)
    assert not report.linked.contradicts
    assert report.intact.rate == 1.0
    assert report.contradicts


def test_chance_of_standing_together_is_not_held_against_the_mechanism():
    """With few distinct values most tuples reappear by chance; the expected share is no violation."""
    data = table(np.random.default_rng(0).integers(0, 2, (60, 3)))
    report = linkage(ProbabilisticKAnonymity(5), data, Seeded(3), trials=100, confidence=SURE)
    assert report.intact.rate > 0.3
    assert not report.contradicts


def test_honest_mechanism_is_accused_no_more_often_than_stated():
    """Of 150 audits at confidence 0.8 at most a fifth may accuse; false alarm 1e-6."""
    data = distinct(20)
    accused = sum(
        linkage(ProbabilisticKAnonymity(4), data, Seeded(s), trials=4, confidence=0.8).contradicts for s in range(150)
    )
    assert accused <= binom.isf(1e-6, 150, 0.2)


def test_rate_has_the_exact_interval():
    # 2 of 20 at 95 %: 1.23 % and 31.70 %, as in any table of Clopper and Pearson.
    found = Rate.counted(np.r_[np.ones(2), np.zeros(18)], 0.2, confidence=0.95)
    assert (found.hits, found.trials, found.rate) == (2, 20, 0.1)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0123, 0.3170)
    assert not found.contradicts
    assert Rate.counted(np.ones(20), 0.2, confidence=0.95).contradicts


def test_one_guess_is_counted_for_each_group_and_release():
    data = distinct(30)
    groups = ProbabilisticKAnonymity(5).groups(data)
    targets = data.ids[(groups == 0) | (groups == 3)]
    report = linkage(ProbabilisticKAnonymity(5), data, Seeded(0), targets=targets, trials=7)
    assert report.linked.trials == 14
    assert (report.targets, report.records, report.releases) == (10, 30, 7)


X4 = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0]])
ONE_GROUP = np.zeros(4, dtype=np.int64)


def shown_of(X: np.ndarray, seed: int) -> np.ndarray:
    return np.column_stack([np.random.default_rng([seed, j]).permutation(X[:, j]) for j in range(X.shape[1])])


def test_lone_target_is_what_the_others_leave():
    alone = np.array([False, True, False, False])
    assert subtract(X4, shown_of(X4, 0), ONE_GROUP, alone, Seeded(0)) == (1.0, 1.0)


def test_two_targets_come_out_right_every_other_time():
    # What is left: {1, 2} and {10, 20}. Of the two ways to pair them one is right, for both targets.
    two = np.array([True, True, False, False])
    found = [subtract(X4, shown_of(X4, s), ONE_GROUP, two, Seeded(s)) for s in range(400)]
    rebuilt, certain = np.array(found).T
    assert set(rebuilt) == {0.0, 1.0}
    assert not certain.any()
    assert binom.ppf(5e-7, 400, 0.5) <= rebuilt.sum() <= binom.isf(5e-7, 400, 0.5)


def test_targets_that_share_all_but_one_value_come_out_for_certain():
    X = X4.copy()
    X[1, 1] = X[0, 1]
    two = np.array([True, True, False, False])
    assert subtract(X, shown_of(X, 1), ONE_GROUP, two, Seeded(0)) == (1.0, 1.0)


def test_missing_values_are_subtracted_like_any_other():
    X = X4.copy()
    X[:3, 1] = np.nan
    alone = np.array([True, False, False, False])
    assert subtract(X, shown_of(X, 2), ONE_GROUP, alone, Seeded(0)) == (1.0, 1.0)


def test_values_that_were_changed_cannot_be_subtracted():
    alone = np.array([False, True, False, False, True])
    X, groups = np.vstack([X4, [5.0, 50.0]]), np.array([0, 0, 0, 0, 1])
    shown = shown_of(X4, 0)
    shown[shown == 3.0] = 3.5
    # The group of one is rebuilt; the other lacks a known value.
    assert subtract(X, np.vstack([shown, X[4:]]), groups, alone, Seeded(0)) == (0.5, 0.5)
    assert subtract(X4, shown, ONE_GROUP, alone[:4], Seeded(0)) == (0.0, 0.0)


@given(st.integers(2, 6), st.integers(0, 1000), st.integers(20, 40))
@settings(max_examples=15, deadline=None)
def test_targets_alone_in_their_groups_are_always_rebuilt(k, seed, rows):
    data = people(rows, seed)
    _, first = np.unique(ProbabilisticKAnonymity(k).groups(data), return_index=True)
    known = linkage(ProbabilisticKAnonymity(k), data, Seeded(seed), targets=data.ids[first], trials=2).complement
    assert (known.linked, known.rebuilt, known.certain) == (1.0, 1.0, 1.0)
    assert (known.effective_k.minimum, known.effective_k.alone) == (1, 1.0)


def test_without_known_records_the_complement_is_the_whole_group():
    data = distinct(30)
    known = linkage(ProbabilisticKAnonymity(5), data, Seeded(0), trials=3).complement
    assert known.linked == 0.2
    assert known.effective_k.minimum == 5
    assert known.rebuilt < 0.1


def test_report_reads_well_and_is_plain():
    data = people(60)
    report = linkage(ProbabilisticKAnonymity(5), data, Seeded(0), targets=data.ids[:6], trials=5)
    text = report.sentence()
    assert text.startswith("k=5, 5 releases,")
    assert "bound 20.00%" in text
    assert "At 99 % confidence this is consistent with the claim, and does not prove it." in text
    assert "Someone who knows every record except the 6 targets" in text
    assert str(report.complement.effective_k) in text
    plain = json.loads(json.dumps(report.to_json()))
    assert plain["linked"]["rate"] == report.linked.rate
    assert plain["linked"]["bound"] == 0.2
    assert plain["contradicts"] is False
    assert plain["complement"]["effective_k"]["minimum"] == report.complement.effective_k.minimum
    everyone = linkage(ProbabilisticKAnonymity(5), data, Seeded(0), trials=5)
    assert "the adversary knew none of them beforehand" in everyone.sentence()


def test_same_seed_same_report_and_records_untouched():
    data = people(60)
    before = data.X.copy()
    first, second = (linkage(ProbabilisticKAnonymity(5), data, Seeded(4), trials=3) for _ in range(2))
    assert first == second
    np.testing.assert_array_equal(data.X, before)


def test_column_of_the_same_name_as_the_marker_does_no_harm():
    attributes = (Numeric(name="position", lower=-1e6, upper=1e6), *SCHEMA.attributes[2:])
    data = people(40)
    data = Dataset(Schema(attributes), data.X, data.y, data.ids, data.ids)
    assert not linkage(ProbabilisticKAnonymity(5), data, Seeded(0), trials=2, confidence=SURE).contradicts


def test_mechanism_that_touches_confidential_attributes_is_refused():
    class Rounds(ProbabilisticKAnonymity):
        def protect(self, data, rng):
            X = data.X.copy()
            X[:, -1] = X[:, -1] // 2
            return Release.shuffled(data, X, data.y, self.guarantee(data.schema), rng)

    class Peeks(ProbabilisticKAnonymity):
        def groups(self, data):
            return np.argsort(np.argsort(-data.X[:, -1], kind="stable")) // self.k

    with pytest.raises(DataError, match="changed a confidential attribute, so rows cannot be traced"):
        linkage(Rounds(5), people(40), Seeded(0))
    with pytest.raises(PrivacyError, match="a confidential attribute changed the groups: form them from the quasi-"):
        linkage(Peeks(5), people(40), Seeded(0))


def test_unusable_input_is_refused():
    data, mechanism = people(40), ProbabilisticKAnonymity(5)
    with pytest.raises(ParameterError, match="LocalDP with a claim of differential privacy: audit differential"):
        linkage(LocalDP(1.0), data, Seeded(0))  # type: ignore[arg-type]
    for trials in (0, 2.0, True):
        with pytest.raises(ParameterError, match="trials must be a whole number of at least 1, got"):
            linkage(mechanism, data, Seeded(0), trials=trials)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no target to look for: name at least one record"):
        linkage(mechanism, data, Seeded(0), targets=[])
    with pytest.raises(UnknownRecord, match="first record id 'nobody'"):
        linkage(mechanism, data, Seeded(0), targets=["nobody"])
    with pytest.raises(ParameterError, match=r"confidence must lie between 0 and 1, got 1.0"):
        linkage(mechanism, data, Seeded(0), confidence=1.0)
    with pytest.raises(DataError, match="k=50 needs at least 50 records"):
        linkage(ProbabilisticKAnonymity(50), data, Seeded(0))
