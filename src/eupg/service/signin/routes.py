"""The routes by which people sign in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from eupg.errors import AccessDenied, UnknownRequest
from eupg.service.access import ServiceRole
from eupg.service.service import Service
from eupg.service.signin.current import (
    CSRF_FIELD,
    CurrentRates,
    CurrentService,
    CurrentSession,
    Stranger,
    check_csrf,
    check_origin,
    cookie_name,
)
from eupg.service.signin.oidc import CALLBACK, OidcSignIn
from eupg.service.signin.proxy import roles_of
from eupg.service.signin.sessions import Session

router = APIRouter(include_in_schema=False)


def local_path(path: str) -> str:
    r"""Return a path on this site; anything that could lead elsewhere becomes the start page.

    Examples
    --------
    >>> local_path("/requests?open=true"), local_path("//evil.example"), local_path("/\\evil.example")
    ('/requests?open=true', '/', '/')
    """
    safe = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if safe else "/"


def set_session(response: Response, service: Service, session: Session) -> None:
    """Send the cookie of a session: for this host alone, and out of reach of scripts."""
    settings = service.settings
    response.set_cookie(
        cookie_name(settings),
        session.token,
        max_age=settings.sessions.lifetime_s,
        secure=settings.secure_cookies,
        httponly=True,
        samesite="lax",
        path="/",
    )


@router.post("/sign-in/demo")
def sign_in_demo(
    request: Request,
    service: CurrentService,
    rates: CurrentRates,
    session: CurrentSession,
    role: Annotated[ServiceRole, Form()],
    next: Annotated[str, Form()] = "/",
) -> RedirectResponse:
    """Sign in by choosing a role, in a demonstration on this machine."""
    if not service.settings.demo:
        raise UnknownRequest("there is no demonstration here")
    check_origin(request, service)
    rates.check("sign-in", rates.address(request))
    name = f"Demo {role}"
    account = service.accounts.named("demo", role, name)
    begun = service.sessions.begin(account, name, [role], replaced=None if session is None else session.token)
    response = RedirectResponse(local_path(next), status_code=303)
    set_session(response, service, begun)
    return response


@router.get("/sign-in/oidc")
def sign_in_oidc(
    request: Request, service: CurrentService, rates: CurrentRates, _: Stranger, next: str = "/"
) -> RedirectResponse:
    """Send the browser to the provider."""
    rates.check("sign-in", rates.address(request))
    url, cookie = _oidc(request).begin(local_path(next))
    response = RedirectResponse(url, status_code=303)
    response.set_cookie(
        _sign_in_cookie(service),
        cookie,
        max_age=600,
        secure=service.settings.secure_cookies,
        httponly=True,
        samesite="lax",
        path="/",
    )
    return response


@router.get(CALLBACK)
def oidc_callback(
    request: Request, service: CurrentService, session: CurrentSession, _: Stranger, state: str = "", code: str = ""
) -> RedirectResponse:
    """Sign in whom the provider has recognised, under a new session."""
    oidc, cookie = _oidc(request), request.cookies.get(_sign_in_cookie(service), "")
    if not code:
        raise AccessDenied("the provider did not sign you in: try again")
    claims, next_path = oidc.finish(code=code, state=state, cookie=cookie)
    roles = roles_of(service.settings, oidc.groups(claims))
    if not roles:
        raise AccessDenied("your account has no role here: ask an administrator to add you to a group")
    name = str(claims.get("name") or claims.get("preferred_username") or "a person")
    account = service.accounts.named(f"oidc {claims['iss']}", str(claims["sub"]), name)
    begun = service.sessions.begin(account, name, roles, replaced=None if session is None else session.token)
    response = RedirectResponse(local_path(next_path), status_code=303)
    response.delete_cookie(_sign_in_cookie(service), path="/", secure=service.settings.secure_cookies)
    set_session(response, service, begun)
    return response


def _oidc(request: Request) -> OidcSignIn:
    oidc: OidcSignIn | None = request.app.state.oidc
    if oidc is None:
        raise UnknownRequest("no provider of sign-ins is set here")
    return oidc


def _sign_in_cookie(service: Service) -> str:
    return "__Host-eupg-sign-in" if service.settings.secure_cookies else "eupg-sign-in"


@router.post("/sign-out")
def sign_out(
    request: Request,
    service: CurrentService,
    session: CurrentSession,
    _: Stranger,
    csrf: Annotated[str, Form(alias=CSRF_FIELD)] = "",
) -> RedirectResponse:
    """End the session."""
    if session is None:
        raise AccessDenied("nobody is signed in here")
    check_csrf(request, service, session, csrf)
    service.sessions.end(session.token)
    response = RedirectResponse("/", status_code=303)
    response.delete_cookie(cookie_name(service.settings), path="/", secure=service.settings.secure_cookies)
    return response
