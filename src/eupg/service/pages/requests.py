"""The pages about requests: the list with its filters and decisions, a new request, and one request in full."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Path, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from eupg.errors import EupgError, ParameterError, RequestRefused, WrongState
from eupg.manage.requests.states import OPEN, STEPS, UNDECIDED, State
from eupg.service.access import Permission
from eupg.service.pages import words
from eupg.service.pages.frame import Member, PageRoute, SignedIn, redirect
from eupg.service.requests import Case, NewRequest, RequestSearch
from eupg.service.signin.routes import local_path

router = APIRouter(prefix="/requests", route_class=PageRoute)
RequestId = Annotated[str, Path(pattern="^r-[0-9a-f]{16}$")]
_ID = re.compile(r"r-[0-9a-f]{0,16}")
_PER_PAGE = 50
_MOST_AT_ONCE = 200
# The filters of the list, as they stand in an address.
_FILTERS = ("show", "channel", "order", "text")
# What the list can show: everything, or one kind of request.
_SHOWS: dict[str, tuple[str, dict[str, Any]]] = {
    "open": ("Open", {"open": True}),
    "overdue": ("Overdue", {"overdue": True}),
    "undecided": ("To decide", {"states": UNDECIDED}),
    "running": ("In progress", {"states": (State.ACCEPTED, State.PROCESSING)}),
    "failed": ("Failed", {"states": (State.FAILED,)}),
    "done": ("Carried out", {"states": (State.COMPLETED, State.CERTIFIED)}),
    "closed": ("Rejected or withdrawn", {"states": (State.REJECTED, State.CANCELLED)}),
    "all": ("All", {}),
}


@router.get("")
def listed(
    visit: Member,
    show: Annotated[str, Query(max_length=20)] = "open",
    channel: Annotated[str, Query(max_length=40)] = "",
    order: Annotated[str, Query(max_length=10)] = "due",
    text: Annotated[str, Query(max_length=18)] = "",
    cursor: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """List requests, one page at a time, the most urgent first."""
    values = {"show": show if show in _SHOWS else "open", "channel": channel, "order": order, "text": text}
    return _list(visit, values, cursor=cursor or None)


def _list(
    visit: SignedIn,
    values: dict[str, str],
    *,
    cursor: str | None = None,
    person: str | None = None,
    refused: Sequence[str] = (),
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    """Show the list; whoever searches for a person sends the name in a form, so that no address holds it."""
    requests = visit.service.requests
    order = "newest" if values["order"] == "newest" else "due"
    text = values["text"] if _ID.fullmatch(values["text"]) else None
    found = requests.search(
        visit.actor,
        RequestSearch(
            **(_SHOWS[values["show"]][1] if person is None and text is None else {}),
            channel=values["channel"] or None,
            text=person or text,
            order=order,
            cursor=cursor,
            limit=_PER_PAGE,
        ),
    )
    filters = {name: values[name] for name in _FILTERS if values[name]}
    following = None
    if found.next_cursor is not None and person is None:
        following = f"/requests?{urlencode(filters | {'cursor': found.next_cursor})}"
    return visit.show(
        "requests.html",
        title="Requests" if visit.actor.may(Permission.READ) else "Your requests",
        code=status,
        cases=found.cases,
        names=visit.service.accounts.names({case.owner for case in found.cases}),
        today=requests.today(),
        filters=values,
        here=f"/requests?{urlencode(filters)}",
        first=None if cursor is None else f"/requests?{urlencode(filters)}",
        following=following,
        shows=[(name, label) for name, (label, _) in _SHOWS.items()],
        searched=person is not None or text is not None,
        counts=requests.counts(visit.actor) if visit.actor.may(Permission.READ) else None,
        decides=visit.actor.may(Permission.DECIDE),
        finds_people=visit.actor.may(Permission.READ) and visit.actor.may(Permission.IDENTITY),
        refused=refused,
        errors=errors or {},
        done=_number(visit.request.query_params.get("done", "")),
    )


@router.post("/search")
def search(visit: Member, text: Annotated[str, Form(max_length=500)] = "") -> Response:
    """Find requests by their id or by the person; a person's name stays out of addresses."""
    visit.actor.require(Permission.READ, Permission.READ_OWN)
    text = text.strip()
    values = {"show": "all", "channel": "", "order": "newest", "text": ""}
    if not text:
        return redirect("/requests")
    if re.fullmatch(r"r-[0-9a-f]{16}", text):
        return redirect(f"/requests/{text}")
    if _ID.fullmatch(text):
        return redirect("/requests", show="all", text=text)
    visit.actor.require(Permission.READ)
    return _list(visit, values, person=text)


@router.post("/decide")
def decide(
    visit: Member,
    decision: Annotated[str, Form(max_length=10)] = "",
    request: Annotated[list[str] | None, Form(max_length=_MOST_AT_ONCE)] = None,
    reason: Annotated[str, Form(max_length=2000)] = "",
    back: Annotated[str, Form(max_length=500)] = "/requests",
) -> Response:
    """Accept or reject several requests; each is decided by itself, and those that cannot be are listed."""
    visit.actor.require(Permission.DECIDE)
    chosen = [name for name in dict.fromkeys(request or []) if re.fullmatch(r"r-[0-9a-f]{16}", name)]
    values = {"show": "undecided", "channel": "", "order": "due", "text": ""}
    errors = {}
    if not chosen:
        errors["request"] = "Choose at least one request."
    if decision not in ("accept", "reject"):
        errors["decision"] = "Choose whether to accept or to reject."
    if decision == "reject" and not reason.strip():
        errors["reason"] = "Say why these requests are rejected. The people who asked will read it."
    if errors:
        return _list(visit, values, errors=errors, status=422)
    requests, refused = visit.service.requests, []
    for name in chosen:
        try:
            if decision == "accept":
                requests.accept(visit.actor, name)
            else:
                requests.reject(visit.actor, name, reason=reason.strip())
        except (RequestRefused, ParameterError) as error:
            refused.append(str(error))
    if refused:
        return _list(visit, values, refused=refused, status=409)
    target = local_path(back)
    separator = "&" if "?" in target else "?"
    return redirect(f"{target if target.startswith('/requests') else '/requests'}{separator}done={len(chosen)}")


@router.get("/new")
def new(visit: Member) -> Response:
    """Show the form for a request that came by letter or telephone."""
    visit.actor.require(Permission.CREATE)
    return _new(visit, {}, "", {})


def _new(
    visit: SignedIn, identities: dict[str, str], channel: str, errors: dict[str, str], status: int = 200
) -> Response:
    return visit.show(
        "new.html",
        title="New request",
        code=status,
        kinds=visit.service.public_form.kinds,
        identities=identities,
        channel=channel,
        channels=[c for c in words.CHANNELS if c != "web form"],
        errors=errors,
    )


@router.post("/new")
async def file(visit: Member) -> Response:
    """File a request on behalf of a person."""
    visit.actor.require(Permission.CREATE)
    form = await visit.request.form(max_files=0)
    kinds = visit.service.public_form.kinds
    identities = {kind: str(form.get(f"identity-{kind}", "")).strip() for kind in kinds}
    given = {kind: value for kind, value in identities.items() if value}
    channel = str(form.get("channel", ""))
    if not given:
        return _new(visit, identities, channel, {f"identity-{kinds[0]}": "Say how the person is known."}, 422)
    try:
        asked = NewRequest(given, channel=channel or None, source="page")
    except ParameterError as error:
        return _new(visit, identities, channel, {f"identity-{next(iter(given))}": str(error)}, 422)
    created = await run_in_threadpool(visit.service.requests.create, visit.actor, asked)
    return redirect(f"/requests/{created.case.request.id}", notice="filed")


@router.get("/{request}")
def one(visit: Member, request: RequestId) -> Response:
    """Show a request: where it stands, what can be done now, and what happened."""
    return _one(visit, visit.service.requests.read(visit.actor, request))


def _one(
    visit: SignedIn,
    case: Case,
    *,
    template: str = "request.html",
    errors: dict[str, str] | None = None,
    identities: dict[str, str] | None = None,
    filled: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    actor, requests, state = visit.actor, visit.service.requests, case.request.state
    history = requests.history(actor, case.request.id) if actor.may(Permission.READ) else []
    acted = {str(entry.body.get("actor")) for entry in history} | {case.owner}
    names = visit.service.accounts.names(acted) | {"worker": "The worker", "operator": "The operator"}
    decides = actor.may(Permission.DECIDE)
    actions = {
        "verify": decides and state is State.RECEIVED,
        "decide": decides and state in UNDECIDED,
        "second": case.approved_by is not None and case.approved_by == actor.id,
        "extend": decides and state in OPEN and not case.request.extended and case.request.due >= requests.today(),
        "retry": actor.may(Permission.RETRY) and state is State.FAILED,
        "cancel": case.owner == actor.id and State.CANCELLED in STEPS[state],
        "identity": actor.may(Permission.IDENTITY) and state in OPEN,
    }
    return visit.show(
        template,
        title=f"Request {case.request.id}",
        code=status,
        case=case,
        today=requests.today(),
        history=_timeline(history),
        names=names,
        actions=actions,
        live=state in (State.ACCEPTED, State.PROCESSING),
        certificate=state is State.CERTIFIED and actor.may(Permission.CERTIFICATES),
        identities=identities,
        errors=errors or {},
        filled=filled or {},
        second_person=requests.second_person,
        tries_again=case.tries < visit.service.settings.worker.attempts,
    )


def _timeline(history: Sequence[Any]) -> list[Any]:
    """Return the entries of a request; an act and the change that it made are one line, told by the act."""
    told = {
        "act.filed": "request.received",
        "act.verified": "request.verified",
        "act.accepted": "request.accepted",
        "act.rejected": "request.rejected",
        "act.cancelled": "request.cancelled",
        "act.extended": "request.extended",
        "act.asked-again": "request.repeated",
        "act.carried-out": "request.completed",
        "act.could-not": "request.failed",
    }
    lines: list[Any] = []
    reasons: dict[str, list[str]] = {}
    acts = {told[entry.kind] for entry in history if entry.kind in told}
    for entry in history:
        if entry.kind in acts:
            reasons.setdefault(entry.kind, []).append(str(entry.body.get("reason") or ""))
    for entry in history:
        if entry.kind in acts:
            continue
        given = reasons.get(told.get(entry.kind, ""), [])
        reason = str(entry.body.get("reason") or "") or (given.pop(0) if given else "")
        lines.append({"entry": entry, "reason": reason})
    return lines


@router.get("/{request}/progress")
def progress(visit: Member, request: RequestId, state: Annotated[str, Query(max_length=20)] = "") -> Response:
    """Return the part of the page that changes while the worker works; the whole page once the state is another."""
    case = visit.service.requests.read(visit.actor, request)
    if str(case.request.state) != state:
        return Response(headers={"HX-Redirect": f"/requests/{request}"})
    return _one(visit, case, template="progress.html")


@router.post("/{request}/identity")
def identity(visit: Member, request: RequestId) -> Response:
    """Show who asks. It is an act that the ledger notes, so it needs a form; nothing of it is in an address."""
    shown = visit.service.requests.identities(visit.actor, request)
    return _one(visit, visit.service.requests.read(visit.actor, request), identities=shown or {})


@router.post("/{request}/verify")
def verify(visit: Member, request: RequestId) -> Response:
    """Note a verified identity."""
    return _decided(visit, request, "verified", lambda: visit.service.requests.verify_identity(visit.actor, request))


@router.post("/{request}/accept")
def accept(visit: Member, request: RequestId) -> Response:
    """Accept a request."""
    return _decided(visit, request, "accepted", lambda: visit.service.requests.accept(visit.actor, request))


@router.post("/{request}/reject")
def reject(visit: Member, request: RequestId, reason: Annotated[str, Form(max_length=2000)] = "") -> Response:
    """Reject a request for a reason."""
    reason = " ".join(reason.split())
    missing = {} if reason else {"reject-reason": "Say why the request is rejected. The person who asked will read it."}
    return _decided(
        visit,
        request,
        "rejected",
        lambda: visit.service.requests.reject(visit.actor, request, reason=reason),
        missing=missing,
        field="reject-reason",
        filled={"reject-reason": reason},
    )


@router.post("/{request}/extend")
def extend(
    visit: Member,
    request: RequestId,
    months: Annotated[int, Form(ge=1, le=2)] = 2,
    reason: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    """Extend the deadline for a reason."""
    reason = " ".join(reason.split())
    missing = {} if reason else {"extend-reason": "Say why more time is needed. The law asks for a reason."}
    return _decided(
        visit,
        request,
        "extended",
        lambda: visit.service.requests.extend(visit.actor, request, months=months, reason=reason),
        missing=missing,
        field="extend-reason",
        filled={"extend-reason": reason},
    )


@router.post("/{request}/retry")
def retry(visit: Member, request: RequestId) -> Response:
    """Let the worker try a failed request again."""
    return _decided(visit, request, "retried", lambda: visit.service.requests.retry(visit.actor, request))


@router.post("/{request}/cancel")
def cancel(visit: Member, request: RequestId) -> Response:
    """Withdraw a request."""
    return _decided(visit, request, "cancelled", lambda: visit.service.requests.cancel(visit.actor, request))


def _decided(
    visit: SignedIn,
    request: str,
    notice: str,
    act: Callable[[], Case],
    *,
    missing: dict[str, str] | None = None,
    field: str = "decision",
    filled: dict[str, str] | None = None,
) -> Response:
    """Act, and go back to the request; show it with what is wrong where that was not possible."""
    errors = dict(missing or {})
    if errors:
        # Whoever may not decide learns nothing about the form either.
        visit.actor.require(Permission.DECIDE)
    else:
        try:
            case = act()
            first = notice == "accepted" and case.request.state in UNDECIDED
            return redirect(f"/requests/{request}", notice="first" if first else notice)
        except (RequestRefused, WrongState, ParameterError) as error:
            errors = {field: _sentence(error)}
    case = visit.service.requests.read(visit.actor, request)
    return _one(visit, case, errors=errors, filled=filled, status=422 if missing else 409)


def _sentence(error: EupgError) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
