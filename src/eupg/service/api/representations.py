"""What the API sends and accepts, with an example of each."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from eupg.manage.ledger.events import Entry
from eupg.manage.requests.states import State
from eupg.service.requests import Case, Page

_REQUEST = "r-0123456789abcdef"
Reason = Annotated[str, Field(min_length=1, max_length=500, description="Stays in the ledger for good: name nobody.")]


class Representation(BaseModel):
    """A JSON object without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PartModel(Representation):
    """What became of a request in one workspace."""

    workspace: str
    state: str
    request: str | None
    reason: str | None
    certificate: str | None


class RequestModel(Representation):
    """An erasure request."""

    model_config = ConfigDict(
        title="Request",
        json_schema_extra={
            "example": {
                "id": _REQUEST,
                "state": "received",
                "identity_verified": False,
                "received_at": "2027-01-15T09:30:00.000000+00:00",
                "due": "2027-02-15",
                "extended": False,
                "channel": "letter",
                "reason": None,
                "owner": "a-4be1c05f0a2d9377",
                "source": "api",
                "awaits_second_person": False,
                "workspaces": [],
            }
        },
    )

    id: str
    state: State
    identity_verified: bool
    received_at: str
    due: date
    extended: bool
    channel: str | None
    reason: str | None
    owner: str
    source: str
    awaits_second_person: bool
    workspaces: list[PartModel]

    @classmethod
    def of(cls, case: Case) -> Self:
        """Return a request as the API sends it."""
        r = case.request
        return cls(
            id=r.id,
            state=r.state,
            identity_verified=r.verified,
            received_at=r.received_at,
            due=r.due,
            extended=r.extended,
            channel=r.channel,
            reason=r.reason,
            owner=case.owner,
            source=case.source,
            awaits_second_person=case.awaits_second_person,
            workspaces=[
                PartModel(
                    workspace=p.workspace, state=p.state, request=p.request, reason=p.reason, certificate=p.certificate
                )
                for p in case.parts
            ],
        )


class RequestPage(Representation):
    """One page of requests; pass ``next_cursor`` as ``cursor`` for the next one."""

    requests: list[RequestModel]
    next_cursor: str | None

    @classmethod
    def of(cls, page: Page) -> Self:
        """Return a page as the API sends it."""
        return cls(requests=[RequestModel.of(case) for case in page.cases], next_cursor=page.next_cursor)


class CallbackModel(Representation):
    """Where to tell about changes of a request, by Standard Webhooks."""

    url: Annotated[str, Field(max_length=2000, examples=["https://crm.example.org/hooks/erasure"])]
    secret: Annotated[str, Field(min_length=24, max_length=200, examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])]


class NewRequestModel(Representation):
    """A request to erase a person."""

    model_config = ConfigDict(
        title="NewRequest",
        json_schema_extra={"example": {"identities": {"subject": "125024"}, "channel": "letter"}},
    )

    identities: Annotated[
        dict[str, str],
        Field(description="How the person is named, by kind of identifier.", min_length=1, max_length=10),
    ]
    channel: Annotated[
        str | None, Field(pattern="^[a-z][a-z -]{0,39}$", description="How the request came; nothing personal.")
    ] = None
    callback: CallbackModel | None = None


class RejectModel(Representation):
    """Why a request is rejected."""

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "identity could not be verified"}})

    reason: Reason


class CancelModel(Representation):
    """Why a request is withdrawn."""

    model_config = ConfigDict(json_schema_extra={"example": {"reason": "filed by mistake"}})

    reason: Reason | None = None


class ExtendModel(Representation):
    """By how many months a deadline is extended, and why."""

    model_config = ConfigDict(json_schema_extra={"example": {"months": 2, "reason": "many requests"}})

    months: Annotated[int, Field(ge=1, le=2)]
    reason: Reason


class EntryModel(Representation):
    """An entry of the ledger."""

    number: int
    at: str
    kind: str
    body: dict[str, Any]
    previous: str
    digest: str

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """Return an entry as the API sends it."""
        return cls(**(vars(entry) | {"body": dict(entry.body)}))


class CountsModel(Representation):
    """How many requests there are."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"counts": {"received": 3, "certified": 120}, "open": 3, "overdue": 0, "next_due": "2027-02-15"}
        }
    )

    counts: dict[str, int]
    open: int
    overdue: int
    next_due: date | None
