"""OpenDSR 1.0: a controller files, follows and cancels erasure requests; every answer is signed for the domain.

The controller authenticates with an API key. Its ``subject_request_id`` names the request. Identities are taken in
the format ``raw`` only: a plain hash cannot be compared with the keyed digests of a workspace.
"""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Request, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from eupg.errors import AccessDenied, EupgError, RequestRefused, UnknownRequest
from eupg.manage.requests.states import State
from eupg.service.adapters.domain import Domain
from eupg.service.adapters.states import OPENDSR, completion_time
from eupg.service.bodies import RawBody
from eupg.service.callback_address import check_url
from eupg.service.outbox import Subscription
from eupg.service.problems import Problem
from eupg.service.requests import Case, NewRequest
from eupg.service.service import Service
from eupg.service.signin.current import CurrentActor, CurrentRates, CurrentService, Stranger

API_VERSION = "1.0"
router = APIRouter(prefix="/opendsr", include_in_schema=False)

SubjectRequest = Annotated[uuid.UUID, Path()]


class IdentityModel(BaseModel):
    """One identifier of the person."""

    identity_type: Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,39}$")]
    identity_value: Annotated[str, Field(min_length=1, max_length=500)]
    identity_format: Literal["raw"]


class OpenDsrRequest(BaseModel):
    """A request, as a controller sends it; further members are ignored."""

    model_config = ConfigDict(extra="ignore")

    regulation: str = "gdpr"
    subject_request_id: uuid.UUID
    subject_request_type: Literal["erasure"]
    submitted_time: AwareDatetime
    subject_identities: Annotated[list[IdentityModel], Field(min_length=1, max_length=10)]
    api_version: Literal["1.0"] = "1.0"
    status_callback_urls: Annotated[list[str], Field(max_length=5)] = []


async def domain_of(request: Request) -> Domain:
    """Return what signs answers; without it, this protocol is not spoken here."""
    domain: Domain | None = request.app.state.opendsr
    if domain is None:
        raise Problem(404, "not-found", "Not Found", "OpenDSR is not set up here")
    return domain


CurrentDomain = Annotated[Domain, Depends(domain_of)]


@router.get("/discovery")
def discovery(service: CurrentService, domain: CurrentDomain, _: Stranger) -> Response:
    """Say what is supported."""
    identities = [{"identity_type": kind, "identity_format": "raw"} for kind in service.public_form.kinds]
    values = {
        "api_version": API_VERSION,
        "supported_identities": identities,
        "supported_subject_request_types": ["erasure"],
        "processor_certificate": f"{service.settings.public_url}/opendsr/certificate",
    }
    return _signed(domain, values, 200)


@router.get("/certificate")
def certificate(domain: CurrentDomain, _: Stranger) -> Response:
    """Return the certificate that signatures are checked with."""
    return Response(FilePath(domain.certificate_file).read_bytes(), media_type="application/x-pem-file")


@router.post("/requests")
def create(
    body: RawBody, actor: CurrentActor, service: CurrentService, rates: CurrentRates, domain: CurrentDomain
) -> Response:
    """File a request; the answer proves its receipt."""
    rates.check("create", actor.id)
    try:
        sent = OpenDsrRequest.model_validate_json(body)
        for url in sent.status_callback_urls:
            check_url(url, service.settings.callbacks)
        reference = str(sent.subject_request_id)
        subscriptions = tuple(Subscription(url, "", "opendsr", reference) for url in sent.status_callback_urls)
        identities = {i.identity_type: i.identity_value for i in sent.subject_identities}
        if len(identities) < len(sent.subject_identities):
            # The signed receipt repeats all of them, so none may be left out.
            return _refused(domain, "subject_identities: name each identity_type once, and file a request per value")
        new = NewRequest(identities, "opendsr", "opendsr", _key(sent.subject_request_id), subscriptions)
        case = service.intake.create(actor, new).case
    except ValidationError as error:
        # Without the values: they name a person.
        words = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        return _refused(domain, words)
    except AccessDenied:
        raise
    except EupgError as error:
        return _refused(domain, str(error))
    values = {
        "controller_id": actor.id,
        "expected_completion_time": completion_time(case.request),
        "received_time": case.request.received_at,
        "encoded_request": base64.b64encode(body).decode(),
        "subject_request_id": str(sent.subject_request_id),
    }
    return _signed(domain, values, 201)


@router.get("/requests/{subject_request}")
def status(
    subject_request: SubjectRequest, actor: CurrentActor, service: CurrentService, domain: CurrentDomain
) -> Response:
    """Return the status of a controller's own request."""
    case = _found(service, actor, subject_request)
    values = {
        "controller_id": actor.id,
        "expected_completion_time": completion_time(case.request),
        "subject_request_id": str(subject_request),
        "request_status": OPENDSR[case.request.state],
        "api_version": API_VERSION,
    }
    return _signed(domain, values, 200)


@router.delete("/requests/{subject_request}")
def cancel(
    subject_request: SubjectRequest, actor: CurrentActor, service: CurrentService, domain: CurrentDomain
) -> Response:
    """Cancel a controller's own request while it is pending."""
    case = _found(service, actor, subject_request)
    try:
        if case.request.state is not State.RECEIVED:
            raise RequestRefused(f"the request is {OPENDSR[case.request.state]}: only a pending one is cancelled")
        service.requests.cancel(actor, case.request.id)
    except RequestRefused as error:
        return _refused(domain, str(error))
    values = {
        "controller_id": actor.id,
        "received_time": service.database.now().isoformat(timespec="seconds"),
        "subject_request_id": str(subject_request),
        "api_version": API_VERSION,
    }
    return _signed(domain, values, 202)


def _found(service: Service, actor: Any, subject_request: uuid.UUID) -> Case:
    found: Case | None = service.requests.by_key(actor, _key(subject_request))
    if found is None:
        raise UnknownRequest("there is no request with this subject_request_id: file it first")
    return found


def _key(subject_request: uuid.UUID) -> str:
    return f"opendsr_{subject_request}"


def _signed(domain: Domain, values: dict[str, Any], status: int) -> Response:
    body = json.dumps(values, separators=(",", ":")).encode()
    return Response(body, status, domain.headers(body), "application/json")


def _refused(domain: Domain, words: str) -> Response:
    return _signed(domain, {"error": {"code": 400, "message": words}}, 400)
