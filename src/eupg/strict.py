"""Plain JSON values, checked field by field against declared types.

Certificates and guarantees are read by strangers. A field that is missing, unknown or of another type is refused with
its place, so that nothing can hide in a file between what is signed and what is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from eupg.errors import ParameterError

# Beyond this, a double no longer tells neighbouring integers apart, and two programs may read two numbers.
SAFE_INTEGER = 2**53 - 1
_DEEPEST = 32
# Working out a class's types takes longer than checking a value against them.
_KINDS: dict[Any, dict[str, Any]] = {}


@dataclass(frozen=True)
class Form:
    """What a text must look like, and how to say so; for ``Annotated[str, Form(…)]``."""

    pattern: str
    expected: str


@dataclass(frozen=True)
class Reader:
    """The function that reads a value from plain JSON; for ``Annotated[SomeClass, Reader(…)]``."""

    read: Callable[..., Any]


def check_keys(values: object, expected: set[str], where: str, *, optional: Set[str] = frozenset()) -> None:
    """Refuse anything but a mapping with exactly these keys, of which some may be absent."""
    if not isinstance(values, Mapping):
        raise ParameterError(f"{where}: expected an object, found {type(values).__name__}")
    unknown, absent = sorted(map(str, values.keys() - expected)), sorted(expected - optional - values.keys())
    if unknown:
        raise ParameterError(
            f"{where}: expected no field but {', '.join(sorted(expected))}; found {', '.join(unknown)}"
        )
    if absent:
        raise ParameterError(f"{where}: expected the field {', '.join(absent)}, found none")


def field_kinds(part: Any) -> dict[str, Any]:
    """Return the declared type of each field of a dataclass."""
    if part not in _KINDS:
        hints = get_type_hints(part, include_extras=True)
        _KINDS[part] = {f.name: hints[f.name] for f in fields(part)}
    return _KINDS[part]


def optional_fields(part: Any) -> Set[str]:
    """Return the fields of a dataclass that may be absent: those with the default None."""
    return {f.name for f in fields(part) if f.default is None}


def checked(value: Any, kind: Any, where: str) -> Any:
    """Return the value as its declared type has it, or say where something else stands."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(value, arguments[0], arguments[1], where)
    if origin in (Union, UnionType):
        chosen = next(a for a in arguments if a is not NoneType)
        return None if value is None else checked(value, chosen, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ParameterError(f"{where}: expected a list, found {type(value).__name__}")
        return tuple(checked(v, arguments[0], f"{where}[{i}]") for i, v in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise ParameterError(f"{where}: expected an object, found {type(value).__name__}")
        items = plain(value, where).items()
        return {k: v if arguments[1] is Any else checked(v, arguments[1], f"{where}.{k}") for k, v in items}
    return _simple(value, kind, where)


def plain(value: Any, where: str = "value") -> Any:
    """Return a deep copy of the value as dicts and lists, or say where something is not plain JSON."""
    return _plain(value, where, 0)


def _annotated(value: Any, kind: Any, note: Form | Reader, where: str) -> Any:
    if isinstance(note, Reader):
        # An object that was built elsewhere is read as strictly as a file.
        return note.read(value.to_json() if isinstance(value, kind) else value, where=where)
    return _formed(checked(value, kind, where), note, where)


def _simple(value: Any, kind: type, where: str) -> Any:
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            raise ParameterError(f"{where}: expected one of {', '.join(map(str, kind))}; found {value!r}")
        return kind(value)
    read = getattr(kind, "from_json", None)
    if read is not None:
        return value if isinstance(value, kind) else read(value, where=where)
    allowed = (int, float) if kind is float else kind
    # True is an int to Python and not to a reader.
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise ParameterError(f"{where}: expected {kind.__name__}, found {type(value).__name__}")
    return plain(value, where)


def _formed(text: str, form: Form, where: str) -> str:
    # The text itself is not repeated: it may be the personal value that has no place here.
    if not re.fullmatch(form.pattern, text):
        raise ParameterError(
            f"{where}: expected {form.expected}; found a text of {len(text)} characters in another form"
        )
    return text


def _plain(value: Any, where: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ParameterError(f"{where}: expected at most {_DEEPEST} levels of nesting, found more")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, int):
        if abs(value) > SAFE_INTEGER:
            raise ParameterError(
                f"{where}: expected an integer of at most ±(2^53−1), found a larger one: pass it as text"
            )
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ParameterError(f"{where}: expected a finite number, found {value}: leave it out or use None")
        return float(value)
    if isinstance(value, Mapping):
        return {_key(k, where): _plain(v, f"{where}.{k}", depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
    raise ParameterError(
        f"{where}: expected text, a number, true, false, None, a list or a mapping, found {type(value).__name__}"
    )


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise ParameterError(f"{where}: expected text as keys, found {key!r}")
    return _text(key, where)


def _text(text: str, where: str) -> str:
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise ParameterError(f"{where}: expected Unicode text, found half of a surrogate pair")
    return str(text)
