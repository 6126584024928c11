"""The one pointer of a workspace: which files are live, and what has to be true once they are.

It is replaced in one step, and that step is the change. What follows from it, deleting the files it gave up and writing
its events into the ledger, can be repeated after a crash until it is done, so the pointer carries both with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from eupg.errors import WorkspaceDamaged
from eupg.manage.events import Json
from eupg.manage.store import Digest

_FORMAT = "eupg-current-1"


def digest_of_all(files: tuple[Digest, ...]) -> Digest | None:
    """Return one digest for all of these files; None where there are none."""
    return hashlib.sha256("\n".join(files).encode()).hexdigest() if files else None


@dataclass(frozen=True)
class Given:
    """A file that was given up: whether it held records or not, what it was, and its digest."""

    records: bool
    what: str
    digest: Digest


@dataclass(frozen=True)
class Answered:
    """A request that this change answers, and what is to be noted with it."""

    request: str
    details: Mapping[str, Json]


@dataclass(frozen=True)
class Event:
    """Something to be written into the ledger."""

    kind: str
    body: Mapping[str, Json]


@dataclass(frozen=True)
class Release:
    """A release that was made: its digest, and what is claimed for it. The release itself is not kept."""

    digest: Digest
    claim: Mapping[str, Json]
    k: int | None
    constant: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Current:
    """What is live.

    Parameters
    ----------
    number
        Counts changes, from 1.
    records, held_out
        The files of the records in training, and of those that no model sees.
    base, served
        Model files.
    roll
        The roll of everyone taken in.
    releases
        The releases made so far, oldest first; the base model comes from the last.
    given_up, answered, events
        What has to be deleted, answered and noted because of this change.
    """

    number: int
    records: tuple[Digest, ...]
    held_out: tuple[Digest, ...]
    base: Digest
    served: Digest
    roll: Digest
    releases: tuple[Release, ...]
    given_up: tuple[Given, ...] = ()
    answered: tuple[Answered, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def live_files(self) -> set[Digest]:
        """Files of the store that are needed."""
        return {self.base, self.served, self.roll}

    @property
    def live_records(self) -> set[Digest]:
        """Files of records that are needed."""
        return {*self.records, *self.held_out}

    @property
    def retained(self) -> Digest | None:
        """One digest for all records in training."""
        return digest_of_all(self.records)

    def followed_by(self, events: tuple[Event, ...], answered: tuple[Answered, ...] = (), **changes: Any) -> Current:
        """Return the next state, which gives up every file that only this one needs."""
        new = replace(self, number=self.number + 1, events=events, answered=answered, given_up=(), **changes)
        names = {self.base: "base model", self.served: "served model", self.roll: "roll of records"}
        files = [Given(False, what, digest) for digest, what in names.items() if digest not in new.live_files]
        records = [Given(True, "records", digest) for digest in sorted(self.live_records - new.live_records)]
        # What held the person comes first: models, then records, then the roll, which holds digests only.
        given = sorted([*files, *records], key=lambda one: one.what == "roll of records")
        return replace(new, given_up=tuple(given))

    def to_bytes(self) -> bytes:
        """Return the content of the pointer's file."""
        # One field a line: to be looked at, and fast with the answers to ten thousand requests.
        lines = [
            json.dumps({name: value}, ensure_ascii=False, default=vars)[1:-1] for name, value in vars(self).items()
        ]
        return ("{\n" + ",\n".join([f'"format": "{_FORMAT}"', *lines]) + "\n}\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a pointer back."""
        try:
            values = json.loads(content)
            written = values.pop("format")
            if written != _FORMAT:
                raise WorkspaceDamaged(
                    f"current.json has the format {written!r}, expected {_FORMAT!r}: open the workspace with the "
                    "version of eupg that wrote it, or update eupg"
                )
            parts = {"given_up": Given, "answered": Answered, "events": Event, "releases": Release}
            read = {
                name: tuple(parts[name](**v) if name in parts else v for v in value)
                if isinstance(value, list)
                else value
                for name, value in values.items()
            }
            if set(read) != {f.name for f in fields(cls)}:
                raise ValueError(f"expected the fields {', '.join(f.name for f in fields(cls))}")
            return cls(**read)  # type: ignore[arg-type]
        except WorkspaceDamaged:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise WorkspaceDamaged(
                f"current.json cannot be read ({error}): it was changed by hand or damaged; restore it from a backup"
            ) from error
