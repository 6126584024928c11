"""``/v1/requests``: file, list, read and decide requests."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Response

from eupg.manage.requests.states import State
from eupg.service.api.representations import (
    CancelModel,
    CountsModel,
    EntryModel,
    ExtendModel,
    NewRequestModel,
    RejectModel,
    RequestModel,
    RequestPage,
)
from eupg.service.callback_address import check_url
from eupg.service.outbox import Subscription
from eupg.service.problems import described
from eupg.service.requests import NewRequest, RequestSearch
from eupg.service.signin.current import CurrentActor, CurrentRates, CurrentService

router = APIRouter(prefix="/requests", tags=["requests"])

RequestId = Annotated[str, Path(pattern="^r-[0-9a-f]{16}$", examples=["r-0123456789abcdef"])]
_KNOWN = described(404)
_STEP = described(404, 409)


@router.post("", status_code=201, responses=described(409), summary="File a request")
def create(
    new: NewRequestModel,
    response: Response,
    actor: CurrentActor,
    service: CurrentService,
    rates: CurrentRates,
    idempotency_key: Annotated[
        str | None,
        Header(
            pattern=r"^[\x21-\x7e]{1,255}$", description="Send the same key again after a failure.", examples=["7f3c"]
        ),
    ] = None,
) -> RequestModel:
    """File a request to erase a person from all models.

    It is on disk when the answer is sent. The answer does not depend on whether the person is known.
    """
    rates.check("create", actor.id)
    callbacks: tuple[Subscription, ...] = ()
    if new.callback is not None:
        check_url(new.callback.url, service.settings.callbacks)
        callbacks = (Subscription(new.callback.url, new.callback.secret),)
    asked = NewRequest(new.identities, new.channel, idempotency_key=idempotency_key, subscriptions=callbacks)
    created = service.intake.create(actor, asked)
    response.headers["Location"] = f"/v1/requests/{created.case.request.id}"
    if created.replayed:
        response.headers["Idempotency-Replayed"] = "true"
    return RequestModel.of(created.case)


@router.get("", summary="List requests")
def search(
    actor: CurrentActor,
    service: CurrentService,
    state: Annotated[list[State] | None, Query(description="May be repeated.")] = None,
    open: Annotated[bool | None, Query(description="Only those that wait for an answer, or only the others.")] = None,
    overdue: Annotated[bool, Query(description="Only those that should have been answered before today.")] = False,
    channel: Annotated[str | None, Query(max_length=40)] = None,
    owner: Annotated[str | None, Query(max_length=40)] = None,
    text: Annotated[
        str | None, Query(max_length=500, description="The beginning of a request's id.", pattern="^r-[0-9a-f]{0,16}$")
    ] = None,
    order: Literal["newest", "due"] = "newest",
    cursor: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> RequestPage:
    """List requests, one page at a time; those who may only read their own get their own."""
    states = tuple(state or ())
    return RequestPage.of(
        service.requests.search(actor, RequestSearch(states, open, overdue, channel, owner, text, order, cursor, limit))
    )


@router.get("/counts", summary="Count requests")
def counts(actor: CurrentActor, service: CurrentService) -> CountsModel:
    """Count all requests by state and deadline."""
    found = service.requests.counts(actor)
    by_state = {str(state): number for state, number in found.counts.items()}
    return CountsModel(counts=by_state, open=found.open, overdue=found.overdue, next_due=found.next_due)


@router.get("/{request}", responses=_KNOWN, summary="Read a request")
def read(request: RequestId, actor: CurrentActor, service: CurrentService) -> RequestModel:
    """Read a request: its state, its deadline, and what became of it in each workspace."""
    return RequestModel.of(service.requests.read(actor, request))


@router.get("/{request}/history", responses=_KNOWN, summary="Read the history of a request")
def history(request: RequestId, actor: CurrentActor, service: CurrentService) -> list[EntryModel]:
    """Return everything that the ledger notes about a request, in order."""
    return [EntryModel.of(entry) for entry in service.requests.history(actor, request)]


@router.get("/{request}/identities", responses=_KNOWN, summary="Read who asks")
def identities(request: RequestId, actor: CurrentActor, service: CurrentService) -> dict[str, str]:
    """Return how the person is named, to verify their identity; empty once the request is closed. This is noted."""
    return service.requests.identities(actor, request) or {}


@router.post("/{request}/verify-identity", responses=_STEP, summary="Note a verified identity")
def verify_identity(request: RequestId, actor: CurrentActor, service: CurrentService) -> RequestModel:
    """Note that the identity of the person who asks was verified."""
    return RequestModel.of(service.requests.verify_identity(actor, request))


@router.post("/{request}/accept", responses=_STEP, summary="Accept a request")
def accept(request: RequestId, actor: CurrentActor, service: CurrentService) -> RequestModel:
    """Accept a request; where two people are needed, the first call leaves it waiting for the second person."""
    return RequestModel.of(service.requests.accept(actor, request))


@router.post("/{request}/reject", responses=_STEP, summary="Reject a request")
def reject(request: RequestId, why: RejectModel, actor: CurrentActor, service: CurrentService) -> RequestModel:
    """Reject a request, for a reason that names nobody."""
    return RequestModel.of(service.requests.reject(actor, request, reason=why.reason))


@router.post("/{request}/cancel", responses=_STEP, summary="Withdraw a request")
def cancel(request: RequestId, why: CancelModel, actor: CurrentActor, service: CurrentService) -> RequestModel:
    """Withdraw a request; only the account that filed it can."""
    return RequestModel.of(service.requests.cancel(actor, request, reason=why.reason))


@router.post("/{request}/extend", responses=_STEP, summary="Extend a deadline")
def extend(request: RequestId, why: ExtendModel, actor: CurrentActor, service: CurrentService) -> RequestModel:
    """Extend the deadline of a request, once, by one or two months."""
    return RequestModel.of(service.requests.extend(actor, request, months=why.months, reason=why.reason))


@router.post("/{request}/retry", responses=_STEP, summary="Try a failed request again")
def retry(request: RequestId, actor: CurrentActor, service: CurrentService) -> RequestModel:
    """Let the worker try a failed request again at once."""
    return RequestModel.of(service.requests.retry(actor, request))
