"""One entry of the ledger, and the digest that ties it to the entry before.

The digest is SHA-256 over canonical JSON: keys sorted, no spaces, everything outside ASCII escaped. So anyone can
compute it again from the five values of an entry, with no more than a JSON library.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from eupg.errors import ParameterError

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

_KIND = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*")
_DEEPEST = 20
# Beyond this, other programs that read JSON would round the number, and compute another digest.
_LARGEST = 2**53


@dataclass(frozen=True)
class Head:
    """The end of a ledger: whoever keeps it can tell later whether entries were cut off.

    Parameters
    ----------
    number
        How many entries there are; 0 in a new ledger.
    digest
        The digest of the last entry; in a new ledger, what its first entry will be tied to.
    """

    number: int
    digest: str


@dataclass(frozen=True)
class Entry:
    """Something that happened, tied to everything that happened before it.

    Parameters
    ----------
    number
        Its place: 1, 2, 3 … without gaps.
    at
        When it was written, in UTC, such as ``2026-01-31T09:30:00.000000+00:00``.
    kind
        What happened, such as ``request.received``.
    body
        The particulars, as plain JSON.
    previous
        The digest of the entry before.
    digest
        SHA-256 over all of the above.
    """

    number: int
    at: str
    kind: str
    body: Mapping[str, Json]
    previous: str
    digest: str


def canonical(body: Mapping[str, Json]) -> str:
    r"""Write a body as the one JSON text that all equal bodies share.

    Raises
    ------
    ParameterError
        If the body is not a mapping of plain JSON values: text, whole numbers up to 2**53, finite numbers, true,
        false, null, lists, and mappings with text as keys.

    Examples
    --------
    >>> canonical({"b": [1, 2.5], "a": "ü"})
    '{"a":"\\u00fc","b":[1,2.5]}'
    """
    if not isinstance(body, Mapping):
        raise ParameterError(f"an event's body must be a mapping, got {type(body).__name__}")
    plain = {key: body[key] for key in body}
    _check(plain, "body", 0)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_kind(kind: str) -> str:
    """Return the kind if it is words of small letters joined by points, such as ``request.received``."""
    if not isinstance(kind, str) or len(kind) > 100 or not _KIND.fullmatch(kind):
        raise ParameterError(
            f"an event's kind is small-letter words joined by points ('request.received'), got {kind!r}"
        )
    return str(kind)


def digest_of(number: int, at: str, kind: str, body: str, previous: str) -> str:
    """Return the digest of an entry whose body is given as canonical JSON.

    Examples
    --------
    >>> digest_of(1, "2026-01-31T09:30:00.000000+00:00", "note", '{"a":1}', "0" * 64)[:16]
    'cc28952a211a6b10'
    """
    # The text around the body is escaped and of fixed shape, so no two entries give the same bytes.
    whole = f"[{number:d},{json.dumps(at)},{json.dumps(kind)},{body},{json.dumps(previous)}]"
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def genesis(ledger: str) -> str:
    """Return what the first entry of the ledger with this id is tied to, so that entries cannot change ledgers."""
    return hashlib.sha256(f"eupg-ledger-1:{ledger}".encode("utf-8", "surrogatepass")).hexdigest()


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
