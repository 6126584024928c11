"""The parts of a certificate: frozen dataclasses whose fields pydantic checks, when built and when read from JSON."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar, dataclass_transform

from pydantic import AfterValidator, BeforeValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from eupg.errors import ParameterError
from eupg.strict_json import plain, read, refusal

T = TypeVar("T")


def _form(pattern: str, expected: str) -> AfterValidator:
    def check(text: str) -> str:
        # The text itself is not repeated: it may be the personal value that has no place here.
        if not re.fullmatch(pattern, text):
            raise ParameterError(f"expected {expected}; found a text of {len(text)} characters in another form")
        return text

    return AfterValidator(check)


_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|\+00:00)"
Text = Annotated[str, _form(r"[^\ud800-\udfff]+", "some Unicode text")]
Digest = Annotated[str, _form(r"[0-9a-f]{64}", "a SHA-256 digest, 64 hexadecimal digits")]
KeyId = Annotated[str, _form(r"[0-9a-f]{16}", "a key's id, 16 hexadecimal digits")]
Signature = Annotated[str, _form(r"[0-9a-f]{128}", "an Ed25519 signature, 128 hexadecimal digits")]
KeyedDigest = Annotated[str, _form(r"[0-9a-f]{32,64}", "a keyed digest, 32 to 64 hexadecimal digits; never an id")]
RequestId = Annotated[str, _form(r"r-[0-9a-f]{16,64}", "a random request id, r- and 16 to 64 hexadecimal digits")]
Moment = Annotated[str, _form(_TIME, "a moment in UTC such as 2025-01-31T09:30:00Z")]
Day = Annotated[str, _form(rf"\d{{4}}-\d{{2}}-\d{{2}}|{_TIME}", "a day such as 2025-01-31, or a moment in UTC")]
JsonObject = Annotated[Mapping[str, Any], BeforeValidator(lambda values: plain(values, ""))]


class CertificatePart:
    """JSON out and in for the parts of a certificate.

    A field with the default None is one that earlier certificates do not have: it is left out where it is None.
    """

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_json` reads back."""
        values: dict[str, Any] = plain(
            TypeAdapter(type(self)).dump_python(self, exclude_defaults=True), type(self).__name__
        )
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, where: str | None = None) -> Self:
        """Read the part back; a missing, unknown or malformed field is refused with its place."""
        return read(cls, values, cls.__name__ if where is None else where)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def strict_dataclass(part: type[T]) -> type[T]:
    """Make a class a frozen dataclass that refuses fields of another type, as an error of this library."""
    checked: Any = dataclass(part, frozen=True, kw_only=True, config=ConfigDict(strict=True, extra="forbid"))
    build = checked.__init__

    @functools.wraps(build)
    def checked_init(self: T, **values: Any) -> None:
        try:
            build(self, **values)
        except ValidationError as error:
            raise refusal(error, part.__name__) from None

    checked.__init__ = checked_init
    built: type[T] = checked
    return built
