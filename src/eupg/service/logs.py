"""Structured logs: one JSON object per line, with ids, counts and times, and never a personal value.

A call is logged by the function that answered it, not by its address: addresses hold tokens.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eupg.service.metrics import CALL_SECONDS, CALLS_TOTAL

_log = logging.getLogger("eupg.service")
_FIELDS = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "color_message"}
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON; of an exception only the type, since its text may be personal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        values: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        values |= {name: value for name, value in vars(record).items() if name not in _FIELDS}
        if record.exc_info and record.exc_info[0] is not None:
            values["error"] = record.exc_info[0].__name__
        return json.dumps(values, default=str)


def configure(*, level: str = "INFO") -> None:
    """Send the logs of this program to standard error, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("eupg", "uvicorn"):
        logging.getLogger(name).setLevel(level)
    # Uvicorn logs addresses.
    logging.getLogger("uvicorn.access").handlers.clear()
    logging.getLogger("uvicorn.access").propagate = False
    # The HTTP client logs addresses, too.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _route(scope: Scope) -> str:
    """Return the function that answered, such as ``api.requests.read``; never the address, which may hold a token."""
    endpoint = scope.get("endpoint")
    module = getattr(endpoint, "__module__", "")
    return f"{module.removeprefix('eupg.service.')}.{getattr(endpoint, '__name__', '')}" if module else "none"


class AccessLog:
    """Logs and counts every call."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, then note it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            took = time.perf_counter() - began
            route = _route(scope)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            CALLS_TOTAL.labels(method, route, str(status)).inc()
            CALL_SECONDS.labels(route).observe(took)
            actor = scope.get("state", {}).get("actor")
            values = {"method": method, "route": route, "status": status, "ms": round(1000 * took, 1), "actor": actor}
            _log.info("call", extra=values)
