"""Who calls: the dependencies by which a route gets the service and the actor.

A caller shows an API key, or a session cookie, or comes through a trusted proxy. A cookie is sent by the browser
without the person's doing, so whatever changes something needs the session's CSRF token besides.
"""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from eupg.errors import AccessDenied
from eupg.service.access import Actor
from eupg.service.problems import unauthenticated
from eupg.service.rates import Rates
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings
from eupg.service.signin.proxy import TrustedProxy
from eupg.service.signin.sessions import Session

CSRF_HEADER, CSRF_FIELD = "x-csrf-token", "csrf"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


# FastAPI calls a plain function in another thread, which costs more than these do.
async def service_of(request: Request) -> Service:
    """Return the running service."""
    service: Service = request.app.state.service
    return service


async def rates_of(request: Request) -> Rates:
    """Return what counts calls."""
    rates: Rates = request.app.state.rates
    return rates


def cookie_name(settings: ServiceSettings) -> str:
    """Return the name of the session cookie; with the prefix, browsers accept it over HTTPS and for this host only."""
    return "__Host-eupg" if settings.secure_cookies else "eupg-session"


async def session_of(request: Request, service: Annotated[Service, Depends(service_of)]) -> Session | None:
    """Return the session of a browser, if there is one."""
    return None if _session_token(request, service) is None else await run_in_threadpool(find_session, request, service)


def find_session(request: Request, service: Service) -> Session | None:
    """Return the session of a browser, if there is one; for code that runs in a thread of its own."""
    token = _session_token(request, service)
    return None if token is None else service.sessions.find(token)


def _session_token(request: Request, service: Service) -> str | None:
    token = request.cookies.get(cookie_name(service.settings))
    return None if token is None or len(token) > 100 else token


def csrf_token(service: Service, session_token: str) -> str:
    """Return the token that forms of this session carry."""
    return service.seal.digest("csrf", session_token)


def actor_of(
    request: Request,
    service: Annotated[Service, Depends(service_of)],
    rates: Annotated[Rates, Depends(rates_of)],
    session: Annotated[Session | None, Depends(session_of)],
) -> Actor:
    """Return who calls the API; a session that changes something sends its token in a header."""
    shown = _by_key(request, service, rates) or _by_proxy(request, service)
    actor = shown or (None if session is None else session.actor)
    if actor is None:
        rates.check("sign-in", rates.address(request))
        raise unauthenticated()
    rates.check("call", actor.id)
    request.state.actor = actor.id
    if shown is None and session is not None and request.method not in _SAFE:
        check_csrf(request, service, session, request.headers.get(CSRF_HEADER, ""))
    return actor


async def page_actor(
    request: Request,
    service: Annotated[Service, Depends(service_of)],
    rates: Annotated[Rates, Depends(rates_of)],
    session: Annotated[Session | None, Depends(session_of)],
) -> Actor:
    """Return who uses a page; a form that changes something carries the session's token in a field."""
    shown = await run_in_threadpool(_by_proxy, request, service)
    actor = shown or (None if session is None else session.actor)
    if actor is None:
        rates.check("stranger", rates.address(request))
        raise unauthenticated()
    rates.check("call", actor.id)
    request.state.actor = actor.id
    if shown is None and session is not None and request.method not in _SAFE:
        sent = request.headers.get(CSRF_HEADER) or str((await request.form(max_files=0)).get(CSRF_FIELD, ""))
        check_csrf(request, service, session, sent)
    return actor


def stranger(request: Request, rates: Annotated[Rates, Depends(rates_of)]) -> None:
    """Let anyone call, but not too often."""
    rates.check("stranger", rates.address(request))


def check_csrf(request: Request, service: Service, session: Session, sent: str) -> None:
    """Raise unless a change comes from a page of this session."""
    check_origin(request, service)
    if not hmac.compare_digest(sent.encode(), csrf_token(service, session.token).encode()):
        raise AccessDenied("the form's token is missing or out of date: load the page again")


def check_origin(request: Request, service: Service) -> None:
    """Raise if a browser says that a page of another site sends this."""
    origin = request.headers.get("origin")
    own = {service.settings.public_url, f"{request.url.scheme}://{request.headers.get('host', '')}"}
    if origin is not None and origin not in own:
        raise AccessDenied("this was sent by a page of another site")


def _by_key(request: Request, service: Service, rates: Rates) -> Actor | None:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if not scheme:
        return None
    actor = service.accounts.actor_of_key(key.strip()) if scheme.lower() == "bearer" else None
    if actor is None:
        # Whoever guesses keys gets slower.
        rates.check("sign-in", rates.address(request))
        raise unauthenticated()
    return actor


def _by_proxy(request: Request, service: Service) -> Actor | None:
    proxy: TrustedProxy | None = request.app.state.proxy
    actor = None if proxy is None else proxy.actor(service, request)
    if actor is not None and request.method not in _SAFE:
        # Not every browser says by Sec-Fetch-Site where a request comes from.
        check_origin(request, service)
    return actor


CurrentService = Annotated[Service, Depends(service_of)]
CurrentRates = Annotated[Rates, Depends(rates_of)]
CurrentActor = Annotated[Actor, Depends(actor_of)]
PageActor = Annotated[Actor, Depends(page_actor)]
Stranger = Annotated[None, Depends(stranger)]
CurrentSession = Annotated[Session | None, Depends(session_of)]
