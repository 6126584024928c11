"""The roll: who was taken in, found again by digest alone."""

import contextlib
import io
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.errors import StoreCorrupt
from eupg.manage.request_states import Request, State
from eupg.manage.roll import Roll, person_digest, record_digest
from managed import HELD_OUT, NEWCOMERS, RECORDS, person, record

KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.fixture(scope="module")
def roll():
    groups = np.arange(150) // 10
    first = Roll.empty().plus(RECORDS, KEY, held_out=False).plus(HELD_OUT, KEY, held_out=True)
    return first.released(groups).plus(NEWCOMERS, KEY, held_out=False)


def rows(roll, *numbers):
    mask = np.zeros(len(roll.gone), dtype=bool)
    mask[list(numbers)] = True
    return mask


def test_digests_need_the_key_and_tell_people_from_records():
    assert person_digest(KEY, "a") == person_digest(KEY, "a")
    digests = {person_digest(KEY, "a"), record_digest(KEY, "a"), person_digest(OTHER, "a"), person_digest(KEY, "b")}
    assert len(digests) == 4


def asked(unit, digest, name="r"):
    return Request(name, unit, digest, None, State.RECEIVED, False, False, "", date(2027, 1, 1), None, 1, 1)


def test_people_and_records_are_found_by_digest(roll):
    requests = [
        asked("record", record_digest(KEY, record(9)), "a"),
        asked("person", person_digest(KEY, person(3)), "b"),
        asked("person", person_digest(KEY, "nobody"), "c"),
        asked("person", person_digest(OTHER, person(3)), "d"),
        asked("record", record_digest(KEY, record(0, "birch")), "e"),
        asked("record", person_digest(KEY, person(3)), "f"),
    ]
    found = roll.asked_for(requests)
    assert [request for request, _ in found] == requests
    assert [rows.tolist() for _, rows in found] == [[9], [9, 10, 11], [], [], [162], []]
    assert roll.asked_for([]) == Roll.empty().asked_for([]) == []


def test_record_that_came_back_is_found_twice(roll):
    again = roll.without(rows(roll, 9)).plus(RECORDS.select(RECORDS.where([record(9)])), KEY, held_out=False)
    ((_, found),) = again.asked_for([asked("record", record_digest(KEY, record(9)))])
    assert found.tolist() == [9, 192]


def test_people_are_counted_once(roll):
    assert roll.count_people(rows(roll, 0, 1, 2, 3, 162)) == 3
    assert roll.count_people(rows(roll)) == 0


def test_names_do_not_stand_in_it(roll):
    content = roll.to_bytes()
    assert not [name for name in RECORDS.ids.tolist() + RECORDS.subjects.tolist() if name.encode() in content]


def test_bytes_give_it_back(roll):
    again = Roll.from_bytes(roll.without(rows(roll, 3, 155)).to_bytes())
    for name in ("records", "people", "held_out", "groups"):
        np.testing.assert_array_equal(getattr(again, name), getattr(roll, name))
    assert np.flatnonzero(again.gone).tolist() == [3, 155]
    assert again.to_bytes() == roll.without(rows(roll, 3, 155)).to_bytes()


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(content):
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        Roll.from_bytes(content)


@given(st.integers(0, 20_000), st.integers(1, 255))
def test_changed_bytes_are_refused_or_give_a_roll(roll, place, change):
    content = bytearray(roll.to_bytes())
    content[place % len(content)] ^= change
    with contextlib.suppress(StoreCorrupt):
        assert len(Roll.from_bytes(bytes(content)).gone) == len(roll.gone)


def test_pickles_are_refused():
    file = io.BytesIO()
    np.savez(file, records=np.array([{"a": 1}], dtype=object))
    with pytest.raises(StoreCorrupt):
        Roll.from_bytes(file.getvalue())


def test_part_follows_the_order_of_the_records_left(roll):
    without = roll.without(rows(roll, 0, 5, 151))
    chosen = rows(without, 1, 150, 162)
    inside, apart = without.part(chosen, held_out=False), without.part(chosen, held_out=True)
    assert (len(inside), np.flatnonzero(inside).tolist()) == (178, [0, 148])
    assert (len(apart), np.flatnonzero(apart).tolist()) == (11, [0])


def test_later_release_leaves_out_who_is_gone_or_held_out_and_takes_in_who_is_new(roll):
    second = roll.without(rows(roll, 0)).released(None)
    assert second.groups.shape == (2, 192)
    assert np.flatnonzero(second.groups[0] < 0).tolist() == list(range(150, 192))
    assert np.flatnonzero(second.groups[1] < 0).tolist() == [0, *range(150, 162)]


class TestStanding:
    def test_counts_what_goes_now_and_what_went_before(self, roll):
        standing = roll.without(rows(roll, 9)).standing(rows(roll, 10))
        assert standing.left_behind(np.array([10]), 0).tolist() == [9, 10]

    def test_newcomers_and_people_held_out_leave_nothing_behind(self, roll):
        standing = roll.standing(rows(roll, 150, 162))
        assert standing.left_behind(np.array([150, 162]), 0).tolist() == []
        assert standing.hides_among(np.empty(0, np.intp), 0) is None

    def test_retained_records_of_the_same_person_do_not_count(self, roll):
        assert roll.standing(rows(roll, 10)).left_behind(np.array([10]), 0).tolist() == [10]

    def test_people_hide_among_the_gone_of_their_group(self, roll):
        """Rows 0 to 9 are a group: p0 has 0-2, p1 has 3-5, p2 6-8, p3 has 9 here and 10, 11 in the next."""
        standing = roll.standing(rows(roll, 0, 1, 3, 9, 10))
        assert standing.hides_among(np.array([0, 1]), 0).minimum == 3
        both = standing.hides_among(np.array([9, 10]), 0)
        assert (both.minimum, both.median, both.alone) == (1, 2.0, 0.5)
