"""Sets and mappings of ids with buckets behave as plain ones, share what stays, and keep nothing of who left."""

import numpy as np
import pytest

from eupg.checks import names_reachable_from
from eupg.data.ids import IdMap, IdSet

NAMES = frozenset(map(str, range(500)))


def test_it_is_the_set_of_its_ids():
    ids = IdSet(NAMES)
    assert ids == NAMES
    assert NAMES.__eq__(ids) is NotImplemented  # so that Python asks the other side
    assert len(ids) == 500
    assert "7" in ids
    assert "500" not in ids
    assert ids <= NAMES <= ids
    assert not ids < NAMES
    assert {"7"} < ids
    assert not ids.isdisjoint(["a", "7"])
    assert {"7", "a"} - ids == {"a"}
    assert {"7", "a"} & ids == {"7"}


@pytest.mark.parametrize("start", [0, 1, 500])
def test_any_sequence_of_leaving_and_joining_ends_as_with_frozen_sets(start):
    rng = np.random.default_rng(start)
    ids, expected = IdSet(map(str, range(start))), frozenset(map(str, range(start)))
    for _ in range(60):
        some = frozenset(map(str, rng.integers(0, 600, rng.integers(0, 20)).tolist()))
        ids, expected = (ids - some, expected - some) if rng.random() < 0.5 else (ids | some, expected | some)
        assert (ids, len(ids), frozenset(ids)) == (expected, len(expected), expected)


def test_a_set_stays_as_it_is_while_others_are_made_of_it():
    ids = IdSet(NAMES)
    assert len(ids - {"7"}) == 499
    assert len(ids | {"new"}) == 501
    assert ids == NAMES


def test_who_left_is_not_kept():
    assert names_reachable_from(IdSet(NAMES) - {"7", "8"}) == NAMES - {"7", "8"}


def test_one_who_leaves_takes_one_bucket_along():
    before = IdSet(NAMES)
    after = before - {"7"}
    assert sum(a is not b for a, b in zip(before._buckets, after._buckets, strict=True)) == 1


class TestMapping:
    PEOPLE = IdMap({name: f"person {int(name) // 2}" for name in NAMES})

    def test_it_is_the_mapping_of_its_items(self):
        assert {name: f"person {int(name) // 2}" for name in NAMES} == self.PEOPLE
        assert (len(self.PEOPLE), self.PEOPLE["7"], self.PEOPLE.get("500")) == (500, "person 3", None)
        assert self.PEOPLE.keys() - {"7"} == NAMES - {"7"}

    @pytest.mark.parametrize("start", [0, 1, 500])
    def test_any_sequence_of_leaving_and_joining_ends_as_with_a_dict(self, start):
        rng = np.random.default_rng(start)
        expected = {str(i): "a" for i in range(start)}
        people = IdMap(expected)
        for turn in range(60):
            some = {str(i): f"{turn}" for i in rng.integers(0, 600, rng.integers(0, 20)).tolist()}
            if rng.random() < 0.5:
                people, expected = people.without(some), {k: v for k, v in expected.items() if k not in some}
            else:
                people, expected = people.joined(some), expected | some
            assert (dict(people), len(people)) == (expected, len(expected))

    def test_who_left_is_not_kept(self):
        assert names_reachable_from(self.PEOPLE.without(["7", "8"])) & NAMES == NAMES - {"7", "8"}

    def test_one_who_leaves_takes_one_bucket_along(self):
        after = self.PEOPLE.without(["7"])
        assert sum(a is not b for a, b in zip(self.PEOPLE._buckets, after._buckets, strict=True)) == 1

    def test_a_mapping_that_grows_has_more_buckets(self):
        people = IdMap()
        for name in NAMES:
            people = people.joined({name: "a"})
        assert len(people._buckets) > 5
        assert people.keys() == NAMES
