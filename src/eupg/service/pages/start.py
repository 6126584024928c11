"""The first pages: what waits and what is due, or a welcome; and the page to sign in."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from eupg.manage.requests.states import State
from eupg.service.access import Permission, ServiceRole
from eupg.service.pages import words
from eupg.service.pages.frame import Guest, PageRoute, Visit, redirect
from eupg.service.requests import RequestSearch
from eupg.service.signin.routes import local_path

router = APIRouter(route_class=PageRoute)
_SHOWN = 12


@router.get("/")
def start(visit: Guest) -> Response:
    """Show what waits to those who may see it, and a welcome to everybody else."""
    actor = visit.actor
    if actor is None:
        return visit.show("welcome.html", title="Erasure requests")
    if actor.may(Permission.READ):
        return _overview(visit)
    return redirect("/requests" if actor.may(Permission.READ_OWN) else "/models")


def _overview(visit: Visit) -> Response:
    assert visit.actor is not None
    requests = visit.service.requests
    counts, today = requests.counts(visit.actor), requests.today()
    urgent = requests.search(visit.actor, RequestSearch(open=True, order="due", limit=_SHOWN))
    failed = requests.search(visit.actor, RequestSearch(states=(State.FAILED,), order="due", limit=_SHOWN))
    seen = visit.service.worker_seen()
    idle = seen is None or requests.database.now().timestamp() - seen > 2 * visit.service.settings.worker.lease_s
    by_state = counts.counts
    return visit.show(
        "overview.html",
        title="Waiting requests",
        counts=counts,
        today=today,
        undecided=sum(by_state.get(state, 0) for state in (State.RECEIVED, State.VERIFIED)),
        running=sum(by_state.get(state, 0) for state in (State.ACCEPTED, State.PROCESSING)),
        failed_count=by_state.get(State.FAILED, 0),
        done=sum(by_state.get(state, 0) for state in (State.COMPLETED, State.CERTIFIED)),
        overdue=[case for case in urgent.cases if case.request.due < today],
        upcoming=[case for case in urgent.cases if case.request.due >= today],
        more=urgent.next_cursor is not None,
        failed=failed.cases,
        worker_idle=idle,
        soon=today + timedelta(days=7),
    )


@router.get("/sign-in")
def sign_in(visit: Guest, next: Annotated[str, Query(max_length=500)] = "/") -> Response:
    """Show the ways to sign in."""
    if visit.actor is not None:
        return redirect(local_path(next))
    settings = visit.service.settings
    return visit.show(
        "sign_in.html",
        title="Sign in",
        next=local_path(next),
        roles=[(str(role), words.ROLES[role]) for role in ServiceRole] if settings.demo else [],
        oidc=settings.oidc is not None,
        proxy=settings.proxy is not None,
    )
