"""An erasure request: the states it goes through, and the deadline it has.

::

    received → verified → accepted → processing → completed → certified
    received → accepted                            identity need not be verified
    received, verified → rejected                  for a reason
    received, verified, accepted → cancelled
    processing → failed → processing               for a reason, and tried again

A request that came while the records were being changed, about somebody who is not (yet) among them, is deferred: it
stays received, and is decided once the change has settled. A certificate that is issued again is noted, too.

A request's state is the fold of its events and nothing else. Deadlines follow Art. 12(3) GDPR: one month from
receipt, extendable once by up to two further months, with a reason, before the first month has passed.
"""

from __future__ import annotations

import calendar
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum

from eupg.errors import LedgerCorrupt, ParameterError, RequestRefused
from eupg.manage.events import Entry, Json

_UNITS = ("person", "record")
_DIGEST = re.compile(r"[0-9a-f]{32,128}")
_CHANNEL = re.compile(r"[a-z][a-z -]{0,39}")
_LONGEST_REASON = 500


class State(StrEnum):
    """Where an erasure request stands."""

    RECEIVED = "received"
    VERIFIED = "verified"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CERTIFIED = "certified"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for an answer."""
        return self in OPEN


OPEN = (State.RECEIVED, State.VERIFIED, State.ACCEPTED, State.PROCESSING, State.FAILED)
UNDECIDED = (State.RECEIVED, State.VERIFIED)
STEPS: Mapping[State, tuple[State, ...]] = {
    State.RECEIVED: (State.VERIFIED, State.ACCEPTED, State.REJECTED, State.CANCELLED),
    State.VERIFIED: (State.ACCEPTED, State.REJECTED, State.CANCELLED),
    State.ACCEPTED: (State.PROCESSING, State.CANCELLED),
    State.PROCESSING: (State.COMPLETED, State.FAILED),
    State.FAILED: (State.PROCESSING,),
    State.COMPLETED: (State.CERTIFIED,),
    State.REJECTED: (),
    State.CANCELLED: (),
    State.CERTIFIED: (),
}
RECEIVED, REPEATED, EXTENDED = "request.received", "request.repeated", "request.extended"
DEFERRED, REISSUED = "request.deferred", "request.reissued"
KINDS = frozenset({f"request.{state}" for state in State} | {REPEATED, EXTENDED, DEFERRED, REISSUED})


@dataclass(frozen=True)
class Receipt:
    """Somebody asks to be erased.

    Parameters
    ----------
    unit
        ``"person"`` (all of their records) or ``"record"``.
    digest
        Keyed digest of the person's or record's id, 32 to 128 hexadecimal digits. Never the id itself.
    channel
        How the request came, in small letters, such as ``"letter"``; nothing personal.
    """

    unit: str
    digest: str
    channel: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise ParameterError(f"a request is about a 'person' or a 'record', got {self.unit!r}")
        if not isinstance(self.digest, str) or not _DIGEST.fullmatch(self.digest):
            # The value is not repeated: it may be the very id that must not be noted.
            raise ParameterError("digest must be 32 to 128 small hexadecimal digits: give the keyed digest of the id")
        if self.channel is not None and not _CHANNEL.fullmatch(self.channel):
            raise ParameterError(
                "channel must be up to 40 small letters, such as 'letter' or 'web form'; nothing personal"
            )


@dataclass(frozen=True)
class Step:
    """A request is to take its next step.

    Parameters
    ----------
    request
        The request's id.
    state
        Where it is to go.
    reason
        Why, in up to 500 characters; needed to reject and to fail. It stays in the ledger for good, so it must not
        hold a personal value: no name, no address, no identifier.
    details
        What else is to be noted with the step, such as the digest of a model; plain JSON, nothing personal.
    """

    request: str
    state: State
    reason: str | None = None
    details: Mapping[str, Json] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.state, State) or self.state is State.RECEIVED:
            raise ParameterError(f"a step leads to a State other than RECEIVED, got {self.state!r}")
        if self.reason is not None:
            check_reason(self.reason)
        elif self.state in (State.REJECTED, State.FAILED):
            raise ParameterError(f"a request is not {self.state} without a reason: say why in a few words")


@dataclass(frozen=True)
class Request:
    """An erasure request, as its events tell.

    Parameters
    ----------
    id
        Drawn at random, such as ``r-4be1c05f0a2d9377``.
    unit, digest, channel
        Whose erasure is asked for, and how the request came: see :class:`Receipt`.
    state
        Where the request stands.
    verified
        Whether the identity of whoever asks was verified.
    extended
        Whether the deadline was extended.
    received_at
        When it was received, in UTC.
    due
        The last day on which it is answered in time.
    reason
        The last reason that was given, for whatever step.
    first, last
        Numbers of its first and its latest entry in the ledger.
    """

    id: str
    unit: str
    digest: str
    channel: str | None
    state: State
    verified: bool
    extended: bool
    received_at: str
    due: date
    reason: str | None
    first: int
    last: int


def months_after(day: date, months: int) -> date:
    """Return the same day some months later, or the last day of that month where it has no such day.

    Examples
    --------
    >>> months_after(date(2027, 1, 31), 1)
    datetime.date(2027, 2, 28)
    """
    years, month = divmod(day.month - 1 + months, 12)
    year, month = day.year + years, month + 1
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def check_reason(reason: str) -> None:
    """Raise unless a reason is a short text."""
    if not isinstance(reason, str) or not reason.strip():
        raise ParameterError("a reason must be a text that says why")
    if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in reason):
        raise ParameterError("a reason must be plain text on one line, without control characters: remove them")
    if len(reason) > _LONGEST_REASON:
        raise ParameterError(
            f"a reason may have {_LONGEST_REASON} characters, got {len(reason)}: shorten it, and name nobody"
        )


def check_step(request: str, state: State, target: State) -> None:
    """Raise unless a request in this state may go to the target."""
    if target in STEPS[state]:
        return
    allowed = " or ".join(f"'{step}'" for step in STEPS[state])
    raise RequestRefused(
        f"request {request} is '{state}' and cannot become '{target}': "
        + (f"from here it can become {allowed}" if allowed else "it is closed and takes no further step")
    )


def check_open(request: str, state: State, what: str) -> None:
    """Raise unless a request still waits for an answer."""
    if not state.is_open:
        raise RequestRefused(f"request {request} is '{state}' and cannot be {what}: only an open request can")


def check_undecided(request: Request) -> None:
    """Raise unless it is still to be decided whether a request is accepted."""
    if request.state not in UNDECIDED:
        raise RequestRefused(f"request {request.id} is '{request.state}' and was decided before")


def check_extension(request: Request) -> None:
    """Raise unless the deadline of a request may still be extended."""
    check_open(request.id, request.state, "extended")
    if request.extended:
        raise RequestRefused(f"request {request.id} was extended already, to {request.due}: answer it by then")


def apply(entry: Entry, request: Request | None) -> Request:
    """Return a request as it is after one more of its events; the first event makes it."""
    body = entry.body
    if entry.kind == RECEIVED:
        if request is not None:
            raise RequestRefused(f"request {request.id} was received before, in entry {request.first}")
        due = date.fromisoformat(str(body["due"]))
        about = str(body["request"]), str(body["unit"]), str(body["digest"]), _text(body.get("channel"))
        return Request(*about, State.RECEIVED, False, False, entry.at, due, None, entry.number, entry.number)
    if request is None:
        raise RequestRefused(f"request {body['request']} was never received")
    request = replace(request, last=entry.number, reason=_text(body.get("reason", request.reason)))
    if entry.kind == REPEATED:
        check_open(request.id, request.state, "repeated")
        return request
    if entry.kind == DEFERRED:
        check_undecided(request)
        return request
    if entry.kind == REISSUED:
        if request.state is not State.CERTIFIED:
            raise RequestRefused(f"request {request.id} is '{request.state}': only what was certified is issued again")
        return request
    if entry.kind == EXTENDED:
        check_extension(request)
        return replace(request, extended=True, due=date.fromisoformat(str(body["due"])))
    state = State(entry.kind.removeprefix("request."))
    check_step(request.id, request.state, state)
    return replace(request, state=state, verified=request.verified or state is State.VERIFIED)


def fold(entries: Iterable[Entry]) -> dict[str, Request]:
    """Return every request that the events tell of.

    Raises
    ------
    LedgerCorrupt
        If an event tells of a step that its request could not take: it was not written through the book.
    """
    requests: dict[str, Request] = {}
    waiting: dict[tuple[str, str], str] = {}
    for entry in entries:
        try:
            name = str(entry.body["request"])
            request = requests[name] = apply(entry, requests.get(name))
            subject = request.unit, request.digest
            if waiting.get(subject, name) != name:
                raise RequestRefused(f"request {name} asks for what request {waiting[subject]} asks for, still open")
        except (RequestRefused, KeyError, ValueError) as error:
            raise LedgerCorrupt(
                f"entry {entry.number} ({entry.kind}) cannot have come from the request book: {error}"
            ) from error
        if request.state.is_open:
            waiting[subject] = name
        else:
            waiting.pop(subject, None)
    return requests


def _text(value: Json) -> str | None:
    return None if value is None else str(value)
