"""One entry of the ledger, and the digest that ties it to the entry before.

The digest is SHA-256 over canonical JSON: keys sorted, no spaces, everything outside ASCII escaped. Anyone can compute
it again from the five values of an entry with a JSON library.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii
from typing import TypeAlias

from eupg.errors import ParameterError

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

_KIND = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*")
_DEEPEST = 20
# Beyond this, other programs that read JSON would round the number, and compute another digest.
_LARGEST = 2**53


@dataclass(frozen=True)
class Head:
    """The end of a ledger, by its last entry; a copy of it shows later whether entries were cut off.

    In a new ledger the number is 0, and the digest is the one that the first entry will be tied to.
    """

    number: int
    digest: str


@dataclass(frozen=True)
class Entry:
    """One event, tied to all events before it.

    Entries are numbered 1, 2, 3 … without gaps. ``at`` is the time of writing in UTC, ``kind`` says what happened, such
    as ``request.received``, and ``body`` holds the details as plain JSON. ``previous`` is the digest of the entry
    before, and ``digest`` the SHA-256 over all of the above.
    """

    number: int
    at: str
    kind: str
    body: Mapping[str, Json]
    previous: str
    digest: str


def canonical(body: Mapping[str, Json]) -> str:
    r"""Return a body as the one JSON text that all equal bodies share.

    A body is a mapping of plain JSON values: text, whole numbers up to 2**53, finite numbers, true, false, null, lists,
    and mappings with text as keys. Anything else is refused.

    Examples
    --------
    >>> canonical({"b": [1, 2.5], "a": "ü"})
    '{"a":"\\u00fc","b":[1,2.5]}'
    """
    if not isinstance(body, Mapping):
        raise ParameterError(f"an event's body must be a mapping, got {type(body).__name__}")
    plain = {key: body[key] for key in body}
    if not _is_plain(plain, 0):
        # Slower, and says what is wrong where.
        _check(plain, "body", 0)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_kind(kind: str) -> str:
    """Return the kind if it consists of lower-case words joined by points, such as ``request.received``."""
    if not isinstance(kind, str) or len(kind) > 100 or not _KIND.fullmatch(kind):
        raise ParameterError(
            f"an event's kind consists of lower-case words joined by points ('request.received'), got {kind!r}"
        )
    return str(kind)


def digest_of(number: int, at: str, kind: str, body: str, previous: str) -> str:
    """Return the digest of an entry whose body is given as canonical JSON.

    Examples
    --------
    >>> digest_of(1, "2026-01-31T09:30:00.000000+00:00", "note", '{"a":1}', "0" * 64)[:16]
    'cc28952a211a6b10'
    """
    # The text around the body is escaped and of fixed form, so no two entries give the same bytes.
    at, kind, previous = map(encode_basestring_ascii, (at, kind, previous))
    whole = f"[{number:d},{at},{kind},{body},{previous}]"
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def genesis(ledger: str) -> str:
    """Return the digest that the first entry of this ledger is tied to, so that entries cannot move to another one."""
    return hashlib.sha256(f"eupg-ledger-1:{ledger}".encode("utf-8", "surrogatepass")).hexdigest()


def _is_plain(value: object, depth: int) -> bool:
    """Return whether a value is plain JSON beyond doubt."""
    kind = type(value)
    if kind is str:
        return value.isascii()  # type: ignore[attr-defined, no-any-return]
    if kind is int:
        return -_LARGEST <= value <= _LARGEST  # type: ignore[operator]
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]
    if kind is dict and depth < _DEEPEST:
        return all(
            type(key) is str and key.isascii() and _is_plain(inner, depth + 1)
            for key, inner in value.items()  # type: ignore[attr-defined]
        )
    if kind is list and depth < _DEEPEST:
        return all(_is_plain(inner, depth + 1) for inner in value)  # type: ignore[attr-defined]
    return value is None or kind is bool


def _check(value: object, where: str, depth: int) -> None:
    if depth > _DEEPEST:
        raise ParameterError(f"{where} is nested more than {_DEEPEST} deep: write it flatter")
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_text(key, f"a key of {where}")
            _check(inner, f"{where}.{key}", depth + 1)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            _check(inner, f"{where}[{i}]", depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ParameterError(f"{where} is {value!r}, which JSON cannot hold: give a finite number or None")
    elif isinstance(value, int):
        if abs(value) > _LARGEST:
            raise ParameterError(f"{where} is beyond 2**53, which JSON readers round: give it as text")
    elif value is not None:
        _check_text(value, where)


def _check_text(value: object, where: str) -> None:
    if not isinstance(value, str):
        kinds = "text" if where.startswith("a key") else "text, a number, true, false, None, a list or a dict"
        raise ParameterError(f"{where} must be {kinds}, got {type(value).__name__}: convert it before it is noted")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ParameterError(f"{where} holds half a character (a lone surrogate): repair the text first") from None
