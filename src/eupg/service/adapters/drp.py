"""The Data Rights Protocol: authorized agents file, follow and revoke requests with signed messages.

A message is base64 of an Ed25519 signature followed by JSON. Agents and their keys are listed in the settings. An agent
gets a bearer token by a signed message of its own; the token is an API key that can file requests and read its own.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse
from sqlalchemy import insert, select

from eupg.certify.keys import PublicKey
from eupg.errors import AccessDenied
from eupg.manage.ledger.transaction import Transaction
from eupg.service.access import Actor, Permission
from eupg.service.accounts import OPERATOR
from eupg.service.adapters.states import drp_status
from eupg.service.bodies import RawBody
from eupg.service.callback_address import check_url
from eupg.service.database import TOKENS
from eupg.service.outbox import Subscription
from eupg.service.problems import Problem
from eupg.service.requests import NewRequest
from eupg.service.service import Service
from eupg.service.settings import DrpSettings
from eupg.service.signin.current import CurrentActor, CurrentRates, CurrentService, Stranger

router = APIRouter(prefix="/v1", include_in_schema=False)
_PROVIDER = "drp"
_SIGNATURE_BYTES = 64
_TOKEN_DAYS = 180
_SCOPES = (Permission.CREATE, Permission.READ_OWN)
_DELETION = "deletion"
_USED = "used message"
_LONGEST_LIFETIME = timedelta(days=1)
# Members by which a signed message says that it is about a request.
_OTHER_PURPOSES = frozenset({"exercise", "reason", "request_id"})
_IDENTITIES = ("email", "phone_number")

AgentId = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{1,64}$")]


@router.post("/agent/{agent}")
def set_up(agent: AgentId, body: RawBody, service: CurrentService, _: Stranger) -> JSONResponse:
    """Give an agent a bearer token, for a message that it has signed."""
    settings = _settings(service)
    message = _message(settings, agent, body)
    _check_envelope(settings, agent, message, service)
    if _OTHER_PURPOSES & set(message):
        raise AccessDenied("this message was signed for a request, not for a token")
    with service.database.writing() as transaction:
        _use_once(transaction, agent, message)
        issued = service.accounts.issue_key(OPERATOR, name=agent, scopes=_SCOPES, days=_TOKEN_DAYS, provider=_PROVIDER)
    return JSONResponse({"agent-id": agent, "token": issued[1]})


@router.get("/agent/{agent}")
def information(agent: AgentId, actor: CurrentActor, service: CurrentService) -> dict[str, str]:
    """Say whether a token is still valid for an agent."""
    if _agent(service, actor) != agent:
        raise AccessDenied("this token is not that of the agent")
    return {}


@router.post("/data-rights-request")
@router.post("/data-rights-request/")
def exercise(
    request: Request, body: RawBody, actor: CurrentActor, service: CurrentService, rates: CurrentRates
) -> JSONResponse:
    """File a request for deletion, from a signed message."""
    agent, settings = _agent(service, actor), _settings(service)
    message = _message(settings, agent, body)
    _check_envelope(settings, agent, message, service)
    rates.check("create", actor.id)
    if message.get("exercise") != _DELETION:
        raise _refused(f"only the right {_DELETION!r} concerns a model")
    kinds = dict.fromkeys((*service.public_form.kinds, *_IDENTITIES))
    identities = {kind: message[kind] for kind in kinds if isinstance(message.get(kind), str)}
    callbacks: tuple[Subscription, ...] = ()
    if message.get("status_callback") is not None:
        check_url(str(message["status_callback"]), service.settings.callbacks)
        callbacks = (Subscription(str(message["status_callback"]), _secret(request), "drp"),)
    # The same message, sent twice, is one request.
    key = f"drp {message['issued-at']} {message['expires-at']}"
    new = NewRequest(identities, "agent", "drp", key.replace(" ", "_"), callbacks)
    return JSONResponse(drp_status(service.intake.create(actor, new).case.request))


@router.get("/data-rights-request/{name}")
def status(name: str, actor: CurrentActor, service: CurrentService) -> JSONResponse:
    """Return the status of an agent's own request; any other one is refused."""
    _agent(service, actor)
    try:
        return JSONResponse(drp_status(service.requests.read(actor, name).request))
    except KeyError:
        raise AccessDenied("this agent has no such request") from None


@router.delete("/data-rights-request/{name}")
def revoke(name: str, body: RawBody, actor: CurrentActor, service: CurrentService) -> JSONResponse:
    """Withdraw an agent's own request, by a signed message."""
    # The reason is the person's own words, which may be personal: it is not kept.
    agent, settings = _agent(service, actor), _settings(service)
    message = _message(settings, agent, body)
    _check_envelope(settings, agent, message, service)
    if "exercise" in message or message.get("request_id", name) != name:
        raise AccessDenied("this message was not signed to revoke this request")
    try:
        with service.database.writing() as transaction:
            _use_once(transaction, agent, message)
            return JSONResponse(drp_status(service.requests.cancel(actor, name).request))
    except KeyError:
        raise AccessDenied("this agent has no such request") from None


def _settings(service: Service) -> DrpSettings:
    if service.settings.drp is None:
        raise Problem(404, "not-found", "Not Found", "the Data Rights Protocol is not set up here")
    return service.settings.drp


def _agent(service: Service, actor: Actor) -> str:
    """Return the agent behind a token."""
    agents = _settings(service).agents
    provider = service.accounts.provider(actor.id)
    if provider != _PROVIDER or actor.name not in agents:
        raise AccessDenied("this is not the token of an authorized agent: set one up at /v1/agent/{agent-id}")
    return actor.name


def _message(settings: DrpSettings, agent: str, body: bytes) -> dict[str, Any]:
    """Return the content of a message, once its signature is found to be the agent's."""
    key = settings.agents.get(agent)
    try:
        content = base64.b64decode(body.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise _refused("expected base64 of a signature and a JSON message") from None
    signature, message = content[:_SIGNATURE_BYTES], content[_SIGNATURE_BYTES:]
    if key is None or not PublicKey(base64.b64decode(key)).signed(message, signature):
        raise AccessDenied("the signature is not that of this agent")
    try:
        values = json.loads(message)
    except (ValueError, RecursionError):
        raise _refused("expected JSON after the signature") from None
    if not isinstance(values, dict):
        raise _refused("expected a JSON object after the signature")
    return values


def _check_envelope(settings: DrpSettings, agent: str, message: dict[str, Any], service: Service) -> None:
    """Raise unless a message is by this agent, to this business, and valid now."""
    if message.get("agent-id") != agent:
        raise AccessDenied("the message names another agent")
    if message.get("business-id") != settings.business_id:
        raise AccessDenied("the message is for another business")
    now = service.database.now()
    try:
        issued, expires = (datetime.fromisoformat(str(message[name])) for name in ("issued-at", "expires-at"))
        valid, lifetime = issued <= now < expires, expires - issued
    except (KeyError, ValueError, TypeError):
        raise _refused("issued-at and expires-at must be times with a zone, in ISO 8601") from None
    if not valid:
        raise AccessDenied("the message is not valid now: see issued-at and expires-at")
    if lifetime > _LONGEST_LIFETIME:
        raise AccessDenied("a message is valid for a day at most: sign one that expires sooner")


def _use_once(transaction: Transaction, agent: str, message: dict[str, Any]) -> None:
    """Note the digest of a message until it expires; raise if it was used before, for whatever purpose."""
    content = json.dumps([_PROVIDER, agent, message], sort_keys=True).encode()
    digest = hashlib.sha256(content).hexdigest()
    if transaction.connection.execute(select(TOKENS.c.hash).where(TOKENS.c.hash == digest)).first() is not None:
        raise AccessDenied("this message was used before: sign a new one")
    expires = datetime.fromisoformat(message["expires-at"]).timestamp()
    row = {"hash": digest, "purpose": _USED, "request": "", "sealed": None, "expires_at": expires}
    transaction.connection.execute(insert(TOKENS), [row])


def _refused(words: str) -> Problem:
    # The protocol's own members beside those of RFC 9457.
    return Problem(400, "invalid", "Invalid message", words, more={"code": "400", "message": words})


def _secret(request: Request) -> str:
    """Return what signs callbacks to an agent: its own token, kept sealed until the last callback is sent."""
    return request.headers.get("authorization", "").partition(" ")[2]
