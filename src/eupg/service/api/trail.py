"""``/v1/audit``: the ledger of the service, and whether it is whole."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import ConfigDict

from eupg.errors import LedgerCorrupt
from eupg.service.api.representations import EntryModel, Representation
from eupg.service.signin.current import CurrentActor, CurrentService

router = APIRouter(prefix="/audit", tags=["audit"])


class LedgerHeadModel(Representation):
    """The newest entry of the ledger; keep a copy elsewhere to notice a tail that is cut off."""

    number: int
    digest: str


class TrailModel(Representation):
    """Entries of the ledger, in order; pass ``next_after`` as ``after`` for the next page."""

    model_config = ConfigDict(title="AuditTrail")

    entries: list[EntryModel]
    head: LedgerHeadModel
    next_after: int | None


class TrailCheckModel(Representation):
    """Whether the ledger is whole."""

    verified: bool
    head: LedgerHeadModel | None
    why: str | None = None


@router.get("", summary="Read the audit trail")
def trail(
    actor: CurrentActor,
    service: CurrentService,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    kind: Annotated[str | None, Query(max_length=100, description="The beginning of a kind, such as act.")] = None,
) -> TrailModel:
    """Return what happened, in order: who filed, read, decided and carried out what, and when."""
    page = service.trail.page(actor, after=after, limit=limit, kind=kind)
    return TrailModel(
        entries=[EntryModel.of(entry) for entry in page.entries],
        head=LedgerHeadModel(number=page.head.number, digest=page.head.digest),
        next_after=page.next_after,
    )


@router.post("/verify", summary="Check the audit trail")
def check(actor: CurrentActor, service: CurrentService) -> TrailCheckModel:
    """Follow the chain of digests through the whole ledger."""
    try:
        head = service.trail.verify(actor)
    except LedgerCorrupt as error:
        return TrailCheckModel(verified=False, head=None, why=str(error))
    return TrailCheckModel(verified=True, head=LedgerHeadModel(number=head.number, digest=head.digest))
