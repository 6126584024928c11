"""The roll: everyone ever taken in, by keyed digest, with what a claim needs to know after the names are gone.

One row a record, in the order the records were taken in: digest of the record's and of the person's id, whether it is
held out, the group it had in each release (−1 where it took no part), whether its person is drawn to be seen raw, which
models were fitted on it, and whether it is gone. Rows never move, so the records that are left are, in their order, the
rows that are not gone. Digests say nothing without the workspace's key.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from eupg.data.dataset import Dataset
from eupg.errors import StoreCorrupt
from eupg.manage.request_states import Request
from eupg.protect.kanonymity import EffectiveK

Rows = NDArray[np.bool_]
Numbers = NDArray[np.intp]
_SIZE = 16
# Archives without a number are format 1; the first ones of them do not say who was exposed. Before format 3 it was not
# noted who was drawn, nor whether an earlier model had seen a record.
_UNNUMBERED, _FORMAT = 1, 3
_NO_GROUP = -1
# In a release whose mechanism has no groups, everybody who took part shares this one.
_ONE_GROUP = 0


def person_digest(key: bytes, name: str) -> str:
    """Return the keyed digest of a person's id."""
    return _digests(key, b"eupg person", [name])[0].hex()


def record_digest(key: bytes, name: str) -> str:
    """Return the keyed digest of a record's id; a person of the same name has another."""
    return _digests(key, b"eupg record", [name])[0].hex()


def _digests(key: bytes, purpose: bytes, names: Iterable[str]) -> list[bytes]:
    start = hashlib.blake2b(key=key, digest_size=_SIZE, person=purpose)
    found = []
    for name in names:
        one = start.copy()
        one.update(name.encode())
        found.append(one.digest())
    return found


@dataclass(frozen=True, eq=False)
class Index:
    """Rows by the digest they carry.

    Parameters
    ----------
    digests
        Every digest once, sorted.
    number
        For each row, which of them it has.
    order, starts
        Rows sorted by digest, and where each digest's begin.
    """

    digests: NDArray[np.void]
    number: Numbers
    order: Numbers
    starts: Numbers

    @classmethod
    def of(cls, column: NDArray[np.void]) -> Index:
        """Sort a column."""
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        first = np.ones(len(ordered), dtype=bool)
        first[1:] = ordered[1:] != ordered[:-1]
        number = np.empty(len(ordered), np.intp)
        number[order] = np.cumsum(first) - 1
        return cls(ordered[first], number, order, np.append(np.flatnonzero(first), len(ordered)))

    def of_number(self, number: int) -> Numbers:
        """Return the rows that have this one of the digests, in order."""
        return self.order[self.starts[number] : self.starts[number + 1]]

    def rows(self, digests: Sequence[str]) -> list[Numbers]:
        """Return for each digest the rows that have it; none where it does not occur."""
        wanted = _array([bytes.fromhex(d) for d in digests])
        first, last = (np.searchsorted(self.digests, wanted, side=side).tolist() for side in ("left", "right"))
        return [self.order[self.starts[i] : self.starts[j]] for i, j in zip(first, last, strict=True)]


@dataclass(frozen=True, eq=False)
class Roll:
    """Who was taken in.

    Parameters
    ----------
    records, people
        Digests, 16 bytes each.
    held_out
        Rows that no model ever sees.
    gone
        Rows that were forgotten.
    drawn
        Rows of people for whom it was decided that models may see them raw. The decision stays when they are gone.
    exposed
        Rows that the served model was fitted on directly; of rows that are gone, the model that was served then.
    seen
        Rows that any served model was ever fitted on directly.
    groups
        One row a release: the group of each record in it, or −1.
    """

    records: NDArray[np.void]
    people: NDArray[np.void]
    held_out: Rows
    gone: Rows
    drawn: Rows
    exposed: Rows
    seen: Rows
    groups: NDArray[np.int32]

    @classmethod
    def empty(cls) -> Roll:
        """Return a roll of nobody."""
        none, no_rows = np.empty(0, dtype=f"V{_SIZE}"), np.empty(0, bool)
        return cls(none, none, no_rows, no_rows, no_rows, no_rows, no_rows, np.empty((0, 0), np.int32))

    def plus(self, data: Dataset, key: bytes, *, held_out: bool) -> Roll:
        """Return the roll with further records at its end."""
        people, place = np.unique(data.subjects, return_inverse=True)
        whose = _array(_digests(key, b"eupg person", people.tolist()))[place]
        names = _array(_digests(key, b"eupg record", data.ids.tolist()))
        more = np.full((len(self.groups), len(data)), _NO_GROUP, np.int32)
        none = np.zeros(len(data), bool)
        return Roll(
            np.concatenate([self.records, names]),
            np.concatenate([self.people, whose]),
            np.concatenate([self.held_out, np.full(len(data), held_out)]),
            np.concatenate([self.gone, none]),
            np.concatenate([self.drawn, none]),
            np.concatenate([self.exposed, none]),
            np.concatenate([self.seen, none]),
            np.concatenate([self.groups, more], axis=1),
        )

    def released(self, groups: NDArray[np.integer] | None) -> Roll:
        """Return the roll after a release of all records in training, with their groups if the mechanism has any."""
        row = np.full((1, len(self.records)), _NO_GROUP, np.int32)
        row[0, self.training] = _ONE_GROUP if groups is None else groups
        return replace(self, groups=np.concatenate([self.groups, row]))

    @property
    def training(self) -> Rows:
        """Rows that the model is trained on."""
        return ~self.held_out & ~self.gone

    def asked_for(self, requests: Sequence[Request]) -> list[tuple[Request, Numbers]]:
        """Return for each request the rows of its person or record, gone or not; one that came back has several."""
        found: dict[str, Numbers] = {}
        for index, unit in ((self._people, "person"), (self._records, "record")):
            mine = [r for r in requests if r.unit == unit]
            found |= zip((r.id for r in mine), index.rows([r.digest for r in mine]), strict=True)
        return [(request, found[request.id]) for request in requests]

    def still_held(self, request: Request) -> tuple[int, int]:
        """Count the records that came in again under a request's digest, and the others of the same person."""
        ((_, rows),) = self.asked_for([request])
        here = ~self.gone
        theirs = np.isin(self._people.number, self._people.number[rows]) & here
        again = int(here[rows].sum())
        return again, int(theirs.sum()) - again

    @cached_property
    def _people(self) -> Index:
        return Index.of(self.people)

    @cached_property
    def _records(self) -> Index:
        return Index.of(self.records)

    def knows_records(self, key: bytes, names: Iterable[str]) -> bool:
        """Tell whether any of these record ids was ever taken in; those of forgotten records count, too."""
        return any(len(rows) for rows in self._records.rows([d.hex() for d in _digests(key, b"eupg record", names)]))

    def forgotten_people(self, key: bytes, names: Sequence[str]) -> list[bool]:
        """Tell of each person whether they were here and all of their records are gone."""
        found = self._people.rows([d.hex() for d in _digests(key, b"eupg person", names)])
        return [len(rows) > 0 and bool(self.gone[rows].all()) for rows in found]

    @property
    def nameless(self) -> bool:
        """Whether no person has two records: so it is where nothing tells whose the records are."""
        return len(self._people.digests) == len(self._records.digests)

    def count_people(self, rows: Rows) -> int:
        """Count the people whom these rows belong to."""
        return len(np.unique(self._people.number[rows]))

    def without(self, rows: Rows) -> Roll:
        """Return the roll with these rows gone."""
        return replace(self, gone=self.gone | rows)

    def exposing(self, chosen: Rows, *, drawn: Rows | None = None) -> Roll:
        """Return the roll with these of the records in training exposed, and no other of them.

        Those who are drawn are the same, unless they are named: too few of them are not exposed.
        """
        # Of those who are gone it stays known whether a model had seen them, and whether they were drawn.
        exposed = self.exposed & self.gone
        exposed[self.training] = chosen
        decided = self.drawn.copy()
        decided[self.training] = chosen if drawn is None else drawn
        return replace(self, drawn=decided, exposed=exposed, seen=self.seen | exposed)

    def decisions(self, people: Sequence[str], key: bytes) -> list[bool | None]:
        """Return for each person whether they are drawn; None where that was never decided.

        Nothing is decided for people who are held out, so someone who was held out and comes back is a newcomer.
        """
        each = self._people.rows([person_digest(key, name) for name in people])
        taken = [rows[~self.held_out[rows]] for rows in each]
        return [bool(self.drawn[rows].any()) if len(rows) else None for rows in taken]

    def part(self, rows: Rows, *, held_out: bool) -> Rows:
        """Return, for the records that are left in training (or held out), in their order, whether they are chosen."""
        return np.asarray(rows[(self.held_out == held_out) & ~self.gone])

    def standing(self, rows: Rows) -> Standing:
        """Return what claims need to know once these rows are gone too."""
        released, gone = self.groups != _NO_GROUP, self.gone | rows
        behind = released & gone
        person = self._people.number
        mates = np.stack([_mates(groups, person, gone) for groups, gone in zip(self.groups, behind, strict=True)])
        return Standing(self._people, behind, released & ~gone, ~gone, mates)

    def is_index_of(self, data: Dataset, held_out: Dataset, key: bytes) -> bool:
        """Tell whether this is the roll of exactly these records, in training and held out, under this key."""
        for part, rows in ((data, self.training), (held_out, self.held_out & ~self.gone)):
            again = Roll.empty().plus(part, key, held_out=False)
            if not np.array_equal(again.records, self.records[rows]):
                return False
            if not np.array_equal(again.people, self.people[rows]):
                return False
        return True

    def to_bytes(self) -> bytes:
        """Return the roll as NumPy's archive, without anything that could run."""
        file = io.BytesIO()
        np.savez(
            file,
            format=np.array(_FORMAT),
            records=self.records,
            people=self.people,
            held_out=self.held_out,
            gone=self.gone,
            drawn=self.drawn,
            exposed=self.exposed,
            seen=self.seen,
            groups=self.groups,
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> Roll:
        """Read a roll back."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as found:
                values = {name: found[name] for name in found.files}
                written = int(values.pop("format", np.array(_UNNUMBERED)))
                if written > _FORMAT:
                    raise StoreCorrupt(f"the index of people has format {written}, newer than {_FORMAT}: update eupg")
                # Before exposure was recorded, models were fitted on everyone in training.
                values.setdefault("exposed", ~values["held_out"])
                values.setdefault("drawn", values["exposed"])
                values.setdefault("seen", _maybe_seen(values["exposed"], values["groups"]))
                return cls(**{field.name: values[field.name] for field in fields(cls)})
        except (ValueError, KeyError, OSError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
            raise StoreCorrupt(f"the roll of records cannot be read ({error}): restore it from a backup") from error


@dataclass(frozen=True, eq=False)
class Standing:
    """How the forgotten records stand, release by release (first axis) and row by row.

    Parameters
    ----------
    people
        Whose the rows are.
    behind
        Whether the record is gone and was in the release: it is all that stays behind of it.
    kept
        Whether the record is kept and was in the release.
    here
        Whether the record is kept, released or not.
    mates
        How many forgotten people the record's group holds, its own among them.
    """

    people: Index
    behind: NDArray[np.bool_]
    kept: NDArray[np.bool_]
    here: Rows
    mates: NDArray[np.int64]

    def left_behind(self, rows: Numbers, release: int) -> Numbers:
        """Return all forgotten rows behind a release of the people whom these rows belong to.

        Whether they are forgotten together, one by one, or were earlier: to the claim they count together.
        """
        found = self.of_the_same(rows)
        return np.asarray(found[self.behind[release, found]])

    def stays(self, rows: Numbers) -> bool:
        """Tell whether someone whom these rows belong to keeps other records that were released."""
        return bool(self.kept[:, self.of_the_same(rows)].any())

    def others(self, rows: Numbers) -> int:
        """Count the records that are kept of the people whom these rows belong to."""
        return int(self.here[self.of_the_same(rows)].sum())

    def of_the_same(self, rows: Numbers) -> Numbers:
        """Return all rows, gone or not, of the people whom these rows belong to."""
        numbers = sorted(set(self.people.number[rows].tolist()))
        return np.concatenate([np.empty(0, np.intp), *(self.people.of_number(n) for n in numbers)])

    def hides_among(self, rows: Numbers, release: int) -> EffectiveK | None:
        """Return among how many forgotten people these rows, which a release left behind, hide in their groups."""
        if not len(rows):
            return None
        each = self.mates[release, rows]
        return EffectiveK(int(each.min()), float(np.median(each)), float((each == 1).mean()))


def _mates(groups: NDArray[np.int32], person: NDArray[np.intp], gone: Rows) -> NDArray[np.int64]:
    """Count, for each row, the distinct people gone from its group; 0 where the group lost nobody."""
    pairs = np.unique(np.stack([groups[gone].astype(np.int64), person[gone].astype(np.int64)]), axis=1)
    names, counts = np.unique(pairs[0], return_counts=True)
    if not len(names):
        return np.zeros(len(groups), np.int64)
    place = np.minimum(np.searchsorted(names, groups), len(names) - 1)
    return np.where(names[place] == groups, counts[place], 0)


def _maybe_seen(exposed: Rows, groups: NDArray[np.int32]) -> Rows:
    """Return whom a model may have seen, where only the newest sample was noted: each release had one of its own."""
    return np.asarray(exposed | (groups[:-1] != _NO_GROUP).any(axis=0))


def _array(digests: list[bytes]) -> NDArray[np.void]:
    return np.frombuffer(b"".join(digests), dtype=f"V{_SIZE}")
