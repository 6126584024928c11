"""Pieces of a certificate that are checked field by field, by their declared types, and read back strictly.

A certificate is read by strangers. A field that is missing, unknown or of another kind is refused with its place, so
that nothing can hide in a file between what is signed and what is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from eupg.guarantees import Guarantee
from eupg.strict import Form, check_keys, checked, field_kinds, optional_fields, plain

_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|\+00:00)"
Text = Annotated[str, Form(r"(?s:.+)", "some text")]
Digest = Annotated[str, Form(r"[0-9a-f]{64}", "a SHA-256 digest, 64 hexadecimal digits")]
KeyId = Annotated[str, Form(r"[0-9a-f]{16}", "a key's id, 16 hexadecimal digits")]
Signature = Annotated[str, Form(r"[0-9a-f]{128}", "an Ed25519 signature, 128 hexadecimal digits")]
KeyedDigest = Annotated[str, Form(r"[0-9a-f]{32,64}", "a keyed digest, 32 to 64 hexadecimal digits; never an id")]
RequestId = Annotated[str, Form(r"r-[0-9a-f]{16,64}", "a random request id, r- and 16 to 64 hexadecimal digits")]
Moment = Annotated[str, Form(_TIME, "a moment in UTC such as 2025-01-31T09:30:00Z")]
Day = Annotated[str, Form(rf"\d{{4}}-\d{{2}}-\d{{2}}|{_TIME}", "a day such as 2025-01-31, or a moment in UTC")]


class Part:
    """A piece of a certificate: a frozen dataclass whose fields are checked when it is built.

    A field with the default None is one that earlier certificates do not have: it is left out where it is None.
    """

    def __post_init__(self) -> None:
        for name, kind in field_kinds(type(self)).items():
            object.__setattr__(self, name, checked(getattr(self, name), kind, f"{type(self).__name__}.{name}"))

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_json` reads back."""
        absent = {name for name in optional_fields(type(self)) if getattr(self, name) is None}
        return {name: _written(getattr(self, name)) for name in field_kinds(type(self)) if name not in absent}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, where: str = "") -> Self:
        """Read the piece back; a missing, unknown or malformed field is refused with its place."""
        where = where or cls.__name__
        kinds = field_kinds(cls)
        check_keys(values, set(kinds), where, optional=optional_fields(cls))
        return cls(
            **{name: checked(values[name], kind, f"{where}.{name}") for name, kind in kinds.items() if name in values}
        )


def _written(value: Any) -> Any:
    if isinstance(value, Part | Guarantee):
        return value.to_json()
    return [_written(v) for v in value] if isinstance(value, tuple) else plain(value)
