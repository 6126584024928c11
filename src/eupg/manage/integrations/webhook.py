"""Erasure requests from other systems: one JSON message in, one JSON answer out.

Nothing here knows HTTP; a service passes the parsed body and sends back the answer. It must know who is calling.

``{"action": "erase", "identity": {"subject": …}, "reference": …}``, or ``{"record": …}`` as identity
    ``{"request": "r-…", "state": "accepted", "due": "2027-02-15", "reference": …}``; a rejected one has a ``reason``
``{"action": "status", "request": "r-…"}`` or ``"cancel"``; ``"reference"`` may replace ``"request"``
    the same
``{"action": "certificate", "request": "r-…"}``
    the certificate, as :meth:`~eupg.certify.certificate.Certificate.from_json` reads it
what Fides sends to a policy webhook: ``privacy_request_id``, ``callback_type``, ``policy_action``, ``identity`` …
    as for ``erase``, with ``"halt": false``: the erasure is noted here, and Fides need not wait for it
any message that cannot be acted on
    ``{"error": {"code": …, "message": …}}``

A message may arrive twice. A reference, the caller's own id of the request, stands for one request for good: the same
reference finds it and changes nothing. To ask again for the same person, use a new reference. Without a reference, a
repeated message is recognised only while the earlier request is open. A reference may be personal, so the ledger and
the answer hold a keyed digest of it. No answer repeats what was sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eupg.errors import LedgerBusy, ParameterError, PrivacyError, RequestRefused, UnknownRequest, WrongState
from eupg.manage.ledger.transaction import Snapshot
from eupg.manage.manager import Manager
from eupg.manage.requests.references import note_references, noted_references, reference_digest
from eupg.manage.requests.states import REPEATED, Request, State
from eupg.manage.storage.subjects import person_digest, record_digest
from eupg.validation import is_whole

Answer = dict[str, Any]

_REQUEST_ID = re.compile(r"r-[0-9a-f]{16}")
_LONGEST = 500
_UNITS = {"subject": "person", "record": "record"}
_FIELDS = {
    "erase": {"action", "identity", "reference"},
    **{action: {"action", "request", "reference"} for action in ("status", "cancel", "certificate")},
}
# Of the callbacks of Fides, only these two come after a request was approved.
_APPROVED = ("pre", "post")
_FIDES_ACTIONS = ("access", "erasure", "consent", "update")


@dataclass(frozen=True)
class _Message:
    """What a caller wants: whom to erase, or which request it is about."""

    action: str
    channel: str
    reference: str | None = None
    request: str | None = None
    unit: str = ""
    name: str = ""


def handle(manager: Manager, payload: Mapping[str, Any], *, person: str = "external_id") -> Answer:
    """Act on one message of another system, and return the answer.

    Parameters
    ----------
    manager
        The records and requests.
    payload
        The parsed message; see the module for its forms.
    person
        Which identity of a Fides message names people as the records do: ``external_id``, ``email``, ``phone_number``
        or one of your own.

    Returns
    -------
    dict
        Plain values. With ``error``, nothing was changed; its ``code`` is ``invalid``, ``unknown_request``,
        ``reference_reused``, ``refused``, ``not_done``, ``not_ready`` or ``busy``. After the last three the same
        message may succeed later. Faults of the workspace itself, such as a damaged ledger, are raised.

    Examples
    --------
    >>> from eupg import EUPG, sources
    >>> from eupg.learn import SklearnLearner
    >>> from eupg.protect import LocalDP
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> manager = Manager(folder.name, EUPG(LocalDP(1.0), SklearnLearner(), pretrain=1, finetune=1))
    >>> manager.train(sources.rand_hie().train)
    >>> message = {"action": "erase", "identity": {"subject": "125024"}, "reference": "ticket 7"}
    >>> answer = handle(manager, message)
    >>> answer["state"], handle(manager, message) == answer
    ('accepted', True)
    >>> manager.close()
    >>> folder.cleanup()
    """
    from_fides = isinstance(payload, Mapping) and "privacy_request_id" in payload
    try:
        message = _read_fides(payload, person) if from_fides else _read(payload)
    except ParameterError as error:
        return _error("invalid", str(error))
    answer = {"ignored": message} if isinstance(message, str) else _act(manager, message)
    return {"halt": False, **answer} if from_fides and "error" not in answer else answer


def _act(manager: Manager, message: _Message) -> Answer:
    """Act on a message; an error does not repeat any part of it."""
    try:
        return _ACTIONS[message.action](manager, message)
    except UnknownRequest:
        return _error("unknown_request", "there is no such request here: check the id, or send the erasure first")
    except (RequestRefused, PrivacyError) as error:
        return _error("refused", str(error))
    except WrongState:
        return _error("not_ready", "no model is trained here yet, so nothing is held about anyone: ask again later")
    except LedgerBusy:
        return _error("busy", "others are writing to the ledger: send the message again in a moment")


def _erase(manager: Manager, message: _Message) -> Answer:
    space, reference = manager.space, _reference(manager, message)
    about_person = message.unit == "person"
    # One transaction: of two deliveries at the same moment, the second finds what the first has noted.
    with space.ledger.transaction() as transaction:
        known = None if reference is None else _noted(transaction, reference)
        if known is not None:
            request = space.book.get(known)
            digest = (person_digest if about_person else record_digest)(space.key, message.name)
            if (request.unit, request.digest) != (message.unit, digest):
                return _error(
                    "reference_reused",
                    f"this reference stands for request {known}, about someone or something else: use a new one",
                )
            return _about(request, reference)
        request = manager.request_erasure(
            subject=message.name if about_person else None,
            record=None if about_person else message.name,
            channel=message.channel,
        )
        if reference is not None:
            note_references(transaction, {reference: request.id})
    return _about(request, reference)


def _status(manager: Manager, message: _Message) -> Answer:
    return _about(_find(manager, message), _reference(manager, message))


def _cancel(manager: Manager, message: _Message) -> Answer:
    with manager.space.ledger.transaction():
        request = _find(manager, message)
        if request.state is not State.CANCELLED:
            if any(entry.kind == REPEATED for entry in manager.space.book.history(request.id)):
                # The others who asked were promised an answer, and this caller cannot take that back.
                return _error("refused", f"request {request.id} was asked for more than once: cancel it by hand")
            request = manager.advance(request.id, State.CANCELLED)
    return _about(request, _reference(manager, message))


def _certificate(manager: Manager, message: _Message) -> Answer:
    request = _find(manager, message)
    if request.state not in (State.COMPLETED, State.CERTIFIED):
        return _error(
            "not_done", f"request {request.id} is {request.state}: a certificate states what was done; ask again later"
        )
    return manager.certify(request.id).to_json()


_ACTIONS: Mapping[str, Callable[[Manager, _Message], Answer]] = {
    "erase": _erase,
    "status": _status,
    "cancel": _cancel,
    "certificate": _certificate,
}


def _read_fides(payload: Mapping[str, Any], person: str) -> _Message | str:
    """Read what Fides sends to a policy webhook, or return why nothing is to be done."""
    reference = _text(payload["privacy_request_id"], "privacy_request_id")
    if payload.get("callback_type") not in ("pre_approval", *_APPROVED):
        raise ParameterError("callback_type must be 'pre_approval', 'pre' or 'post'")
    if payload.get("policy_action") not in _FIDES_ACTIONS:
        # Without it, a request for access could not be told from one for erasure.
        raise ParameterError(f"policy_action must be one of {', '.join(_FIDES_ACTIONS)}: update Fides if it sends none")
    if payload["callback_type"] not in _APPROVED:
        return "the request is not approved yet"
    if payload["policy_action"] != "erasure":
        return "only erasure concerns a model"
    identity = payload.get("identity")
    value = identity.get(person) if isinstance(identity, Mapping) else None
    if isinstance(value, Mapping):
        # Fides sends an identity of your own together with a label for people to read.
        value = value.get("value")
    if value is None:
        raise ParameterError(f"identity must hold {person!r}, by which people are named here: ask for it in Fides")
    return _Message("erase", "fides", reference, unit="person", name=_text(value, f"identity.{person}"))


def _read(payload: Mapping[str, Any]) -> _Message:
    if not isinstance(payload, Mapping):
        raise ParameterError("a message must be a JSON object")
    action = payload.get("action")
    if not isinstance(action, str) or action not in _FIELDS:
        raise ParameterError(f"action must be one of {', '.join(_FIELDS)}")
    if not _FIELDS[action].issuperset(payload):
        # A misspelled reference would be lost, and its second delivery would be a second request.
        raise ParameterError(f"a message to {action} holds {', '.join(sorted(_FIELDS[action]))} and nothing else")
    reference = None if payload.get("reference") is None else _text(payload["reference"], "reference")
    if action == "erase":
        identity = payload.get("identity")
        if not isinstance(identity, Mapping) or len(identity) != 1 or not _UNITS.keys() >= identity.keys():
            raise ParameterError('identity must be {"subject": …}, a person, or {"record": …}, one record')
        ((field, value),) = identity.items()
        return _Message("erase", "webhook", reference, unit=_UNITS[field], name=_text(value, f"identity.{field}"))
    request = payload.get("request")
    if (request is None) == (reference is None):
        raise ParameterError(f"a message to {action} must name either the request or your reference")
    if request is not None and (not isinstance(request, str) or not _REQUEST_ID.fullmatch(request)):
        raise ParameterError("request must be an id as it was given out, 'r-' and 16 digits 0-9 and a-f")
    return _Message(action, "webhook", reference, request)


def _text(value: Any, where: str) -> str:
    """Return an id as text, or say what is wrong with it without repeating it."""
    text = str(value) if is_whole(value) else value
    if not isinstance(text, str) or not text or len(text) > _LONGEST:
        raise ParameterError(f"{where} must be one text of 1 to {_LONGEST} characters, or a whole number")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"{where} holds half a character (a lone surrogate): repair the text first") from None
    return text


def _find(manager: Manager, message: _Message) -> Request:
    """Return the request that a message names, by its id or by the caller's reference."""
    name, reference = message.request, _reference(manager, message)
    if reference is not None:
        with manager.space.ledger.snapshot() as snapshot:
            name = _noted(snapshot, reference)
    if name is None:
        raise UnknownRequest("no request was noted for this reference")
    return manager.space.book.get(name)


def _reference(manager: Manager, message: _Message) -> str | None:
    """Return the keyed digest of the caller's reference."""
    return None if message.reference is None else reference_digest(manager.space.key, message.reference)


def _noted(snapshot: Snapshot, reference: str) -> str | None:
    """Return the id of the request that a reference stands for."""
    return noted_references(snapshot, [reference]).get(reference)


def _about(request: Request, reference: str | None) -> Answer:
    answer = {"request": request.id, "state": str(request.state), "due": request.due.isoformat()}
    if request.state is State.REJECTED:
        answer["reason"] = str(request.reason)
    return answer if reference is None else {**answer, "reference": reference}


def _error(code: str, message: str) -> Answer:
    return {"error": {"code": code, "message": message}}
