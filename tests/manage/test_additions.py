"""New records without ids: ids that nobody ever had, and tables that come twice."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from eupg import Manager
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError
from eupg.manage.additions import fresh_prefix, held_already
from eupg.manage.storage.subjects import SubjectIndex
from eupg.rng import Secret, Seeded
from managed import METHOD, NEWCOMERS, RECORDS, person, trained

KEY = b"k" * 32
# As a table without ids brings them: the same row numbers as any other table.
NUMBERED = dataclasses.replace(NEWCOMERS, ids=np.arange(len(NEWCOMERS)).astype(str))


def nameless(data: Dataset) -> Dataset:
    """Return the same records without a column that names people; ids are row numbers."""
    ids = np.arange(len(data)).astype(str)
    schema = Schema(tuple(a for a in data.schema.attributes if a is not data.schema.subject))
    return Dataset(schema, data.X, data.y, ids, ids)


@contextmanager
def without_people(folder: Path) -> Iterator[Manager]:
    """Train a workspace of records that nobody is named for."""
    manager = Manager(folder, METHOD, rng=Seeded(7))
    try:
        manager.train(nameless(RECORDS), hold_out=0)
        yield manager
    finally:
        manager.close()


class TestFreshIds:
    def test_ids_of_forgotten_records_are_not_used_again(self):
        """The seed would give the first prefix again: the index remembers that it is taken, though all is gone."""
        rng = Seeded(3)
        first = fresh_prefix(SubjectIndex.empty(), KEY, 30, rng)
        used = dataclasses.replace(NEWCOMERS, ids=np.array([f"{first}-{i}" for i in range(30)]))
        index = SubjectIndex.empty().plus(used, KEY, held_out=False)
        assert fresh_prefix(SubjectIndex.empty(), KEY, 30, rng) == first
        assert fresh_prefix(index, KEY, 30, rng) != first
        assert fresh_prefix(index.without(np.ones(30, dtype=bool)), KEY, 30, rng) != first

    def test_prefixes_are_drawn_from_the_operating_system(self):
        assert len({fresh_prefix(SubjectIndex.empty(), KEY, 1, Secret()) for _ in range(50)}) == 50

    def test_row_numbers_do_not_collide_with_those_of_the_first_table(self, tmp_path):
        first = dataclasses.replace(RECORDS, ids=np.arange(len(RECORDS)).astype(str))
        with trained(tmp_path, records=first) as manager:
            with pytest.raises(DataError, match=r"30 ids of 30 new records are taken.*let ids be generated"):
                manager.add(NUMBERED)
            added = manager.add(NUMBERED, fresh_ids=True)
            assert (added.records, added.repeated, added.returned) == (30, 0, 0)
            data, _ = manager.space.read(manager.space.state())
            assert {f"{added.prefix}-{i}" for i in range(30)} <= data.id_set
            request = manager.request_erasure(record=f"{added.prefix}-7")
            assert manager.forget().records == 1
            assert manager.space.book.get(request.id).state == "completed"

    def test_records_of_nobody_become_people_of_their_own(self, tmp_path):
        """By row number a new record would pass for a record of the first table, or for one held out."""
        with without_people(tmp_path) as manager:
            added = manager.add(nameless(NEWCOMERS), fresh_ids=True)
            data, _ = manager.space.read(manager.space.state())
            new = data.select(np.char.startswith(data.ids, added.prefix))
            assert len(new) == 30
            assert new.subjects.tolist() == new.ids.tolist()


class TestSameTableTwice:
    def test_is_refused_in_words_unless_the_caller_decides(self, tmp_path):
        with trained(tmp_path) as manager:
            manager.add(NUMBERED, fresh_ids=True)
            with pytest.raises(DataError, match=r"30 of 30 new records equal records held already \(the same p"):
                manager.add(NUMBERED, fresh_ids=True)
            with pytest.raises(DataError, match=r"all 30 new records equal records .*nothing to add"):
                manager.add(NUMBERED, fresh_ids=True, repeated="skip")
            assert manager.status().records == 180
            assert manager.add(NUMBERED, fresh_ids=True, repeated="add").repeated == 30
            assert manager.status().records == 210

    def test_longer_table_brings_only_its_new_rows(self, tmp_path):
        with trained(tmp_path) as manager:
            manager.add(NUMBERED.select(np.arange(30) < 12), fresh_ids=True)
            with pytest.raises(DataError, match="12 of 30 new records equal"):
                manager.add(NUMBERED, fresh_ids=True)
            added = manager.add(NUMBERED, fresh_ids=True, repeated="skip")
            assert (added.records, added.repeated) == (18, 12)
            data, _ = manager.space.read(manager.space.state())
            # Ids still name the rows of the table.
            assert f"{added.prefix}-29" in data.id_set
            assert f"{added.prefix}-3" not in data.id_set

    def test_people_who_were_forgotten_and_come_back_are_counted(self, tmp_path):
        with trained(tmp_path) as manager:
            manager.add(NUMBERED, fresh_ids=True)
            manager.request_erasure(subject=person(2, "birch"))
            assert manager.forget().records == 3
            added = manager.add(NUMBERED, fresh_ids=True, repeated="skip")
            assert (added.records, added.repeated, added.returned) == (3, 27, 3)

    def test_without_people_a_few_equal_records_are_added_and_counted(self, tmp_path):
        with without_people(tmp_path) as manager:
            some = dataclasses.replace(
                nameless(NEWCOMERS), X=np.concatenate([RECORDS.X[:14], NEWCOMERS.X[14:]]),
                y=np.concatenate([RECORDS.y[:14], NEWCOMERS.y[14:]]),
            )  # fmt: skip
            assert manager.add(some, fresh_ids=True).repeated == 14
            with pytest.raises(DataError, match=r"30 of 30 new records .*the same values and label\)"):
                manager.add(some, fresh_ids=True)

    def test_ids_of_their_own_are_kept_and_compared_as_before(self, tmp_path):
        with trained(tmp_path) as manager:
            assert manager.add(NEWCOMERS).prefix is None
            with pytest.raises(DataError, match="30 ids of 30 new records are taken"):
                manager.add(NEWCOMERS)

    def test_other_words_are_refused(self, tmp_path):
        with trained(tmp_path) as manager, pytest.raises(ParameterError, match="repeated must be one of"):
            manager.add(NUMBERED, fresh_ids=True, repeated="perhaps")


def test_each_held_record_answers_for_one_new_record():
    new = NUMBERED.select(np.arange(30) < 5)
    twice = dataclasses.replace(
        new, X=new.X[[0, 0, 1, 2, 3]], y=new.y[[0, 0, 1, 2, 3]], subjects=new.subjects[[0, 0, 1, 2, 3]]
    )
    assert held_already(twice, new).tolist() == [True, False, True, True, True]
    assert np.isnan(NUMBERED.X).any(), "missing values equal each other"
    assert held_already(NUMBERED, NEWCOMERS).all()
    other = dataclasses.replace(NUMBERED, y=1 - NUMBERED.y)
    assert not held_already(other, NEWCOMERS).any()
