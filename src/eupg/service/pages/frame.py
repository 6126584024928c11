"""What every page has: the frame around it, the token in its forms, and errors as pages."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from eupg.errors import AccessDenied, EupgError
from eupg.pages import render
from eupg.service.access import Actor, Permission
from eupg.service.pages import words
from eupg.service.problems import Problem, problem_of
from eupg.service.service import Service
from eupg.service.signin.current import (
    CurrentRates,
    CurrentService,
    CurrentSession,
    PageActor,
    check_origin,
    csrf_token,
    find_session,
)
from eupg.service.signin.sessions import Session

# How long a form that nobody signed in for may lie open.
_FORM_LIFETIME_S = 2 * 3600
# What the frame links to, and who sees it.
_PLACES: tuple[tuple[str, str, tuple[Permission, ...]], ...] = (
    ("/", "Overview", (Permission.READ,)),
    ("/requests", "Requests", (Permission.READ, Permission.READ_OWN)),
    ("/certificates", "Certificates", (Permission.CERTIFICATES,)),
    ("/models", "Models", (Permission.MODELS,)),
    ("/trail", "Audit trail", (Permission.AUDIT,)),
    ("/administration", "Administration", (Permission.MANAGE,)),
)


@dataclass(frozen=True)
class Visit:
    """A call of a page, by somebody who is signed in or not."""

    request: Request
    service: Service
    actor: Actor | None
    csrf: str

    def show(self, template: str, *, title: str, code: int = 200, **values: Any) -> HTMLResponse:
        """Return a page from a template."""
        path = self.request.url.path
        places = [
            {"path": place, "name": name, "here": path == place or (place != "/" and path.startswith(f"{place}/"))}
            for place, name, needed in _PLACES
            if self.actor is not None and self.actor.permissions.intersection(needed)
        ]
        notice = self.request.query_params.get("notice", "")
        values = {
            "title": title,
            "actor": self.actor,
            "csrf": self.csrf,
            "places": places,
            "words": words,
            "Permission": Permission,
            "demo": self.service.settings.demo,
            "public_form": self.service.public_form.is_open,
            "organisation": self.service.settings.issuer.name if self.service.settings.issuer else "",
            "notice": words.NOTICES.get(notice, ""),
            "errors": {},
        } | values
        return HTMLResponse(render(f"service/{template}", values), code)


@dataclass(frozen=True)
class SignedIn(Visit):
    """A call of a page by somebody who is signed in."""

    actor: Actor


def guest_of(request: Request, service: CurrentService, session: CurrentSession, rates: CurrentRates) -> Visit:
    """Return a visit of a page that anyone may see, but not too often."""
    visit = _visit_of(request, service, session)
    if visit.actor is None:
        rates.check("stranger", rates.address(request))
    else:
        rates.check("call", visit.actor.id)
    return visit


def _visit_of(request: Request, service: Service, session: Session | None) -> Visit:
    proxy = request.app.state.proxy
    actor = session.actor if session is not None else None if proxy is None else proxy.actor(service, request)
    return Visit(request, service, actor, csrf_of(service, session.token if session else None))


async def signed_in(request: Request, service: CurrentService, session: CurrentSession, actor: PageActor) -> SignedIn:
    """Return a visit of a page that needs a sign-in; the token of a form was checked by then."""
    return SignedIn(request, service, actor, csrf_of(service, session.token if session else None))


def csrf_of(service: Service, session_token: str | None) -> str:
    """Return the token for the forms of a page: that of the session, or one that ends by itself."""
    if session_token is not None:
        return csrf_token(service, session_token)
    now = str(int(time.time()))
    return f"{now}.{service.seal.digest('form', now)}"


def check_form(visit: Visit, sent: str) -> None:
    """Raise unless a form of a page that anyone may see was made here a short while ago."""
    check_origin(visit.request, visit.service)
    if visit.actor is not None and hmac.compare_digest(sent.encode(), visit.csrf.encode()):
        return
    began, _, digest = sent.partition(".")
    right = hmac.compare_digest(digest.encode(), visit.service.seal.digest("form", began).encode())
    if not right or not 0 <= time.time() - int(began) <= _FORM_LIFETIME_S:
        raise AccessDenied("the form is out of date: load the page again, and send it once more")


Guest = Annotated[Visit, Depends(guest_of)]
Member = Annotated[SignedIn, Depends(signed_in)]


def redirect(path: str, **query: Any) -> RedirectResponse:
    """Send the browser to a page of this site after a form, so that a reload does not send the form again."""
    values = {name: value for name, value in query.items() if value is not None}
    return RedirectResponse(f"{path}?{urlencode(values)}" if values else path, status_code=303)


class PageRoute(APIRoute):
    """A route whose errors are pages, and which sends whoever is not signed in to the page for that."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, with errors caught."""
        handle = super().get_route_handler()

        async def with_pages(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                return await run_in_threadpool(error_page, request, error)

        return with_pages


def error_page(request: Request, error: Exception) -> Response:
    """Return a page that says what is wrong, and what to do."""
    problem = _problem(error)
    if problem.status == 401:
        return _to_sign_in(request)
    page = _visit(request).show("error.html", title=problem.title, code=problem.status, problem=problem)
    page.headers.update(problem.headers)
    return page


def _visit(request: Request) -> Visit:
    """Return the visit in which something went wrong; without the name of whoever is signed in if that is unknown."""
    service: Service = request.app.state.service
    try:
        return _visit_of(request, service, find_session(request, service))
    except EupgError:
        return Visit(request, service, None, "")


def _to_sign_in(request: Request) -> Response:
    if request.headers.get("hx-request"):
        return Response(headers={"HX-Redirect": "/sign-in"})
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    after = f"?next={quote(wanted)}" if request.method == "GET" and wanted != "/" else ""
    return RedirectResponse(f"/sign-in{after}", status_code=303)


def _problem(error: Exception) -> Problem:
    if isinstance(error, RequestValidationError):
        # Without the value that was sent: it may name a person.
        fields = sorted({str(e["loc"][-1]) for e in error.errors()})
        return Problem(422, "invalid", "Invalid value", f"the form was not filled in as expected: {', '.join(fields)}")
    if isinstance(error, HTTPException):
        return Problem(error.status_code, "http", _TITLES.get(error.status_code, "Not possible"), str(error.detail))
    return problem_of(error)


_TITLES = {404: "There is no such page", 405: "Not possible here"}
