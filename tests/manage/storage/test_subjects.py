"""The index: who was taken in, found again by digest alone."""

import contextlib
import io
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg.errors import StoreCorrupt
from eupg.manage.requests.states import Request, State
from eupg.manage.storage.columns import StoredColumns
from eupg.manage.storage.subjects import SubjectIndex, person_digest, record_digest
from managed import HELD_OUT, NEWCOMERS, RECORDS, person, record

KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.fixture(scope="module")
def index():
    groups = np.arange(150) // 10
    first = SubjectIndex.empty().plus(RECORDS, KEY, held_out=False).plus(HELD_OUT, KEY, held_out=True)
    return first.released(groups).plus(NEWCOMERS, KEY, held_out=False)


def rows(index, *numbers):
    mask = np.zeros(len(index.gone), dtype=bool)
    mask[list(numbers)] = True
    return mask


def test_digests_need_the_key_and_tell_people_from_records():
    assert person_digest(KEY, "a") == person_digest(KEY, "a")
    digests = {person_digest(KEY, "a"), record_digest(KEY, "a"), person_digest(OTHER, "a"), person_digest(KEY, "b")}
    assert len(digests) == 4


def asked(unit, digest, name="r"):
    return Request(name, unit, digest, None, State.RECEIVED, False, False, "", date(2027, 1, 1), None, 1, 1)


def test_people_and_records_are_found_by_digest(index):
    requests = [
        asked("record", record_digest(KEY, record(9)), "a"),
        asked("person", person_digest(KEY, person(3)), "b"),
        asked("person", person_digest(KEY, "nobody"), "c"),
        asked("person", person_digest(OTHER, person(3)), "d"),
        asked("record", record_digest(KEY, record(0, "birch")), "e"),
        asked("record", person_digest(KEY, person(3)), "f"),
    ]
    found = index.asked_for(requests)
    assert [request for request, _ in found] == requests
    assert [rows.tolist() for _, rows in found] == [[9], [9, 10, 11], [], [], [162], []]
    assert index.asked_for([]) == SubjectIndex.empty().asked_for([]) == []


def test_record_that_came_back_is_found_twice(index):
    again = index.without(rows(index, 9)).plus(RECORDS.select(RECORDS.where([record(9)])), KEY, held_out=False)
    ((_, found),) = again.asked_for([asked("record", record_digest(KEY, record(9)))])
    assert found.tolist() == [9, 192]


def test_people_are_counted_once(index):
    assert index.count_people(rows(index, 0, 1, 2, 3, 162)) == 3
    assert index.count_people(rows(index)) == 0


def test_names_do_not_stand_in_it(index):
    content = index.to_bytes()
    assert not [name for name in RECORDS.ids.tolist() + RECORDS.subjects.tolist() if name.encode() in content]


def test_bytes_give_it_back(index):
    again = SubjectIndex.from_bytes(index.without(rows(index, 3, 155)).to_bytes())
    for name in ("records", "people", "held_out", "groups"):
        np.testing.assert_array_equal(getattr(again, name), getattr(index, name))
    assert np.flatnonzero(again.gone).tolist() == [3, 155]
    assert again.to_bytes() == index.without(rows(index, 3, 155)).to_bytes()


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(content):
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        SubjectIndex.from_bytes(content)


@given(st.integers(0, 20_000), st.integers(1, 255))
def test_changed_bytes_are_refused_or_give_an_index(index, place, change):
    content = bytearray(index.to_bytes())
    content[place % len(content)] ^= change
    with contextlib.suppress(StoreCorrupt):
        assert len(SubjectIndex.from_bytes(bytes(content)).gone) == len(index.gone)


def test_type_that_numpy_reads_as_code_is_refused(index):
    content = index.to_bytes().replace(b'"|u1"', b'"04,"', 1)
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        SubjectIndex.from_bytes(content)


def test_pickles_are_refused():
    file = io.BytesIO()
    np.savez(file, records=np.array([{"a": 1}], dtype=object))
    with pytest.raises(StoreCorrupt):
        SubjectIndex.from_bytes(file.getvalue())


def test_part_follows_the_order_of_the_records_left(index):
    without = index.without(rows(index, 0, 5, 151))
    chosen = rows(without, 1, 150, 162)
    inside, apart = without.part(chosen, held_out=False), without.part(chosen, held_out=True)
    assert (len(inside), np.flatnonzero(inside).tolist()) == (178, [0, 148])
    assert (len(apart), np.flatnonzero(apart).tolist()) == (11, [0])


def test_later_release_leaves_out_who_is_gone_or_held_out_and_takes_in_who_is_new(index):
    second = index.without(rows(index, 0)).released(None)
    assert second.groups.shape == (2, 192)
    assert np.flatnonzero(second.groups[0] < 0).tolist() == list(range(150, 192))
    assert np.flatnonzero(second.groups[1] < 0).tolist() == [0, *range(150, 162)]


def left(index, going, *asked):
    which = np.repeat(np.arange(len(asked)), [len(rows) for rows in asked])
    flat = np.concatenate([np.array(rows, dtype=np.intp) for rows in asked])
    found = index.left_behind(np.array(sorted(going)), flat, which, len(asked))
    return [found.of(i) for i in range(len(asked))]


class TestLeftBehind:
    def test_counts_what_goes_now_and_what_went_before(self, index):
        (found,) = left(index.without(rows(index, 9)), [10], [10])
        assert (found.released, found.others, found.stays) == ((2,), 1, True)

    def test_newcomers_and_people_held_out_leave_nothing_behind(self, index):
        found = left(index, [150, 162], [150], [162])
        assert [(f.released, f.mates) for f in found] == [((0,), ((),)), ((0,), ((),))]

    def test_retained_records_of_the_same_person_do_not_count(self, index):
        assert left(index, [10], [10])[0].released == (1,)

    def test_people_hide_among_the_gone_of_their_group(self, index):
        """Rows 0 to 9 are a group: p0 has 0-2, p1 has 3-5, p2 6-8, p3 has 9 here and 10, 11 in the next."""
        first, both = left(index, [0, 1, 3, 9, 10], [0, 1], [9, 10])
        assert (first.mates, both.mates) == (((3, 3),), ((3, 1),))

    def test_agrees_with_counting_one_by_one(self, index):
        """A slow and obvious count, on rows and earlier erasures drawn at random."""
        draw = np.random.default_rng(7)
        for _ in range(20):
            before = index.without(draw.permutation(192)[:30])
            going = np.sort(draw.permutation(192)[:40])
            asked = [part for part in np.split(going, 8) if len(part)]
            gone = before.gone.copy()
            gone[going] = True
            numbers, groups = before.person_numbers, before.groups[0]
            for part, found in zip(asked, left(before, going, *asked), strict=True):
                theirs = np.flatnonzero(np.isin(numbers, numbers[part]))
                behind = [row for row in theirs if gone[row] and groups[row] >= 0]
                assert found.released == (len(behind),)
                assert found.others == (~gone[theirs]).sum()
                assert found.stays == bool((~gone[theirs] & (groups[theirs] >= 0)).any())
                mates = [len(set(numbers[gone & (groups == groups[row])].tolist())) for row in behind]
                assert sorted(found.mates[0]) == sorted(mates)


class TestFiles:
    @pytest.fixture
    def stored(self, index, tmp_path):
        (tmp_path / "columns").write_bytes(index.to_bytes())
        return index.stored_in(tmp_path / "columns")

    def test_changes_beside_the_columns_give_the_index_back(self, index, stored, tmp_path):
        changed = stored.without(np.array([3, 155])).without(np.array([4]))
        assert not changed.has_many_changes()
        again = SubjectIndex.from_files(changed.changes_to_bytes(), tmp_path / "columns")
        np.testing.assert_array_equal(np.flatnonzero(again.gone), [3, 4, 155])
        assert again.counts() == changed.counts()
        assert again.to_bytes() == index.without(np.array([3, 4, 155])).to_bytes()

    def test_counts_follow_an_erasure(self, stored):
        changed = stored.without(np.array([0, 1, 2, 3, 150]))
        recounted = SubjectIndex.of(changed.records, changed.people, changed.flags, changed.groups).counts()
        assert changed.counts() == recounted
        assert (stored.counts().people - recounted.people, stored.counts().held_out - recounted.held_out) == (1, 1)

    def test_changed_piece_is_refused_when_it_is_read(self, index, tmp_path):
        content = bytearray(index.to_bytes())
        content[-1] ^= 1
        (tmp_path / "columns").write_bytes(content)
        opened = SubjectIndex.from_files(
            index.stored_in(_written(tmp_path, index)).changes_to_bytes(), tmp_path / "columns"
        )
        with pytest.raises(StoreCorrupt, match="was changed"):
            opened.to_bytes()

    def test_other_columns_than_the_noted_ones_are_refused(self, index, stored, tmp_path):
        changes = stored.changes_to_bytes()
        (tmp_path / "columns").write_bytes(index.without(rows(index, 1)).to_bytes())
        with pytest.raises(StoreCorrupt, match="head is not the one"):
            SubjectIndex.from_files(changes, tmp_path / "columns")


def _written(folder, index):
    (folder / "whole").write_bytes(index.to_bytes())
    return folder / "whole"


def test_few_rows_of_many_are_read_without_the_rest(tmp_path):
    """A look at one person in a file of many pieces loads few of them."""
    draw, rows_ = np.random.default_rng(0), 60_000
    digests = draw.integers(0, 256, (2, rows_, 16), dtype=np.uint8).view("V16")[..., 0]
    index = SubjectIndex.of(digests[0], digests[1], np.zeros(rows_, np.uint8), np.zeros((0, rows_), np.int32))
    (tmp_path / "columns").write_bytes(index.to_bytes())
    stored = index.stored_in(tmp_path / "columns")
    found = [part.tolist() for part in stored._find("person", [digests[1][row].tobytes() for row in (0, 777, 59_999)])]
    assert found == [[0], [777], [59_999]]
    assert isinstance(stored._columns, StoredColumns)
    assert 0 < stored._columns._loaded.sum() < len(stored._columns._loaded) / 2
