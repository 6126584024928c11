"""The subject index: everyone ever taken in, by keyed digest, with what a claim needs after the names are gone.

One row per record, in the order in which the records were taken in. Rows never move, so the records that are left are,
in their order, the rows that are not gone. Digests reveal nothing without the workspace's key.

The rows are columns of a file that an erasure does not rewrite: people are numbered, and the rows of a person, a record
or a group are found without reading the others. What an erasure changes is a short list beside it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eupg.errors import StoreCorrupt
from eupg.manage.requests.states import Request
from eupg.manage.storage.columns import Buffer, ColumnSet, StoredColumns, find
from eupg.temporary import TemporaryFolder

if TYPE_CHECKING:
    from eupg.data.dataset import Dataset, Names

Rows = NDArray[np.bool_]
Numbers = NDArray[np.intp]
Flags = NDArray[np.uint8]
_SIZE = 16
_PERSON, _RECORD = b"eupg person", b"eupg record"
# Archives without a number are format 1; the first of them do not say who was exposed. Before format 3 it was not
# noted who was drawn, nor whether an earlier model had seen a record. Format 4 is no archive.
_UNNUMBERED, _LAST_ARCHIVE = 1, 3
_CHANGES = b"eupg-index-4\n"
_COLUMNS = b"eupg-columns-1\n"
_NO_GROUP = -1
_NO_SLOT = -1
# In a release whose mechanism forms no groups, everybody who took part shares this one.
_ONE_GROUP = 0
_HELD_OUT, _GONE, _DRAWN, _EXPOSED, _SEEN = 1, 2, 4, 8, 16
# More changes than this share of the rows, and the columns are written again.
_MANY_CHANGES = 1 / 16
_NAMES_AT_ONCE = 1 << 16


def person_digest(key: bytes, name: str) -> str:
    """Return the keyed digest of a person's id."""
    return person_digests(key, [name])[0]


def person_digests(key: bytes, names: Iterable[str]) -> list[str]:
    """Return the keyed digests of people's ids."""
    return [digest.hex() for digest in _digests(key, _PERSON, names)]


def record_digest(key: bytes, name: str) -> str:
    """Return the keyed digest of a record's id; a person of the same name has another."""
    return record_digests(key, [name])[0]


def record_digests(key: bytes, names: Iterable[str]) -> list[str]:
    """Return the keyed digests of records' ids."""
    return [digest.hex() for digest in _digests(key, _RECORD, names)]


def _digests(key: bytes, purpose: bytes, names: Iterable[str]) -> list[bytes]:
    return list(_each_digest(key, purpose, names))


def _each_digest(key: bytes, purpose: bytes, names: Iterable[str]) -> Iterator[bytes]:
    start = hashlib.blake2b(key=key, digest_size=_SIZE, person=purpose)
    for name in names:
        digest = start.copy()
        digest.update(name.encode())
        yield digest.digest()


def _digests_of(key: bytes, purpose: bytes, names: Names) -> NDArray[np.void]:
    """Return the digests of names that are given as an array, a part at a time: no Python object stays for each."""
    parts = [np.empty(0, dtype=f"V{_SIZE}")]
    for first in range(0, len(names), _NAMES_AT_ONCE):
        part = b"".join(_each_digest(key, purpose, names[first : first + _NAMES_AT_ONCE].tolist()))
        parts.append(np.frombuffer(part, dtype=f"V{_SIZE}"))
    return np.concatenate(parts)


@dataclass(frozen=True)
class IndexCounts:
    """How many records and people are in training, how many records are held out, and how many people are exposed."""

    training: int
    people: int
    held_out: int
    exposed_people: int


@dataclass(frozen=True)
class LeftBehind:
    """What is left of the people whom one request is about, once some rows are gone.

    Parameters
    ----------
    released
        Per release, how many of their records took part in it and are gone: whether they are forgotten together, one by
        one, or were earlier, in the claim they count together.
    mates
        Per release, for each of these records, how many forgotten people its group holds, its own person included.
    others, stays
        How many of their records are kept, and whether one of these was released.
    seen
        Whether any served model was fitted on one of their records.
    """

    released: tuple[int, ...]
    mates: tuple[tuple[int, ...], ...]
    others: int
    stays: bool
    seen: bool


@dataclass(frozen=True, eq=False)
class LeftBehindEach:
    """What is left of the people whom each of many requests is about: the fields of :class:`LeftBehind`, as columns.

    ``released`` has one line per release. ``mates`` lists the figures of all requests, in their order, for each
    release; None where they were not counted.
    """

    released: NDArray[np.int64]
    mates: tuple[NDArray[np.int64] | None, ...]
    others: NDArray[np.int64]
    stays: Rows
    seen: Rows

    def of(self, request: int) -> LeftBehind:
        """Return what is left of the people of one request."""
        return LeftBehind(
            tuple(self.released[:, request].tolist()),
            tuple(() if each is None else self._part(release, request) for release, each in enumerate(self.mates)),
            int(self.others[request]),
            bool(self.stays[request]),
            bool(self.seen[request]),
        )

    def _part(self, release: int, request: int) -> tuple[int, ...]:
        start, mates = int(self.released[release, :request].sum()), self.mates[release]
        return () if mates is None else tuple(mates[start : start + int(self.released[release, request])].tolist())


class SubjectIndex:
    """Who was taken in.

    Per row, it knows: the digest of the record's id and of the person's (``records``, ``people``); whether no model
    ever sees it (``held_out``), and whether it was forgotten (``gone``); whether it was decided for its person that
    models may see them raw (``drawn``), a decision that stays when they are gone; whether the served model was fitted
    on it directly (``exposed``; for rows that are gone, the model that was served then), and whether any served model
    ever was (``seen``). ``groups`` has one line per release: the group of each record in it, or −1 if it took no part.
    ``slots`` says in which record file a row is, by a number that stays when the file is rewritten; −1 if unknown.
    """

    def __init__(
        self,
        columns: ColumnSet,
        changed: NDArray[np.uint32] | None = None,
        flags: Flags | None = None,
        *,
        counts: IndexCounts | None = None,
    ) -> None:
        self._columns = columns
        self._changed = np.empty(0, np.uint32) if changed is None else changed
        self._new_flags = np.empty(0, np.uint8) if flags is None else flags
        self._counts = counts

    @classmethod
    def of(
        cls,
        records: NDArray[np.void],
        people: NDArray[np.void],
        flags: Flags,
        groups: NDArray[np.int32],
        slots: NDArray[np.int32] | None = None,
    ) -> SubjectIndex:
        """Make an index from one value per row."""
        columns: dict[str, NDArray[Any]] = {}
        for name, digests in (("person", people), ("record", records)):
            columns |= _coded(name, digests)
        columns["flags"] = flags
        columns["slots"] = np.full(len(flags), _NO_SLOT, np.int32) if slots is None else slots
        for release, of_rows in enumerate(groups):
            columns |= _grouped(release, of_rows)
        return cls(ColumnSet(columns))

    @classmethod
    def empty(cls) -> SubjectIndex:
        """Return an index of nobody."""
        none = np.empty(0, dtype=f"V{_SIZE}")
        return cls.of(none, none, np.empty(0, np.uint8), np.empty((0, 0), np.int32))

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._columns.length("flags")

    # Whole columns

    @cached_property
    def flags(self) -> Flags:
        """All that is known of the rows by yes or no, one bit each."""
        flags = np.array(self._columns.all("flags"), dtype=np.uint8)
        flags[self._changed] = self._new_flags
        flags.flags.writeable = False
        return flags

    @property
    def records(self) -> NDArray[np.void]:
        """The digest of each row's record."""
        return np.asarray(self._columns.all("records")[self._columns.all("record")])

    @property
    def people(self) -> NDArray[np.void]:
        """The digest of each row's person."""
        return np.asarray(self._columns.all("persons")[self.person_numbers])

    @property
    def person_numbers(self) -> NDArray[np.uint32]:
        """The number of each row's person."""
        return self._columns.all("person")

    @property
    def held_out(self) -> Rows:
        """Rows that no model ever sees."""
        return self._flagged(_HELD_OUT)

    @property
    def gone(self) -> Rows:
        """Rows that were forgotten."""
        return self._flagged(_GONE)

    @property
    def drawn(self) -> Rows:
        """Rows of people who were drawn to be seen raw."""
        return self._flagged(_DRAWN)

    @property
    def exposed(self) -> Rows:
        """Rows that the served model was fitted on."""
        return self._flagged(_EXPOSED)

    @property
    def seen(self) -> Rows:
        """Rows that any served model was fitted on."""
        return self._flagged(_SEEN)

    @property
    def training(self) -> Rows:
        """Rows that the model is trained on."""
        return np.asarray(self.flags & (_HELD_OUT | _GONE) == 0)

    @property
    def releases(self) -> int:
        """The number of releases."""
        return sum(name.startswith("group_of_") for name in self._columns.names)

    @property
    def groups(self) -> NDArray[np.int32]:
        """The group of each row, one line per release."""
        lines = [self._columns.all(f"group_of_{release}") for release in range(self.releases)]
        return np.stack(lines) if lines else np.empty((0, len(self)), np.int32)

    @property
    def slots(self) -> NDArray[np.int32]:
        """The number of each row's record file."""
        return self._columns.all("slots")

    def _flagged(self, bit: int) -> Rows:
        return (self.flags & bit).astype(bool)

    # Changes

    def plus(self, data: Dataset, key: bytes, *, held_out: bool) -> SubjectIndex:
        """Return the index with further records at its end."""
        people, place = np.unique(data.subjects, return_inverse=True)
        rows = len(data)
        new_people = _digests_of(key, _PERSON, people)[place]
        return SubjectIndex.of(
            np.concatenate([self.records, _digests_of(key, _RECORD, data.ids)]),
            np.concatenate([self.people, new_people]),
            np.concatenate([self.flags, np.full(rows, _HELD_OUT if held_out else 0, np.uint8)]),
            np.concatenate([self.groups, np.full((self.releases, rows), _NO_GROUP, np.int32)], axis=1),
            np.concatenate([self.slots, np.full(rows, _NO_SLOT, np.int32)]),
        )

    def released(self, groups: NDArray[np.integer] | None) -> SubjectIndex:
        """Return the index after a release of all records in training, with their groups if there are any."""
        row = np.full(len(self), _NO_GROUP, np.int32)
        row[self.training] = _ONE_GROUP if groups is None else groups
        return self._with(**_grouped(self.releases, row))

    def joined(self) -> SubjectIndex:
        """Return the index after all records in training have touched the model behind the last release."""
        last = self.releases - 1
        row = self._columns.all(f"group_of_{last}").copy()
        row[self.training & (row == _NO_GROUP)] = _ONE_GROUP
        return self._with(**_grouped(last, row))

    def placed(self, slots: Mapping[int, Numbers]) -> SubjectIndex:
        """Return the index with these rows in the record files of these numbers."""
        column = self.slots.copy()
        for slot, rows in slots.items():
            column[rows] = slot
        return self._with(slots=column)

    def without(self, rows: Rows | Numbers) -> SubjectIndex:
        """Return the index with these rows gone."""
        numbers: Numbers = np.flatnonzero(rows) if rows.dtype == bool else np.unique(rows).astype(np.intp)
        counts = None if self._counts is None else self._counted_without(self._counts, numbers)
        return self._changing(numbers, self.flags_of(numbers) | np.uint8(_GONE), counts)

    def _counted_without(self, counts: IndexCounts, numbers: Numbers) -> IndexCounts:
        """Return the counts without these rows, from the rows of their people alone."""
        theirs, _ = self.rows_of_people(np.unique(self.people_at(numbers)))
        people, before = self.people_at(theirs), self.flags_of(theirs)
        after = np.where(np.isin(theirs, numbers), before | _GONE, before)
        counted = [_count(flags, people) for flags in (before, after)]
        lost = {name: value - asdict(counted[1])[name] for name, value in asdict(counted[0]).items()}
        return IndexCounts(**{name: value - lost[name] for name, value in asdict(counts).items()})

    def exposing(self, chosen: Rows, *, drawn: Rows | None = None) -> SubjectIndex:
        """Return the index with these of the records in training exposed, and no others of them.

        Those who are drawn are the same, unless they are named: where too few are drawn, they are not exposed.
        """
        # For those who are gone it stays known whether a model had seen them, and whether they were drawn.
        training, flags = self.training, self.flags.copy()
        flags[flags & _GONE == 0] &= np.uint8(0xFF ^ _EXPOSED)
        flags[training] &= np.uint8(0xFF ^ _DRAWN)
        decided = chosen if drawn is None else drawn
        flags[training] |= np.where(chosen, _EXPOSED, 0).astype(np.uint8) | np.where(decided, _DRAWN, 0).astype(
            np.uint8
        )
        flags |= np.where(flags & _EXPOSED, _SEEN, 0).astype(np.uint8)
        changed = np.flatnonzero(flags != self._columns.all("flags")).astype(np.uint32)
        return SubjectIndex(self._columns, changed, flags[changed])

    def _changing(self, numbers: Numbers, flags: Flags, counts: IndexCounts | None) -> SubjectIndex:
        """Return the index with other flags at a few rows."""
        keep = ~np.isin(self._changed, numbers)
        rows = np.concatenate([self._changed[keep], numbers.astype(np.uint32)])
        order = np.argsort(rows)
        values = np.concatenate([self._new_flags[keep], flags])
        return SubjectIndex(self._columns, rows[order], values[order], counts=counts)

    def _with(self, **columns: NDArray[Any]) -> SubjectIndex:
        """Return an index in memory with some columns replaced or added, and all changes in them."""
        old = {name: self._columns.all(name) for name in self._columns.names}
        return SubjectIndex(ColumnSet(old | {"flags": self.flags} | columns))

    # A few rows, without reading the others

    def flags_of(self, rows: Numbers) -> Flags:
        """Return the flags of some rows."""
        flags = np.array(self._columns.take("flags", rows), dtype=np.uint8)
        if len(self._changed):
            place = np.minimum(np.searchsorted(self._changed, rows), len(self._changed) - 1)
            here = self._changed[place] == rows
            flags[here] = self._new_flags[place[here]]
        return flags

    def gone_at(self, rows: Numbers) -> Rows:
        """Return which of some rows are gone."""
        return (self.flags_of(rows) & _GONE).astype(bool)

    def exposed_at(self, rows: Numbers) -> Rows:
        """Return which of some rows the served model was fitted on; of rows that are gone, the model of that time."""
        return (self.flags_of(rows) & _EXPOSED).astype(bool)

    def seen_at(self, rows: Numbers) -> Rows:
        """Return which of some rows any served model was fitted on."""
        return (self.flags_of(rows) & _SEEN).astype(bool)

    def held_out_at(self, rows: Numbers) -> Rows:
        """Return which of some rows are held out."""
        return (self.flags_of(rows) & _HELD_OUT).astype(bool)

    def slots_at(self, rows: Numbers) -> NDArray[np.int32]:
        """Return the numbers of the record files of some rows."""
        return np.asarray(self._columns.take("slots", rows))

    def records_at(self, rows: Numbers) -> list[bytes]:
        """Return the digests of the records of some rows."""
        digests = self._columns.take("records", self._columns.take("record", rows))
        return [bytes(digest) for digest in digests.tolist()]

    def people_at(self, rows: Numbers) -> Numbers:
        """Return the numbers of the people to whom some rows belong."""
        return np.asarray(self._columns.take("person", rows)).astype(np.intp)

    def groups_at(self, release: int, rows: Numbers) -> NDArray[np.int32]:
        """Return the groups of some rows in a release; −1 for those that took no part."""
        return np.asarray(self._columns.take(f"group_of_{release}", rows))

    def rows_of_people(self, people: Numbers) -> tuple[Numbers, Numbers]:
        """Return all rows, gone or not, of the people of these numbers; and for each row, whose it is by position."""
        return self._rows_of("person", people)

    def members(self, release: int, groups: NDArray[np.integer]) -> tuple[Numbers, Numbers]:
        """Return all rows of these groups of a release; and for each row, in which of the groups it is by position."""
        return self._rows_of(f"group_{release}", groups.astype(np.intp))

    def _rows_of(self, name: str, codes: Numbers) -> tuple[Numbers, Numbers]:
        starts = self._columns.take(f"{name}_starts", codes).astype(np.intp)
        sizes = self._columns.take(f"{name}_starts", codes + 1).astype(np.intp) - starts
        which = np.repeat(np.arange(len(codes)), sizes)
        within = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._columns.take(f"{name}_rows", starts[which] + within).astype(np.intp), which

    def _find_rows(self, name: str, digests: list[bytes]) -> tuple[Numbers, Numbers]:
        """Return the rows that have these digests; and for each row, by position, which of the digests it has."""
        places = find(self._columns, f"{name}s", digests)
        present = np.flatnonzero(places >= 0)
        rows, which = self._rows_of(name, places[present])
        return rows, present[which]

    def _find(self, name: str, digests: list[bytes]) -> list[Numbers]:
        """Return for each digest the rows that have it; none where it does not occur."""
        return _split(*self._find_rows(name, digests), len(digests))

    @property
    def nameless(self) -> bool:
        """Whether no person has two records, as where nothing tells whose the records are."""
        return self._columns.length("persons") == self._columns.length("records")

    @property
    def names_people(self) -> bool:
        """Whether some person has two rows."""
        return self._columns.length("persons") < len(self)

    def counts(self) -> IndexCounts:
        """Count records and people."""
        if self._counts is None:
            self._counts = _count(self.flags, self.person_numbers)
        return self._counts

    def asked_for(self, requests: Sequence[Request]) -> list[tuple[Request, Numbers]]:
        """Return for each request the rows of its person or record, gone or not; one that came back has several."""
        return list(zip(requests, _split(*self.rows_asked_for(requests), len(requests)), strict=True))

    def rows_asked_for(self, requests: Sequence[Request]) -> tuple[Numbers, Numbers]:
        """Return the rows that requests are about, gone or not; and for each row, by position, which request."""
        rows, which = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
        for unit in ("person", "record"):
            mine = [i for i, request in enumerate(requests) if request.unit == unit]
            if mine:
                theirs, place = self._find_rows(unit, [_digest(requests[i].digest) for i in mine])
                rows.append(theirs)
                which.append(np.array(mine, dtype=np.intp)[place])
        flat, request = np.concatenate(rows), np.concatenate(which)
        order = np.argsort(request, kind="stable")
        return flat[order], request[order]

    def still_held(self, request: Request) -> tuple[int, int]:
        """Count the records that came in again under a request's digest, and the others of the same person."""
        ((_, rows),) = self.asked_for([request])
        theirs, _ = self.rows_of_people(np.unique(self.people_at(rows)))
        again = int((~self.gone_at(rows)).sum())
        return again, int((~self.gone_at(theirs)).sum()) - again

    def knows_records(self, key: bytes, names: Iterable[str]) -> bool:
        """Return whether any of these record ids was ever taken in, forgotten records included."""
        return bool((find(self._columns, "records", _digests(key, _RECORD, names)) >= 0).any())

    def forgotten_people(self, key: bytes, names: Sequence[str]) -> list[bool]:
        """Return for each person whether they were here and all of their records are gone."""
        each = self._find("person", _digests(key, _PERSON, names))
        return [len(rows) > 0 and bool(self.gone_at(rows).all()) for rows in each]

    def decisions(self, people: Sequence[str], key: bytes) -> list[bool | None]:
        """Return for each person whether they are drawn; None where that was never decided.

        Nothing is decided for people who are held out, so someone who was held out and comes back is a newcomer.
        """
        decided: list[bool | None] = []
        for rows in self._find("person", _digests(key, _PERSON, people)):
            flags = self.flags_of(rows)
            flags = flags[flags & _HELD_OUT == 0]
            decided.append(bool((flags & _DRAWN).any()) if len(flags) else None)
        return decided

    def count_people(self, rows: Rows | Numbers) -> int:
        """Count the people to whom these rows belong."""
        people = self.person_numbers[rows] if rows.dtype == bool else self.people_at(np.asarray(rows))
        return len(np.unique(people))

    def part(self, rows: Rows, *, held_out: bool) -> Rows:
        """Return for the records that are left in training (or held out), in their order, whether they are chosen."""
        return np.asarray(rows[self.rows_left(held_out=held_out)])

    def rows_left(self, *, held_out: bool) -> Numbers:
        """Return the rows of the records that are left in training (or held out), in their order."""
        wanted = _HELD_OUT if held_out else 0
        return np.flatnonzero(self.flags & (_HELD_OUT | _GONE) == wanted)

    def left_behind(
        self,
        going: Numbers,
        rows: Numbers,
        which: Numbers,
        requests: int,
        *,
        grouped: Sequence[bool] | None = None,
    ) -> LeftBehindEach:
        """Return for each of so many requests what is left of its people once the rows that go are gone.

        ``rows`` are those that the requests are about, and ``which`` the number of the request of each. Mates are
        counted in the releases that are marked as grouped; by default in all.
        """
        of_request, person = _distinct_pairs(which, self.people_at(rows))
        theirs, place = self.rows_of_people(person)
        request, flags = of_request[place], self.flags_of(theirs)
        gone = (flags & _GONE).astype(bool) | _among(theirs, going)
        stays, released, mates = np.zeros(requests, bool), [], []
        for release in range(self.releases):
            groups = self.groups_at(release, theirs)
            behind = (groups >= 0) & gone
            stays[request[(groups >= 0) & ~gone]] = True
            released.append(np.bincount(request[behind], minlength=requests))
            counted = grouped is None or grouped[release]
            mates.append(self._mates(release, groups[behind], going) if counted else None)
        return LeftBehindEach(
            released=np.array(released, dtype=np.int64).reshape(len(released), requests),
            mates=tuple(mates),
            others=np.bincount(request[~gone], minlength=requests),
            stays=stays,
            seen=np.bincount(request[(flags & _SEEN).astype(bool)], minlength=requests) > 0,
        )

    def _mates(self, release: int, groups: NDArray[np.int32], going: Numbers) -> NDArray[np.int64]:
        """Count the people gone from each of these groups, once the rows that go are gone too."""
        distinct, place = np.unique(groups, return_inverse=True)
        rows, which = self.members(release, distinct)
        gone = self.gone_at(rows) | _among(rows, going)
        group, _ = _distinct_pairs(which[gone], self.people_at(rows[gone]))
        return np.bincount(group, minlength=len(distinct))[place]

    def is_index_of(self, data: Dataset, held_out: Dataset, key: bytes) -> bool:
        """Return whether this is the index of exactly these records, in training and held out, under this key."""
        for part, rows in ((data, self.training), (held_out, self.held_out & ~self.gone)):
            again = SubjectIndex.empty().plus(part, key, held_out=False)
            if not np.array_equal(again.records, self.records[rows]):
                return False
            if not np.array_equal(again.people, self.people[rows]):
                return False
        return self._is_whole()

    def _is_whole(self) -> bool:
        """Return whether the columns by which rows are found agree with the rows, and the counts with both."""
        again = SubjectIndex.of(self.records, self.people, self.flags, self.groups, self.slots)
        same = all(
            np.array_equal(again._columns.all(name), self._columns.all(name))
            for name in self._columns.names
            if name != "flags"
        )
        return same and again.counts() == self.counts()

    # Files

    def to_bytes(self) -> bytes:
        """Return the index as one file, which contains nothing executable."""
        return b"".join(self.to_parts())

    def to_parts(self) -> list[Buffer]:
        """Return the same in parts that are not copied."""
        return (self._with() if len(self._changed) else self)._columns.to_parts()

    def has_many_changes(self) -> bool:
        """Return whether the columns are to be written again: they are in no file yet, or much has changed since."""
        stored = isinstance(self._columns, StoredColumns)
        return not stored or len(self._changed) > max(1024, _MANY_CHANGES * len(self))

    def changes_to_bytes(self) -> bytes:
        """Return what has changed since the columns were stored, and the counts, as a file of its own."""
        if not isinstance(self._columns, StoredColumns):
            raise StoreCorrupt("the columns of the index of people are in no file: store them first")
        about = asdict(self.counts()) | {"head": self._columns.head, "changed": len(self._changed)}
        content = self._changed.astype("<u4").tobytes() + self._new_flags.tobytes()
        return b"".join([_CHANGES, json.dumps(about).encode(), b"\n", content])

    def stored_in(self, path: Path) -> SubjectIndex:
        """Return this index, read from the file that its columns were just stored in."""
        return SubjectIndex(StoredColumns(path, None), counts=self.counts())

    @classmethod
    def from_files(cls, changes: bytes, columns: Path | None) -> SubjectIndex:
        """Read an index from the file of its changes, and the path of its columns where it has any."""
        if columns is None or not changes.startswith(_CHANGES):
            return cls.from_bytes(changes)
        try:
            counts, about, content = _read_changes(changes)
            number = int(about["changed"])
            rows = np.frombuffer(content, dtype="<u4", count=number)
            flags = np.frombuffer(content, dtype=np.uint8, offset=4 * number, count=number)
        except (ValueError, KeyError, TypeError) as error:
            raise _unreadable(error) from error
        return cls(StoredColumns(columns, str(about["head"])), rows, flags, counts=counts)

    @classmethod
    def from_bytes(cls, content: bytes) -> SubjectIndex:
        """Read an index back from one file, of this or an earlier version."""
        if content.startswith(_COLUMNS):
            return cls(_columns_in(content))
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                values = {name: archive[name] for name in archive.files}
                written = int(values.pop("format", np.array(_UNNUMBERED)))
                if written > _LAST_ARCHIVE:
                    raise StoreCorrupt(
                        f"the index of people has format {written}, newer than {_LAST_ARCHIVE}: update eupg"
                    )
                # Before exposure was recorded, models were fitted on everyone in training.
                values.setdefault("exposed", ~values["held_out"])
                values.setdefault("drawn", values["exposed"])
                values.setdefault("seen", _maybe_seen(values["exposed"], values["groups"]))
                flags = np.zeros(len(values["gone"]), np.uint8)
                for name, bit in _BITS.items():
                    flags |= np.where(values[name], bit, 0).astype(np.uint8)
                return cls.of(values["records"], values["people"], flags, values["groups"])
        except (ValueError, KeyError, OSError, EOFError, RuntimeError, IndexError, zipfile.BadZipFile) as error:
            raise _unreadable(error) from error


_BITS = {"held_out": _HELD_OUT, "gone": _GONE, "drawn": _DRAWN, "exposed": _EXPOSED, "seen": _SEEN}


def counts_in(changes: bytes) -> IndexCounts | None:
    """Return the counts that the file of changes holds; None if an earlier version wrote it."""
    if not changes.startswith(_CHANGES):
        return None
    try:
        return _read_changes(changes)[0]
    except (ValueError, KeyError, TypeError) as error:
        raise _unreadable(error) from error


def _read_changes(content: bytes) -> tuple[IndexCounts, dict[str, Any], bytes]:
    if not content.startswith(_CHANGES):
        raise ValueError("it does not begin as such a file does")
    line, _, rest = content[len(_CHANGES) :].partition(b"\n")
    about = json.loads(line)
    return IndexCounts(*(int(about[name]) for name in IndexCounts.__dataclass_fields__)), about, rest


def _columns_in(content: bytes) -> ColumnSet:
    """Return columns in memory from the content of their file."""
    with TemporaryFolder() as folder:
        path = folder / "columns"
        path.write_bytes(content)
        try:
            stored = StoredColumns(path, None)
            return ColumnSet({name: stored.all(name).copy() for name in stored.names})
        except StoreCorrupt as error:
            raise _unreadable(error) from error


def _unreadable(error: Exception) -> StoreCorrupt:
    return StoreCorrupt(f"the index of people cannot be read ({error}): restore it from a backup")


def _coded(name: str, digests: NDArray[np.void]) -> dict[str, NDArray[Any]]:
    """Return a number for each distinct digest, in their order, and the rows of each."""
    halves = np.ascontiguousarray(digests).view(">u8").reshape(-1, 2)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    ordered = digests[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (halves[order[1:]] != halves[order[:-1]]).any(axis=1)
    codes = np.empty(len(order), np.uint32)
    codes[order] = np.cumsum(first) - 1
    return {
        f"{name}s": ordered[first],
        f"{name}_starts": np.append(np.flatnonzero(first), len(order)).astype(np.uint32),
        f"{name}_rows": order.astype(np.uint32),
        name: codes,
    }


def _grouped(release: int, groups: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    """Return the columns of a release: the group of each row, and the rows of each group."""
    order = np.argsort(groups, kind="stable")
    taking_part = order[int((groups < 0).sum()) :]
    sizes = np.bincount(groups[taking_part]) if len(taking_part) else np.zeros(0, np.int64)
    return {
        f"group_of_{release}": groups,
        f"group_{release}_starts": np.append(0, np.cumsum(sizes)).astype(np.uint32),
        f"group_{release}_rows": taking_part.astype(np.uint32),
    }


def _count(flags: Flags, people: NDArray[np.integer]) -> IndexCounts:
    training = flags & (_HELD_OUT | _GONE) == 0
    exposed = training & (flags & _EXPOSED).astype(bool)
    return IndexCounts(
        training=int(training.sum()),
        people=_distinct(people[training]),
        held_out=int((flags & (_HELD_OUT | _GONE) == _HELD_OUT).sum()),
        exposed_people=_distinct(people[exposed]),
    )


def _distinct_pairs(first: Numbers, second: Numbers) -> tuple[Numbers, Numbers]:
    """Return the distinct pairs of two columns of numbers from 0 on, in their order."""
    width = int(second.max()) + 1 if len(second) else 1
    return np.divmod(np.unique(first.astype(np.int64) * width + second), width)


def _split(rows: Numbers, which: Numbers, number: int) -> list[Numbers]:
    """Return the rows of each of so many parts; the parts of the rows are given, in order."""
    return np.split(rows, np.searchsorted(which, np.arange(1, number))) if number else []


def _distinct(people: NDArray[np.integer]) -> int:
    """Count distinct numbers, without sorting where they are many."""
    if len(people) < 1024:
        return len(np.unique(people))
    present = np.zeros(int(people.max()) + 1, dtype=bool)
    present[people] = True
    return int(present.sum())


def _among(rows: Numbers, going: Numbers) -> Rows:
    """Return which rows are among those that go, which are sorted."""
    if not len(going):
        return np.zeros(len(rows), dtype=bool)
    place = np.minimum(np.searchsorted(going, rows), len(going) - 1)
    return np.asarray(going[place] == rows)


def _digest(text: str) -> bytes:
    """Return the bytes of a digest; one of another length is nobody's."""
    content = bytes.fromhex(text)
    return content if len(content) == _SIZE else hashlib.blake2b(content, digest_size=_SIZE).digest()


def _maybe_seen(exposed: Rows, groups: NDArray[np.int32]) -> Rows:
    """Return whom a model may have seen, where only the newest sample was noted: each release had one of its own."""
    return np.asarray(exposed | (groups[:-1] != _NO_GROUP).any(axis=0))
