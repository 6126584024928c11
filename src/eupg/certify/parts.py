"""Pieces of a certificate that are checked field by field, by their declared types, and read back strictly.

A certificate is read by strangers. A field that is missing, unknown or of another kind is refused with its place, so
that nothing can hide in a file between what is signed and what is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, fields
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin, get_type_hints

from eupg.certify.canonical import plain
from eupg.errors import ParameterError


@dataclass(frozen=True)
class Form:
    """What a text must look like, and how to say so."""

    pattern: str
    expected: str


_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|\+00:00)"
Text = Annotated[str, Form(r"(?s:.+)", "some text")]
Digest = Annotated[str, Form(r"[0-9a-f]{64}", "a SHA-256 digest, 64 hexadecimal digits")]
KeyId = Annotated[str, Form(r"[0-9a-f]{16}", "a key's id, 16 hexadecimal digits")]
Signature = Annotated[str, Form(r"[0-9a-f]{128}", "an Ed25519 signature, 128 hexadecimal digits")]
KeyedDigest = Annotated[str, Form(r"[0-9a-f]{32,64}", "a keyed digest, 32 to 64 hexadecimal digits; never an id")]
RequestId = Annotated[str, Form(r"r-[0-9a-f]{16,64}", "a random request id, r- and 16 to 64 hexadecimal digits")]
Moment = Annotated[str, Form(_TIME, "a moment in UTC such as 2025-01-31T09:30:00Z")]
Day = Annotated[str, Form(rf"\d{{4}}-\d{{2}}-\d{{2}}|{_TIME}", "a day such as 2025-01-31, or a moment in UTC")]


# Working out a class's types takes longer than checking a value against them.
_KINDS: dict[Any, dict[str, Any]] = {}


class Part:
    """A piece of a certificate: a frozen dataclass whose fields are checked when it is built.

    A field with the default None is one that earlier certificates do not have: it is left out where it is None.
    """

    def __post_init__(self) -> None:
        for name, kind in _kinds(type(self)).items():
            object.__setattr__(self, name, _checked(getattr(self, name), kind, f"{type(self).__name__}.{name}"))

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_json` reads back."""
        absent = {name for name in _optional(type(self)) if getattr(self, name) is None}
        return {name: _written(getattr(self, name)) for name in _kinds(type(self)) if name not in absent}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, where: str = "") -> Self:
        """Read the piece back; a missing, unknown or malformed field is refused with its place."""
        where = where or cls.__name__
        kinds = _kinds(cls)
        check_keys(values, set(kinds), where, optional=_optional(cls))
        return cls(
            **{name: _checked(values[name], kind, f"{where}.{name}") for name, kind in kinds.items() if name in values}
        )


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


def _kinds(part: Any) -> dict[str, Any]:
    if part not in _KINDS:
        hints = get_type_hints(part, include_extras=True)
        _KINDS[part] = {f.name: hints[f.name] for f in fields(part)}
    return _KINDS[part]


def _optional(part: Any) -> Set[str]:
    return {f.name for f in fields(part) if f.default is None}


def _checked(value: Any, kind: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _formed(_checked(value, arguments[0], where), arguments[1], where)
    if origin in (Union, UnionType):
        chosen = next(a for a in arguments if a is not NoneType)
        return None if value is None else _checked(value, chosen, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ParameterError(f"{where}: expected a list, found {type(value).__name__}")
        return tuple(_checked(v, arguments[0], f"{where}[{i}]") for i, v in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise ParameterError(f"{where}: expected an object, found {type(value).__name__}")
        items = plain(value, where).items()
        return {k: v if arguments[1] is Any else _checked(v, arguments[1], f"{where}.{k}") for k, v in items}
    return _simple(value, kind, where)


def _simple(value: Any, kind: type, where: str) -> Any:
    if issubclass(kind, Part):
        return value if isinstance(value, kind) else kind.from_json(value, where=where)
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            raise ParameterError(f"{where}: expected one of {', '.join(map(str, kind))}; found {value!r}")
        return kind(value)
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


def _written(value: Any) -> Any:
    if isinstance(value, Part):
        return value.to_json()
    return [_written(v) for v in value] if isinstance(value, tuple) else plain(value)
