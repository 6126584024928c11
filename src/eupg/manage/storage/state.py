"""The state of a workspace: which files are live, and what must follow from the change that made them so.

The pointer file holds one state. Its replacement is the change. Deleting the files it gave up and writing its events
into the ledger can be repeated after a crash until it is done, so the state carries both with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from eupg.errors import WorkspaceDamaged
from eupg.manage.ledger.events import Json
from eupg.manage.storage.store import Digest

_FORMAT = "eupg-current-3"
# The second format had neither sketches of the record files nor an index of people in two files, and the answers to
# all requests stood in the pointer.
_SECOND_FORMAT = "eupg-current-2"
# The first format knew one method alone: a base model, whose claim was that of the last release.
_FIRST_FORMAT = "eupg-current-1"
# Names in the file, where they are not those of the fields.
_NAMES = {"index": "roll"}


def digest_of_all(files: tuple[Digest, ...]) -> Digest | None:
    """Return one digest for all of these files; None where there are none."""
    return hashlib.sha256("\n".join(files).encode()).hexdigest() if files else None


@dataclass(frozen=True)
class DeletedFile:
    """A file that was given up: whether it held records, what it was, and its digest."""

    records: bool
    what: str
    digest: Digest


@dataclass(frozen=True)
class Answered:
    """A request that a change answers, and what is noted with the answer."""

    request: str
    details: Mapping[str, Json]


@dataclass(frozen=True)
class AnsweredAlike:
    """Requests that a change answers, and what is noted with the answer to each of them."""

    requests: tuple[str, ...]
    details: Mapping[str, Json]


def answers_to_bytes(answered: Sequence[AnsweredAlike]) -> bytes:
    """Return the content of a file of answers."""
    return json.dumps([vars(answer) for answer in answered], ensure_ascii=False).encode()


def answers_from_bytes(content: bytes) -> tuple[AnsweredAlike, ...]:
    """Read answers back; an earlier version wrote one for each request."""
    try:
        values = [{"requests": [a.pop("request")], **a} if "request" in a else a for a in json.loads(content)]
        return tuple(AnsweredAlike(**{**answer, "requests": tuple(answer["requests"])}) for answer in values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WorkspaceDamaged(f"the file of answers cannot be read ({error}): restore it from a backup") from error


@dataclass(frozen=True)
class Event:
    """An event to be written into the ledger."""

    kind: str
    body: Mapping[str, Json]


@dataclass(frozen=True)
class ReleaseEntry:
    """A release that was made: its digest, and what is claimed for it. The release itself is not kept."""

    digest: Digest
    claim: Mapping[str, Json]
    k: int | None
    constant: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class WorkspaceState:
    """What is live after the change of this number (from 1).

    ``records`` and ``held_out`` are the files of the records in training, and of those that no model sees. ``served``
    and ``index`` are the files of the served model and of the index of everyone ever taken in; ``parts`` are those that
    the method needs to forget, such as a base model. ``claim`` is the method's claim for one record. ``releases`` lists
    the releases made so far; the base model comes from the last. A method without releases has an entry if a trace of
    everyone in training may stay. ``given_up``, ``answered`` and ``events`` are what must be deleted, answered and
    noted because of this change.

    ``sidecars`` holds, for each record file, its number in the index and the digest of its sketch; ``columns`` is the
    file of the index's columns, of which ``index`` holds the changes. ``answers`` is the file of the answers, where
    they are too many to stand in ``answered``: the pointer is read with every prediction, and stays small.
    """

    number: int
    records: tuple[Digest, ...]
    held_out: tuple[Digest, ...]
    served: Digest
    parts: Mapping[str, Digest]
    index: Digest
    claim: Mapping[str, Json]
    releases: tuple[ReleaseEntry, ...]
    given_up: tuple[DeletedFile, ...] = ()
    answered: tuple[Answered, ...] = ()
    events: tuple[Event, ...] = ()
    sidecars: Mapping[Digest, tuple[int, Digest]] = field(default_factory=dict)
    columns: Digest | None = None
    answers: Digest | None = None

    @property
    def base(self) -> Digest | None:
        """The base model, of a method that has one."""
        return self.parts.get("base")

    @property
    def live_files(self) -> set[Digest]:
        """The files of the store that are needed."""
        others = (self.columns, self.answers)
        return {self.served, self.index, *self.parts.values(), *(digest for digest in others if digest is not None)}

    @property
    def live_records(self) -> set[Digest]:
        """The files of records that are needed."""
        return {*self.records, *self.held_out, *self.sketches}

    @property
    def sketches(self) -> set[Digest]:
        """The files of the sketches of records."""
        return {sketch for _, sketch in self.sidecars.values()}

    @property
    def next_slot(self) -> int:
        """The number of the next record file."""
        return 1 + max((slot for slot, _ in self.sidecars.values()), default=-1)

    @property
    def sketched(self) -> bool:
        """Whether every record file has a sketch; an earlier version made none."""
        return all(digest in self.sidecars for digest in (*self.records, *self.held_out))

    def followed_by(
        self, events: tuple[Event, ...], answered: tuple[Answered, ...] = (), **changes: Any
    ) -> WorkspaceState:
        """Return the next state, which gives up every file that only this one needs."""
        changes = {"answers": None} | changes
        new = replace(self, number=self.number + 1, events=events, answered=answered, given_up=(), **changes)
        # What held people's values comes first: models, then records; the index holds digests only.
        files = [(False, "base model" if name == "base" else name, digest) for name, digest in self.parts.items()]
        files.append((False, "served model", self.served))
        files += [(True, "records", digest) for digest in sorted({*self.records, *self.held_out})]
        files += [(True, "record sketch", digest) for digest in sorted(self.sketches)]
        files += [(False, "answers", self.answers)] if self.answers is not None else []
        files += [(False, "subject index", digest) for digest in (self.columns, self.index) if digest is not None]
        live = {True: new.live_records, False: new.live_files}
        # The served model may be the base model.
        given_up = {digest: DeletedFile(kind, what, digest) for kind, what, digest in files if digest not in live[kind]}
        return replace(new, given_up=tuple(given_up.values()))

    def to_bytes(self) -> bytes:
        """Return the content of the pointer file."""
        # One line per field: readable, and fast with the answers to ten thousand requests.
        lines = [
            json.dumps({_NAMES.get(name, name): value}, ensure_ascii=False, default=vars)[1:-1]
            for name, value in vars(self).items()
        ]
        return ("{\n" + ",\n".join([f'"format": "{_FORMAT}"', *lines]) + "\n}\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a state back."""
        parts = {"given_up": DeletedFile, "answered": Answered, "events": Event, "releases": ReleaseEntry}
        try:
            values = json.loads(content)
            written = values.pop("format")
            if written == _FIRST_FORMAT:
                values["parts"], values["claim"] = {"base": values.pop("base")}, values["releases"][-1]["claim"]
            if written in (_FIRST_FORMAT, _SECOND_FORMAT):
                values |= {"sidecars": {}, "columns": None, "answers": None}
            elif written != _FORMAT:
                raise WorkspaceDamaged(
                    f"current.json has the format {written!r}, expected {_FORMAT!r}: open the workspace with the "
                    "version of eupg that wrote it, or update eupg"
                )
            names = {_NAMES.get(f.name, f.name): f.name for f in fields(cls)}
            if values.keys() != names.keys():
                raise ValueError(f"expected the fields {', '.join(names)}")
            read: dict[str, Any] = {}
            for key, value in values.items():
                make = parts.get(key)
                items = value if make is None or not isinstance(value, list) else [make(**item) for item in value]
                read[names[key]] = tuple(items) if isinstance(items, list) else items
            read["sidecars"] = {file: (int(slot), str(sketch)) for file, (slot, sketch) in read["sidecars"].items()}
            return cls(**read)
        except WorkspaceDamaged:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WorkspaceDamaged(
                f"current.json cannot be read ({error}): it was changed by hand or damaged; restore it from a backup"
            ) from error
