"""Strict reading of JSON: plain values, and pydantic's refusals in this library's words.

Certificates and guarantees are read by strangers. A field that is missing, unknown or of another type is refused with
its place, so that nothing can hide in a file between what is signed and what is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from eupg.errors import EupgError, ParameterError

T = TypeVar("T")
# Beyond this, a double no longer tells neighbouring integers apart, and two programs may read two numbers.
SAFE_INTEGER = 2**53 - 1
_DEEPEST = 32


def plain(value: Any, where: str = "value", *, depth: int = 0) -> Any:
    """Return a deep copy of the value as dicts and lists, or say where something is not plain JSON."""
    if depth > _DEEPEST:
        raise ParameterError(f"{where}: expected at most {_DEEPEST} levels of nesting, found more")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, int):
        if abs(value) > SAFE_INTEGER:
            raise ParameterError(f"{where}: expected an integer within ±(2^53−1), found a larger one: pass it as text")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ParameterError(f"{where}: expected a finite number, found {value}: leave it out or use None")
        return float(value)
    if isinstance(value, Mapping):
        return {_key(key, where): plain(inner, f"{where}.{key}", depth=depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, f"{where}[{i}]", depth=depth + 1) for i, inner in enumerate(value)]
    raise ParameterError(
        f"{where}: expected text, a number, true, false, None, a list or a mapping, found {type(value).__name__}"
    )


def read(kind: type[T], values: Any, where: str) -> T:
    """Build a dataclass from JSON values, or say where they do not fit its fields."""
    try:
        built: T = _adapter(cast("Any", kind)).validate_json(json.dumps(plain(values, where)))
    except ValidationError as error:
        raise refusal(error, where) from None
    return built


def refusal(error: ValidationError, where: str) -> EupgError:
    """Say where a value was refused and what was expected; the value itself may be personal and is not repeated."""
    first = error.errors(include_url=False)[0]
    place = where + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, EupgError):
        # What was read with an empty place says where it stands in the value at this one.
        return type(cause)(f"{place}{cause}" if str(cause).startswith((".", "[", ":")) else f"{place}: {cause}")
    if first["type"] == "missing":
        return ParameterError(f"{place}: expected this field, found none")
    if first["type"] == "unexpected_keyword_argument":
        return ParameterError(f"{place}: expected no such field, found one")
    expected = first["msg"].replace("Input should be", "expected")
    return ParameterError(f"{place}: {expected}, found {type(first['input']).__name__}")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise ParameterError(f"{where}: expected text as keys, found {type(key).__name__}")
    return _text(key, where)


def _text(text: str, where: str) -> str:
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ParameterError(f"{where}: expected Unicode text, found half of a surrogate pair")
    return str(text)
