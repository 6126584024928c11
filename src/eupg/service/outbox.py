"""Messages about changes of a request, which wait here until the worker has delivered them.

A message is written in the transaction of the change that it tells about, so none is lost and none tells of a change
that did not happen. Its body names the request and its state, and nobody.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from eupg.manage.ledger.transaction import Transaction
from eupg.manage.requests.index import REQUESTS
from eupg.manage.requests.states import STEPS, Request
from eupg.service.adapters.states import OPENDSR, completion_time, drp_status
from eupg.service.database import CASES, MESSAGES, SUBSCRIPTIONS
from eupg.service.sealing import Seal

# A completed request is closed but still to be certified.
_FINAL = tuple(str(state) for state, following in STEPS.items() if not following)


@dataclass(frozen=True)
class Subscription:
    """Where to send messages about one request, signed with a secret that the receiver knows.

    ``format`` is ``standard``, ``drp`` or ``opendsr``: what the body says. ``reference`` is the receiver's own name of
    the request, where its format has one.
    """

    url: str
    secret: str = field(repr=False, default="")
    format: str = "standard"
    reference: str | None = None


@dataclass(frozen=True)
class Outbox:
    """Notes who wants to be told, and what they are to be told."""

    seal: Seal

    def subscribe(self, transaction: Transaction, request: str, subscriptions: Iterable[Subscription]) -> None:
        """Note who wants to be told about a request."""
        connection = transaction.connection
        for subscription in subscriptions:
            same = (SUBSCRIPTIONS.c.request == request) & (SUBSCRIPTIONS.c.url == subscription.url)
            connection.execute(delete(SUBSCRIPTIONS).where(same))
            row = {
                "request": request,
                "url": subscription.url,
                "format": subscription.format,
                "reference": subscription.reference,
            }
            sealed = self.seal.seal({"secret": subscription.secret}, about=f"subscription {request}")
            connection.execute(insert(SUBSCRIPTIONS), [row | {"secret": sealed}])

    def tell(self, transaction: Transaction, requests: Iterable[Request]) -> None:
        """Put a message about the present state of each request into the outbox of everyone who wants it."""
        now = {request.id: request for request in requests}
        names, connection = list(now), transaction.connection
        if not names:
            return
        query = select(SUBSCRIPTIONS, CASES.c.owner).join(CASES, CASES.c.request == SUBSCRIPTIONS.c.request)
        rows = connection.execute(query.where(SUBSCRIPTIONS.c.request.in_(names))).all()
        at = transaction.now
        messages = [
            {
                "id": f"msg_{secrets.token_hex(12)}",
                "request": row.request,
                "url": row.url,
                "body": _body(now[row.request], at.isoformat(timespec="seconds"), row),
                "state": "waiting",
                "tries": 0,
                "next_at": at.timestamp(),
            }
            for row in rows
        ]
        if messages:
            connection.execute(insert(MESSAGES), messages)

    def finished(self, connection: Connection) -> list[str]:
        """Return the requests that will not change any more and whose messages were all sent or given up."""
        waiting = select(MESSAGES.c.id).where(
            MESSAGES.c.request == SUBSCRIPTIONS.c.request, MESSAGES.c.state == "waiting"
        )
        query = select(SUBSCRIPTIONS.c.request).join(REQUESTS, REQUESTS.c.id == SUBSCRIPTIONS.c.request).distinct()
        rows = connection.execute(query.where(REQUESTS.c.state.in_(_FINAL), ~waiting.exists()))
        return [row.request for row in rows]

    def forget(self, transaction: Transaction) -> None:
        """Delete addresses, secrets and messages that are needed no more."""
        names = self.finished(transaction.connection)
        for table in (MESSAGES, SUBSCRIPTIONS):
            transaction.connection.execute(delete(table).where(table.c.request.in_(names)))


def _body(request: Request, at: str, subscription: Row[Any]) -> str:
    """Return a message in the format that its receiver asked for."""
    if subscription.format == "drp":
        return json.dumps(drp_status(request), separators=(",", ":"))
    if subscription.format == "opendsr":
        values = {
            "controller_id": subscription.owner,
            "expected_completion_time": completion_time(request),
            "status_callback_url": subscription.url,
            "subject_request_id": subscription.reference,
            "request_status": OPENDSR[request.state],
        }
        return json.dumps(values, separators=(",", ":"))
    data = {"request": request.id, "state": str(request.state), "due": request.due.isoformat()}
    return json.dumps({"type": f"request.{request.state}", "timestamp": at, "data": data}, separators=(",", ":"))
