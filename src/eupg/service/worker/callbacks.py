"""Delivers messages: Standard Webhooks, with retries, without redirects, and never to a private address.

The address of a host is looked up once, checked, and connected to as it is. So a name that points to a public address
when it is checked and to a private one when it is called does not help anyone.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy import Row, select, update

from eupg.errors import ParameterError
from eupg.service.adapters.domain import Domain
from eupg.service.callback_address import check_url
from eupg.service.database import MESSAGES, SUBSCRIPTIONS
from eupg.service.service import Service
from eupg.service.worker.lease import Lease

_log = logging.getLogger("eupg.service.worker")
_PREFIX = "whsec_"
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 6 * 3600.0
_PER_PASS = 200
# The only range from which public addresses of IPv6 are given out, and the part of it that a gateway may translate to a
# private address of IPv4.
_PUBLIC, _TRANSLATED = ipaddress.IPv6Network("2000::/3"), ipaddress.IPv6Network("2002::/16")

Resolve = Callable[[str, int], list[str]]


def addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host."""
    return sorted({str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})


def is_public(text: str) -> bool:
    """Tell whether an address is one of the open internet, and cannot lead to a private one.

    Examples
    --------
    >>> [is_public(text) for text in ("93.184.216.34", "169.254.169.254", "::ffff:10.0.0.1", "2002:a00:1::1")]
    [True, False, False, False]
    """
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None and (address not in _PUBLIC or address in _TRANSLATED):
            return False
        address = address.ipv4_mapped or address
    return address.is_global and not address.is_multicast


def signature(secret: str, message: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message, as Standard Webhooks defines it.

    Examples
    --------
    >>> signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
    ...           b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    content = f"{message}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(_key(secret), content, hashlib.sha256).digest()).decode()


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        # A secret that is not in base64 is used as it is.
        return secret.encode()


@dataclass(frozen=True)
class Delivery:
    """Sends the messages that wait, each until it is accepted or has been tried often enough."""

    service: Service
    lease: Lease
    domain: Domain | None = None
    resolve: Resolve = addresses
    clock: Callable[[], float] = time.time

    def run(self) -> int:
        """Send what is due now; return how many messages were accepted."""
        due = (MESSAGES.c.state == "waiting") & (MESSAGES.c.next_at <= self.clock())
        query = select(MESSAGES, SUBSCRIPTIONS.c.secret, SUBSCRIPTIONS.c.format).join(
            SUBSCRIPTIONS,
            (SUBSCRIPTIONS.c.request == MESSAGES.c.request) & (SUBSCRIPTIONS.c.url == MESSAGES.c.url),
        )
        with self.service.database.reading() as snapshot:
            rows = snapshot.connection.execute(query.where(due).order_by(MESSAGES.c.next_at).limit(_PER_PASS)).all()
        accepted = 0
        for row in rows:
            problem = self._try(row)
            accepted += problem is None
            self._note(row.id, row.tries + 1, problem)
        self._forget()
        return accepted

    def _forget(self) -> None:
        """Delete what closed requests no longer need; writes only if there is something."""
        outbox = self.service.requests.outbox
        with self.service.database.reading() as snapshot:
            finished = outbox.finished(snapshot.connection)
        if finished:
            with self.lease.writing() as transaction:
                outbox.forget(transaction)

    def _try(self, row: Row[Any]) -> str | None:
        """Send a message; whatever goes wrong with it is its own failure, and the other messages are sent."""
        try:
            secret = self.service.seal.open(row.secret, about=f"subscription {row.request}")["secret"]
            body = row.body.encode()
            more = self.domain.headers(body) if row.format == "opendsr" and self.domain is not None else {}
            return self._send(row.url, secret, row.id, body, more)
        except Exception as error:
            return type(error).__name__

    def _send(self, url: str, secret: str, message: str, body: bytes, more: Mapping[str, str]) -> str | None:
        """Send a message; return what went wrong, or None. The receiver's own words are not kept."""
        settings = self.service.settings.callbacks
        try:
            check_url(url, settings)
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            address = self._address(str(parts.hostname), port)
        except ParameterError as error:
            return str(error)
        except OSError:
            return "the host is not known"
        now = int(self.clock())
        headers = {
            **more,
            "content-type": "application/json",
            "webhook-id": message,
            "webhook-timestamp": str(now),
            "webhook-signature": signature(secret, message, now, body),
            "host": parts.netloc,
        }
        where = f"[{address}]" if ":" in address else address
        target = httpx.URL(url).copy_with(host=where.strip("[]"), port=port)
        try:
            with httpx.Client(timeout=settings.timeout_s, follow_redirects=False, trust_env=False) as client:
                request = client.build_request("POST", target, content=body, headers=headers)
                # The certificate is that of the name, though the connection goes to its address.
                request.extensions["sni_hostname"] = parts.hostname
                with client.stream("POST", target, content=body, headers=headers, extensions=request.extensions) as r:
                    status = r.status_code
        except httpx.HTTPError as error:
            return type(error).__name__
        return None if 200 <= status < 300 else f"status {status}"

    def _address(self, host: str, port: int) -> str:
        """Return the address to connect to; every address of the host has to be public, unless that is not asked."""
        found = self.resolve(host, port)
        if not found:
            raise OSError("no address")
        allowed = self.service.settings.callbacks.allow_private_addresses
        if not allowed and not all(is_public(text.partition("%")[0]) for text in found):
            raise ParameterError("the host has a private address, and callbacks to those are not allowed")
        return found[0].partition("%")[0]

    def _note(self, message: str, tries: int, problem: str | None) -> None:
        """Note that a message was accepted, or when it is tried again: each time after three times as long."""
        given_up = tries >= self.service.settings.callbacks.attempts
        state = "sent" if problem is None else "given up" if given_up else "waiting"
        wait = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 3 ** (tries - 1))
        values = {"state": state, "tries": tries, "next_at": self.clock() + wait, "error": problem}
        with self.lease.writing() as transaction:
            transaction.connection.execute(update(MESSAGES).where(MESSAGES.c.id == message).values(**values))
        if problem is not None:
            _log.warning("a callback was not accepted", extra={"message_id": message, "tries": tries, "state": state})
