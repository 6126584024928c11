"""Requests by data subjects themselves: a form, a confirmation by e-mail, and a link to the status.

A submission waits, sealed, until the person opens the link in the e-mail; only then is a request filed. Nothing that is
answered here depends on whether the person is known. Tokens are stored as hashes.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from eupg.errors import MailFailed, ParameterError, UnknownRequest, WrongState
from eupg.service.access import Actor, Permission
from eupg.service.database import CASES, TOKENS, Act, ServiceDatabase
from eupg.service.mail import Mailer
from eupg.service.requests import Case, NewRequest, Requests
from eupg.service.sealing import Seal

_CONFIRM, _STATUS = "confirm", "status"
_CONFIRM_S, _STATUS_S = 2 * 86_400, 400 * 86_400
_MAIL = "mail address"
# One @ and no spaces: whether an address exists, the e-mail tells.
_ADDRESS = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+")
_PERMISSIONS = frozenset({Permission.CREATE, Permission.READ_OWN})


@dataclass(frozen=True)
class Confirmed:
    """A request that was filed by its data subject, and the token of the link to its status."""

    case: Case
    status_token: str


@dataclass(frozen=True)
class PublicForm:
    """Takes submissions, confirms them, and shows their status."""

    database: ServiceDatabase
    seal: Seal
    requests: Requests
    mailer: Mailer | None
    public_url: str
    kinds: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Whether anyone may file a request here."""
        return self.mailer is not None

    def submit(self, identities: Mapping[str, str], *, email: str) -> None:
        """Take a submission, and send a link that confirms it; the answer is the same for everybody."""
        if self.mailer is None:
            raise WrongState("the public form is closed: write to the organisation instead")
        # Checked now, while the person can correct it.
        NewRequest(identities, source="form")
        if len(email) > 254 or not _ADDRESS.fullmatch(email) or not email.isprintable():
            raise ParameterError("expected an e-mail address such as name@example.org")
        if _MAIL in identities:
            raise ParameterError(f"the kind of an identifier cannot be {_MAIL!r}")
        token = secrets.token_urlsafe(32)
        with self.database.writing() as transaction:
            digest = _hash(token)
            row = {
                "hash": digest,
                "purpose": _CONFIRM,
                "request": "",
                "sealed": self.seal.seal({**identities, _MAIL: email}, about=digest),
                "expires_at": transaction.now.timestamp() + _CONFIRM_S,
            }
            transaction.connection.execute(insert(TOKENS), [row])
        link = f"{self.public_url}/erasure/confirm/{token}"
        try:
            self.mailer.send(
                email,
                "Please confirm your request",
                "Somebody, probably you, asked us to erase your data from our machine-learning models.\n\n"
                f"To confirm, open this link within two days:\n{link}\n\n"
                "If it was not you, do nothing: the request is then deleted.\n",
            )
        except MailFailed:
            # Nobody has the link, so nothing of the submission is kept; the person is told to send it again.
            with self.database.writing() as transaction:
                transaction.connection.execute(delete(TOKENS).where(TOKENS.c.hash == digest))
            raise

    def confirm(self, token: str) -> Confirmed:
        """File the request of a submission; its link works once."""
        status_token = secrets.token_urlsafe(32)
        with self.database.writing() as transaction:
            row = self._row(transaction.connection, token, _CONFIRM)
            values = self.seal.open(row.sealed, about=row.hash)
            email = values.pop(_MAIL)
            actor = _person(f"p-{secrets.token_hex(8)}")
            case = self.requests.create(actor, NewRequest(values, channel="web form", source="form")).case
            self.database.note(transaction, [Act("email-confirmed", actor, case.request.id)])
            transaction.connection.execute(delete(TOKENS).where(TOKENS.c.hash == row.hash))
            status = {"hash": _hash(status_token), "purpose": _STATUS, "request": case.request.id, "sealed": None}
            expires = transaction.now.timestamp() + _STATUS_S
            transaction.connection.execute(insert(TOKENS), [status | {"expires_at": expires}])
        if self.mailer is not None:
            # The request is filed, and the person is at the page with the link: without the e-mail they can keep that.
            with suppress(MailFailed):
                self.mailer.send(
                    email,
                    "Your request was received",
                    f"Your request {case.request.id} was received and is to be answered by {case.request.due}.\n\n"
                    f"See what became of it, or withdraw it:\n{self.public_url}/erasure/status/{status_token}\n\n"
                    "Keep this link to yourself: whoever has it can withdraw your request.\n",
                )
        return Confirmed(case, status_token)

    def check(self, token: str) -> None:
        """Raise unless a confirmation waits for this token; changes nothing, for a page that asks first."""
        with self.database.reading() as snapshot:
            self._row(snapshot.connection, token, _CONFIRM)

    def person(self, token: str) -> tuple[Actor, str]:
        """Return the data subject behind a status link, as an actor who owns the request, and the request's id."""
        with self.database.reading() as snapshot:
            row = self._row(snapshot.connection, token, _STATUS)
            owner = snapshot.connection.execute(
                select(CASES.c.owner).where(CASES.c.request == row.request)
            ).scalar_one()
        return _person(str(owner)), str(row.request)

    def _row(self, connection: Connection, token: str, purpose: str) -> Row[Any]:
        row = connection.execute(
            select(TOKENS).where(TOKENS.c.hash == _hash(token), TOKENS.c.purpose == purpose)
        ).first()
        if row is None or row.expires_at < self.database.now().timestamp():
            raise UnknownRequest("this link is unknown, was used before, or has expired: file the request again")
        return row

    def drop_expired(self) -> None:
        """Delete links that have expired, with the submissions that nobody confirmed; for the worker, in every pass."""
        expired = TOKENS.c.expires_at < self.database.now().timestamp()
        with self.database.reading() as snapshot:
            found = snapshot.connection.execute(select(TOKENS.c.hash).where(expired).limit(1)).first()
        if found is not None:
            with self.database.writing() as transaction:
                transaction.connection.execute(delete(TOKENS).where(expired))


def _person(account: str) -> Actor:
    return Actor(account, "the person concerned", _PERMISSIONS)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
