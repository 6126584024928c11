"""Limits on what is read from a caller, and headers on what is sent to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eupg.service.problems import Problem

# Nothing is loaded from elsewhere, no script or style is inline, and no other page may frame these.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


async def raw_body(request: Request) -> bytes:
    """Return a body as it was sent, for routes that check a signature over it."""
    return await request.body()


RawBody = Annotated[bytes, Depends(raw_body)]


class BodyLimit:
    """Refuses a body that is too large or nested too deeply, before anything parses it."""

    def __init__(self, app: ASGIApp, *, largest: int, deepest: int) -> None:
        self._app, self._largest, self._deepest = app, largest, deepest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body first; it is small by then."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self._largest:
                words = f"a body may have {self._largest:,} bytes: send less at a time"
                await Problem(413, "too-large", "Too large", words).response()(scope, receive, send)
                return
        if _is_json(scope["headers"]) and _depth(body) > self._deepest:
            words = f"JSON may be nested {self._deepest} deep: write it flatter"
            await Problem(422, "nested-too-deeply", "Nested too deeply", words).response()(scope, receive, send)
            return
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, replay, send)


class SecurityHeaders:
    """Sets the headers that keep browsers from doing what no page here needs."""

    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self._app = app
        fixed = {
            b"x-content-type-options": b"nosniff",
            b"x-frame-options": b"DENY",
            # Links of data subjects hold a token, which no other site may learn. Sent to nobody at all, browsers would
            # leave out the origin of forms, too, by which a form of another site is told apart.
            b"referrer-policy": b"same-origin",
            b"cross-origin-opener-policy": b"same-origin",
            b"cross-origin-resource-policy": b"same-origin",
            b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
        }
        if https:
            fixed[b"strict-transport-security"] = b"max-age=31536000; includeSubDomains"
        # A route may set these itself: a printed certificate has its own style, and files may be kept.
        self._defaults = {b"content-security-policy": _POLICY.encode(), b"cache-control": b"no-store"}
        self._fixed = list(fixed.items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the headers to every answer."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                added = [(name, value) for name, value in self._defaults.items() if name not in names]
                message["headers"] = [*message["headers"], *self._fixed, *added]
            await send(message)

        await self._app(scope, receive, with_headers)


def _is_json(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    # FastAPI reads a body without a content type as JSON, too.
    kind = next((value for name, value in headers if name == b"content-type"), b"application/json")
    return b"json" in kind.lower()


def _depth(body: bytes | bytearray) -> int:
    """Return how deeply JSON is nested, without parsing it."""
    deepest = depth = 0
    inside = escaped = False
    for byte in body:
        if inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                inside = False
        elif byte == 0x22:
            inside = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest
