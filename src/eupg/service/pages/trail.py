"""The page of the audit trail: every entry of the ledger, and a check of the whole chain."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from eupg.errors import LedgerCorrupt
from eupg.service.access import Permission
from eupg.service.pages.frame import Member, PageRoute, SignedIn, redirect

router = APIRouter(prefix="/trail", route_class=PageRoute)
_PER_PAGE = 50
_KINDS = {"": "Everything", "act.": "What people and systems did", "request.": "Changes of requests"}


@router.get("")
def listed(
    visit: Member,
    kind: Annotated[str, Query(max_length=20)] = "",
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    after: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> Response:
    """List the newest entries, or those before or after a number."""
    return _show(visit, kind=kind if kind in _KINDS else "", before=before, after=after)


def _show(
    visit: SignedIn, *, kind: str = "", before: int | None = None, after: int | None = None, broken: str = ""
) -> Response:
    trail = visit.service.trail
    found = trail.window(visit.actor, before=before, after=after, kind=kind or None, limit=_PER_PAGE)
    acted = {str(entry.body.get("actor")) for entry in found.entries}
    return visit.show(
        "trail.html",
        title="Audit trail",
        entries=found.entries,
        head=found.head,
        kind=kind,
        kinds=_KINDS,
        names=visit.service.accounts.names(acted) | {"worker": "The worker", "operator": "The operator"},
        older=found.entries[-1].number if found.entries and found.more_before else None,
        newer=found.entries[0].number if found.entries and found.more_after else None,
        broken=broken,
    )


@router.post("/check")
def check(visit: Member) -> Response:
    """Follow the chain through the whole ledger."""
    visit.actor.require(Permission.AUDIT)
    try:
        visit.service.trail.verify(visit.actor)
    except LedgerCorrupt as error:
        return _show(visit, broken=str(error))
    return redirect("/trail", notice="whole")
