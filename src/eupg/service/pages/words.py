"""The words of the pages: states, acts, roles and days, as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from eupg import errors
from eupg.manage.ledger.events import Entry
from eupg.manage.requests.states import OPEN, UNDECIDED, State
from eupg.service.access import Permission, ServiceRole
from eupg.service.requests import Case

# A state, what it is called, how it looks, and what it means for whoever works on the request.
STATES: Mapping[State, tuple[str, str, str]] = {
    State.RECEIVED: ("Received", "waiting", "Somebody has to decide on it."),
    State.VERIFIED: ("Identity verified", "waiting", "Somebody has to decide on it."),
    State.ACCEPTED: ("Accepted", "running", "The worker takes it up next."),
    State.PROCESSING: ("Being erased", "running", "The worker is asking every model."),
    State.FAILED: ("Failed", "bad", "At least one model could not do it."),
    State.COMPLETED: (
        "Carried out",
        "good",
        "Every model is done. The certificate follows.",
    ),
    State.CERTIFIED: ("Carried out, certified", "good", "Every model was asked, and what was found was erased."),
    State.REJECTED: ("Rejected", "closed", "It was answered with a reason."),
    State.CANCELLED: ("Withdrawn", "closed", "The one who asked took it back."),
}
_WAS_DONE = "Every model that can be searched by what you told us was searched, and what was found was erased."
# The same for the person who asks. It does not tell whether anything was held.
FOR_THE_PERSON: Mapping[State, tuple[str, str]] = {
    State.RECEIVED: ("We have received your request", "Somebody will look at it and may ask you who you are."),
    State.VERIFIED: ("We know that it is you", "Somebody will decide on your request."),
    State.ACCEPTED: ("Your request was accepted", "All models are asked, and what they find about you is erased."),
    State.PROCESSING: ("Your request is being carried out", "All models are asked to search for you."),
    State.FAILED: ("Your request is being carried out", "All models are asked to search for you."),
    State.COMPLETED: ("Your request was carried out", _WAS_DONE),
    State.CERTIFIED: ("Your request was carried out", _WAS_DONE),
    State.REJECTED: ("Your request was rejected", "You may complain to a supervisory authority, or go to court."),
    State.CANCELLED: ("You have withdrawn your request", "You may file a new one at any time."),
}
_PARTS: Mapping[str, tuple[str, str]] = {
    "waiting": ("Waiting", "running"),
    "erased": ("Erased", "good"),
    "nothing held": ("Nothing held", "closed"),
    "not searchable": ("Not searchable", "waiting"),
    "failed": ("Failed", "bad"),
}
_ACTS: Mapping[str, str] = {
    "act.filed": "filed the request",
    "act.asked-again": "asked again for the same",
    "act.verified": "verified the identity of the person",
    "act.accepted-first": "accepted, as the first of two people",
    "act.accepted": "accepted the request",
    "act.rejected": "rejected the request",
    "act.cancelled": "withdrew the request",
    "act.extended": "extended the deadline",
    "act.retried": "asked for another try",
    "act.identity-read": "looked at who asks",
    "act.carried-out": "carried it out in every model",
    "act.could-not": "could not carry it out in every model",
    "request.received": "Received",
    "request.repeated": "Asked for again",
    "request.verified": "Identity verified",
    "request.accepted": "Accepted",
    "request.rejected": "Rejected",
    "request.cancelled": "Withdrawn",
    "request.extended": "Deadline extended",
    "request.processing": "Taken up by the worker",
    "request.failed": "Failed",
    "request.completed": "Carried out in every model",
    "request.certified": "Certificate signed",
    "request.reissued": "Certificate signed again",
    "request.deferred": "Put off until a change has settled",
}
_LOOKS: Mapping[str, str] = {
    "request.failed": "bad",
    "act.could-not": "bad",
    "act.rejected": "bad",
    "act.accepted": "running",
    "act.carried-out": "good",
    "request.completed": "good",
    "request.certified": "good",
    "request.accepted": "running",
    "request.processing": "running",
}
ROLES: Mapping[ServiceRole, str] = {
    ServiceRole.INTAKE: "File requests, and follow your own",
    ServiceRole.REVIEW: "Verify identities, and accept or reject requests",
    ServiceRole.OPERATION: "Look after the models, and retry what failed",
    ServiceRole.AUDIT: "Read everything, and check the ledger",
    ServiceRole.ADMINISTRATION: "Manage API keys and accounts",
}
PERMISSIONS: Mapping[Permission, str] = {
    Permission.CREATE: "file requests",
    Permission.READ_OWN: "read requests that it filed",
    Permission.READ: "read all requests",
    Permission.IDENTITY: "read who asks",
    Permission.DECIDE: "decide on requests",
    Permission.RETRY: "retry what failed",
    Permission.CERTIFICATES: "read certificates",
    Permission.MODELS: "read about the models",
    Permission.PREDICT: "ask the models for predictions",
    Permission.AUDIT: "read the audit trail",
    Permission.MANAGE: "manage API keys",
}
CHANNELS = ("letter", "e-mail", "telephone", "in person", "web form")
NOTICES: Mapping[str, str] = {
    "filed": "The request was filed.",
    "verified": "The identity is noted as verified.",
    "accepted": "The request was accepted. The worker carries it out in every model.",
    "first": "You are the first of two people who accept. Another person has to accept it, too.",
    "rejected": "The request was rejected.",
    "extended": "The deadline was extended.",
    "cancelled": "The request was withdrawn.",
    "retried": "The worker tries it again.",
    "revoked": "The key was revoked. It opens nothing any more.",
    "whole": "The ledger is whole: every entry was checked, and the requests agree with them.",
    "signed-out": "You are signed out.",
}


def state(of: State) -> str:
    """Return what a state is called."""
    return STATES[of][0]


def look(of: State) -> str:
    """Return how a state looks, as the name of a style."""
    return STATES[of][1]


def part(of: str) -> tuple[str, str]:
    """Return what the state of a part is called, and how it looks."""
    return _PARTS.get(of, (of.capitalize(), "waiting"))


def cause(of: str) -> str:
    """Return why a part failed; the worker notes the kind of an error alone, since its text may be personal.

    Examples
    --------
    >>> cause("LockHeld"), cause("it was cancelled in the workspace")
    ('Another process is changing the workspace right now (LockHeld).', 'it was cancelled in the workspace')
    """
    kind = getattr(errors, of, None) if of.isidentifier() else None
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        return of
    described = (kind.__doc__ or of).partition("\n")[0].rstrip(".")
    return f"{described} ({of})."


def event(entry: Entry) -> str:
    """Return an entry of the ledger in words; an act begins with a verb, after the name of whoever acted."""
    return _ACTS.get(entry.kind, entry.kind.rpartition(".")[2].replace("-", " ").capitalize())


def event_look(entry: Entry) -> str:
    """Return how an entry looks."""
    return _LOOKS.get(entry.kind, "plain")


def day(value: date | str) -> str:
    """Return a day as people write it.

    Examples
    --------
    >>> day("2027-02-05T09:30:00+00:00"), day(date(2027, 12, 24))
    ('5 February 2027', '24 December 2027')
    """
    when = date.fromisoformat(value[:10]) if isinstance(value, str) else value
    return f"{when.day} {when:%B %Y}"


def moment(value: str) -> str:
    """Return a moment in UTC.

    Examples
    --------
    >>> moment("2027-02-05T09:30:12.123456+00:00")
    '5 February 2027, 09:30 UTC'
    """
    when = datetime.fromisoformat(value).astimezone(UTC)
    return f"{day(when.date())}, {when:%H:%M} UTC"


def deadline(case: Case, today: date) -> str:
    """Return how much time is left for an open request.

    Examples
    --------
    >>> left(date(2027, 2, 1), date(2027, 2, 3)), left(date(2027, 2, 3), date(2027, 2, 3))
    ('2 days overdue', 'due today')
    """
    return left(case.request.due, today) if case.request.state in OPEN else ""


def left(due: date, today: date) -> str:
    """Return how much time is left until a day."""
    days = (due - today).days
    if days < 0:
        return f"{count(-days, 'day')} overdue"
    return ("due today", "due tomorrow")[days] if days < 2 else f"due in {days} days"


def urgency(case: Case, today: date) -> str:
    """Return how urgent a request is, as the name of a style."""
    if case.request.state not in OPEN:
        return "none"
    days = (case.request.due - today).days
    return "overdue" if days < 0 else "soon" if days <= 7 else "none"


def is_undecided(case: Case) -> bool:
    """Return whether somebody still has to decide on a request."""
    return case.request.state in UNDECIDED


def count(number: int, noun: str) -> str:
    """Return a number and what it counts.

    Examples
    --------
    >>> count(1, "day"), count(12_000, "request")
    ('1 day', '12,000 requests')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def kind(of: str) -> str:
    """Return the kind of an identifier as a label."""
    return of.replace("_", " ").capitalize()


def short(text: Any, length: int = 12) -> str:
    """Return the beginning of a digest."""
    text = str(text)
    return text if len(text) <= length else f"{text[:length]}…"
