"""An erasure request: the states it goes through, and the deadline it has.

::

    received → verified → accepted → processing → completed → certified
    received → accepted                            identity need not be verified
    received, verified → rejected                  for a reason
    received, verified, accepted → cancelled
    processing → failed → processing               for a reason, and tried again

A request that comes while the records are being changed, about somebody who is not (yet) among them, is deferred: it
stays received, and is decided once the change has settled. A certificate that is issued again is noted too.

A request's state is the fold of its events and nothing else. Deadlines follow Art. 12(3) GDPR: one month from receipt,
extendable once by up to two further months, with a reason, before the first month has passed.
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
from eupg.manage.ledger.events import Entry, Json

_UNITS = ("person", "record")
_DIGEST = re.compile(r"[0-9a-f]{32,128}")
_CHANNEL = re.compile(r"[a-z][a-z -]{0,39}")
_LONGEST_REASON = 500


class State(StrEnum):
    """The state of an erasure request."""

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
        """Whether the request still waits for an answer."""
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
_STATES = {f"request.{state}": state for state in State if state is not State.RECEIVED}
KINDS = frozenset({f"request.{state}" for state in State} | {REPEATED, EXTENDED, DEFERRED, REISSUED})


@dataclass(frozen=True)
class Receipt:
    """An erasure is asked for, of a ``"person"`` (all of their records) or of a ``"record"``.

    ``digest`` is the keyed digest of the id, 32 to 128 hexadecimal digits, never the id itself. ``channel`` says how
    the request came, in lower-case letters, such as ``"letter"``; nothing personal.
    """

    unit: str
    digest: str
    channel: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in _UNITS:
            raise ParameterError(f"unit must be 'person' or 'record', got {self.unit!r}")
        if not isinstance(self.digest, str) or not _DIGEST.fullmatch(self.digest):
            # The value is not repeated: it may be the id itself, which must not be noted.
            raise ParameterError("digest must be 32 to 128 digits 0-9 and a-f: pass the keyed digest of the id")
        if self.channel is not None and not _CHANNEL.fullmatch(self.channel):
            raise ParameterError(
                "channel must be up to 40 letters a-z, such as 'letter' or 'web form'; nothing personal"
            )


@dataclass(frozen=True)
class Step:
    """The next step of a request.

    ``reason`` says why, in up to 500 characters; rejections and failures need one. ``details`` is plain JSON to be
    noted with the step. Both stay in the ledger for good, so they must not contain a personal value.
    """

    request: str
    state: State
    reason: str | None = None
    details: Mapping[str, Json] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.state, State) or self.state is State.RECEIVED:
            raise ParameterError(f"state must be a State other than RECEIVED, got {self.state!r}")
        if self.reason is not None:
            check_reason(self.reason)
        elif self.state in (State.REJECTED, State.FAILED):
            raise ParameterError(f"a request is {self.state} only with a reason: say why in a few words")


@dataclass(frozen=True)
class Request:
    """An erasure request, as its events describe it.

    Its id is drawn at random, such as ``r-4be1c05f0a2d9377``; see :class:`Receipt` for ``unit``, ``digest`` and
    ``channel``. ``verified`` says whether the identity of the person who asks was verified. ``due`` is the last day on
    which an answer is in time, ``reason`` the reason given last, for any step, and ``first`` and ``last`` are the
    numbers of its first and its latest entry in the ledger.
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
    """Return the same day some months later, or the last day of that month if it is shorter.

    Examples
    --------
    >>> months_after(date(2027, 1, 31), 1)
    datetime.date(2027, 2, 28)
    """
    years, month = divmod(day.month - 1 + months, 12)
    year, month = day.year + years, month + 1
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def check_reason(reason: str) -> None:
    """Raise unless a reason is a short text on one line."""
    if not isinstance(reason, str) or not reason.strip():
        raise ParameterError("a reason must be a text that is not empty")
    if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in reason):
        raise ParameterError("a reason must be plain text on one line, without control characters: remove them")
    if len(reason) > _LONGEST_REASON:
        raise ParameterError(
            f"a reason may have {_LONGEST_REASON} characters, got {len(reason)}: shorten it, without names"
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


def _check_open(request: Request, what: str) -> None:
    if not request.state.is_open:
        raise RequestRefused(
            f"request {request.id} is '{request.state}' and cannot be {what}: only an open request can"
        )


def check_undecided(request: Request) -> None:
    """Raise if a request was accepted, rejected or cancelled before."""
    if request.state not in UNDECIDED:
        raise RequestRefused(f"request {request.id} is '{request.state}' and was decided before")


def check_extension(request: Request) -> None:
    """Raise unless the deadline of a request may still be extended."""
    _check_open(request, "extended")
    if request.extended:
        raise RequestRefused(f"request {request.id} was extended already, to {request.due}: answer it by then")


def apply(entry: Entry, request: Request | None) -> Request:
    """Return a request as it is after one more of its events; the first event creates it."""
    body = entry.body
    if entry.kind == RECEIVED:
        if request is not None:
            raise RequestRefused(f"request {request.id} was received before, in entry {request.first}")
        due = date.fromisoformat(str(body["due"]))
        about = str(body["request"]), str(body["unit"]), str(body["digest"]), _text(body.get("channel"))
        return Request(*about, State.RECEIVED, False, False, entry.at, due, None, entry.number, entry.number)
    if request is None:
        raise RequestRefused(f"request {body['request']} was never received")
    if (state := _STATES.get(entry.kind)) is not None:
        check_step(request.id, request.state, state)
        verified = request.verified or state is State.VERIFIED
        reason = _text(body.get("reason", request.reason))
        return replace(request, last=entry.number, reason=reason, state=state, verified=verified)
    request = replace(request, last=entry.number, reason=_text(body.get("reason", request.reason)))
    if entry.kind == REPEATED:
        _check_open(request, "repeated")
        return request
    if entry.kind == DEFERRED:
        check_undecided(request)
        return request
    if entry.kind == REISSUED:
        if request.state is not State.CERTIFIED:
            raise RequestRefused(f"request {request.id} is '{request.state}': only a certified one is certified again")
        return request
    if entry.kind == EXTENDED:
        check_extension(request)
        return replace(request, extended=True, due=date.fromisoformat(str(body["due"])))
    raise ValueError(f"{entry.kind!r} is not an event of a request")


def step_all(requests: Iterable[Request], state: State, *, number: int, reason: str | None) -> list[Request]:
    """Return requests as they are after the same step of all, in the entry of this number; see :func:`apply`."""
    stepped = []
    for request in requests:
        check_step(request.id, request.state, state)
        changes: dict[str, object] = {"state": state, "last": number}
        if reason is not None:
            changes["reason"] = reason
        if state is State.VERIFIED:
            changes["verified"] = True
        stepped.append(copy_of(request, changes))
    return stepped


def copy_of(request: Request, changes: Mapping[str, object]) -> Request:
    """Return a request with some values changed; several times as fast as ``replace``, for very many of them."""
    return request_of({**vars(request), **changes})


def request_of(values: Mapping[str, object]) -> Request:
    """Return a request from the values of all its fields; several times as fast as the constructor."""
    request = object.__new__(Request)
    vars(request).update(values)
    return request


def fold(entries: Iterable[Entry]) -> dict[str, Request]:
    """Return every request that the events describe; refuse an event that was not written through the book."""
    requests: dict[str, Request] = {}
    waiting: dict[tuple[str, str], str] = {}
    for entry in entries:
        try:
            name = str(entry.body["request"])
            request = requests[name] = apply(entry, requests.get(name))
            subject = request.unit, request.digest
            if waiting.get(subject, name) != name:
                raise RequestRefused(
                    f"request {name} asks for the same as request {waiting[subject]}, which is still open"
                )
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
