"""Every error as a problem in the sense of RFC 9457: a type, a title, a status and a sentence."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException

from eupg.errors import (
    AccessDenied,
    CertificateInvalid,
    DataError,
    EupgError,
    LedgerUnavailable,
    MailFailed,
    ParameterError,
    RequestRefused,
    SignInFailed,
    UnknownModel,
    UnknownRequest,
    WrongState,
)

MEDIA_TYPE = "application/problem+json"
_PREFIX = "urn:eupg:problem:"
_log = logging.getLogger("eupg.service")


# Not frozen: Python notes the traceback in an exception.
@dataclass(eq=False)
class Problem(Exception):
    """An answer that says what is wrong."""

    status: int
    name: str
    title: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the problem as JSON."""
        standard = {"type": _PREFIX + self.name, "title": self.title, "status": self.status, "detail": self.detail}
        return {**standard, **self.more}

    def response(self) -> JSONResponse:
        """Return the problem as an answer."""
        return JSONResponse(self.body(), self.status, headers=dict(self.headers), media_type=MEDIA_TYPE)


class ProblemModel(BaseModel):
    """A problem, as the description of the API shows it."""

    model_config = ConfigDict(
        title="Problem",
        json_schema_extra={
            "example": {
                "type": "urn:eupg:problem:refused",
                "title": "Refused",
                "status": 409,
                "detail": "request r-0123456789abcdef is 'rejected' and cannot become 'accepted'",
            }
        },
    )

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the description of the problems that a route may answer with, besides those that each may."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        for status in statuses
    }


def unauthenticated() -> Problem:
    """Return the answer to a caller who is not known."""
    return Problem(
        401,
        "unauthenticated",
        "Not signed in",
        "send an API key as 'Authorization: Bearer eupg_…', or sign in",
        {"WWW-Authenticate": 'Bearer realm="eupg"'},
    )


# The most specific first.
_KNOWN: tuple[tuple[type[EupgError], int, str, str], ...] = (
    (AccessDenied, 403, "forbidden", "Not allowed"),
    (SignInFailed, 502, "sign-in-failed", "Sign-in failed"),
    (UnknownRequest, 404, "unknown-request", "No such request"),
    (UnknownModel, 404, "unknown-model", "No such model"),
    (RequestRefused, 409, "refused", "Refused"),
    (WrongState, 409, "not-ready", "Not possible yet"),
    (CertificateInvalid, 422, "certificate-invalid", "Not a valid certificate"),
    (ParameterError, 422, "invalid", "Invalid value"),
    (DataError, 422, "invalid", "Invalid value"),
)


def problem_of(error: Exception) -> Problem:
    """Return the problem that an error stands for; what nobody expected says nothing about its cause."""
    if isinstance(error, Problem):
        return error
    for kind, status, name, title in _KNOWN:
        if isinstance(error, kind):
            return Problem(status, name, title, str(error))
    if isinstance(error, LedgerUnavailable | MailFailed):
        _log.error("database or mail server is not available", extra={"error": type(error).__name__})
        words = "the service cannot do this right now: send the same request again in a moment"
        return Problem(503, "unavailable", "Not available", words, {"Retry-After": "2"})
    # The text of an unexpected error may hold a personal value: only its type is noted.
    _log.error("unexpected error", extra={"error": type(error).__name__, "where": _where(error)})
    return Problem(500, "internal", "Internal error", "something went wrong here: the operator's log has the details")


def install(app: FastAPI) -> None:
    """Answer every error with a problem."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    for kind in (Problem, EupgError, Exception):
        app.add_exception_handler(kind, _any)


async def _any(_: Request, error: Exception) -> JSONResponse:
    return problem_of(error).response()


async def _http(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    name = phrase.lower().replace(" ", "-")
    headers = dict(error.headers or {})
    detail = str(error.detail) if error.status_code < 500 else "something went wrong here"
    return Problem(error.status_code, name, phrase, detail, headers).response()


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Without the value that was sent: it may name a person.
    errors = [{"where": list(map(str, e["loc"])), "problem": str(e["msg"])} for e in error.errors()]
    detail = "; ".join(f"{'.'.join(e['where'])}: {e['problem']}" for e in errors[:5])
    return Problem(422, "invalid", "Invalid value", detail, more={"errors": errors}).response()


def _where(error: Exception) -> str:
    """Return file and line of the error, without its text."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return "" if frame is None else f"{frame.tb_frame.f_code.co_filename.rpartition('/')[2]}:{frame.tb_lineno}"
