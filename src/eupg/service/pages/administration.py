"""The page of administration: API keys and accounts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Path
from fastapi.responses import Response

from eupg.errors import ParameterError
from eupg.service.access import Permission
from eupg.service.pages import words
from eupg.service.pages.frame import Member, PageRoute, SignedIn, redirect

router = APIRouter(prefix="/administration", route_class=PageRoute)


@router.get("")
def show(visit: Member) -> Response:
    """Show keys and accounts."""
    return _show(visit)


def _show(
    visit: SignedIn,
    *,
    errors: dict[str, str] | None = None,
    secret: str = "",
    name: str = "",
    chosen: tuple[str, ...] = (),
    status: int = 200,
) -> Response:
    visit.actor.require(Permission.MANAGE)
    accounts = visit.service.accounts
    now = visit.service.database.now().isoformat(timespec="seconds")
    return visit.show(
        "administration.html",
        title="Administration",
        code=status,
        keys=accounts.keys(visit.actor),
        accounts=accounts.listed(visit.actor),
        now=now,
        secret=secret,
        name=name,
        chosen=chosen,
        permissions=[(str(permission), text) for permission, text in words.PERMISSIONS.items()],
        errors=errors or {},
    )


@router.post("/keys")
def issue(
    visit: Member,
    name: Annotated[str, Form(max_length=500)] = "",
    scope: Annotated[list[str] | None, Form()] = None,
    days: Annotated[str, Form(max_length=5)] = "90",
) -> Response:
    """Issue a key. It is shown in this answer and nowhere else, so there is no redirect that could carry it."""
    visit.actor.require(Permission.MANAGE)
    chosen, errors = tuple(scope or ()), {}
    if not name.strip():
        errors["name"] = "Give the key a name, such as that of the system which will use it."
    if not chosen:
        errors["scope"] = "Choose at least one thing that the key may do."
    if not (days.isascii() and days.isdigit() and 1 <= int(days) <= 366):
        errors["days"] = "A key lasts 1 to 366 days."
    if not errors:
        try:
            scopes = {Permission(value) for value in chosen}
            _, secret = visit.service.accounts.issue_key(visit.actor, name=name, scopes=scopes, days=int(days))
            return _show(visit, secret=secret)
        except (ParameterError, ValueError):
            errors["name"] = "The name may have up to 100 printable characters."
    return _show(visit, errors=errors, name=name, chosen=chosen, status=422)


@router.post("/keys/{key}/revoke")
def revoke(visit: Member, key: Annotated[str, Path(pattern="^[0-9a-f]{12}$")]) -> Response:
    """End a key now."""
    visit.service.accounts.revoke_key(visit.actor, key)
    return redirect("/administration", notice="revoked")
