"""One spelling for every JSON value (RFC 8785), so that equal content has equal bytes and can be signed.

Keys are sorted by UTF-16 code units, numbers are written as JavaScript writes them, and there are no spaces. A file
that holds the same value in any other spelling is refused: a second spelling could hide something nobody signed.
"""

from __future__ import annotations

import json
from typing import Any

import rfc8785

from eupg.errors import CertificateInvalid, ParameterError
from eupg.strict_json import SAFE_INTEGER, plain


def canonical(value: Any) -> bytes:
    """Write a plain value in its only canonical spelling.

    Mappings with text keys, lists, text, finite numbers, truth values and None are plain; anything else is refused with
    its place.

    Examples
    --------
    >>> canonical({"b": [1.0, 1e21], "a": "é"}).decode()
    '{"a":"é","b":[1,1e+21]}'
    """
    return rfc8785.dumps(plain(value))


def read_json(content: bytes) -> Any:
    """Read a value from JSON in any spelling, unless two programs could read two values from it."""
    try:
        text = content.decode("utf-8")
        return json.loads(text, object_pairs_hook=_object, parse_int=_number, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise CertificateInvalid(f"expected UTF-8 text, found an invalid byte at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise CertificateInvalid(f"expected JSON, found an error at character {error.pos}: {error.msg}") from error
    except RecursionError as error:
        raise CertificateInvalid("expected a few levels of JSON, found too many") from error


def read_canonical(content: bytes) -> Any:
    """Read a value back from its canonical bytes, and refuse any other spelling of it."""
    value = read_json(content)
    try:
        again = canonical(value)
    except ParameterError as error:
        raise CertificateInvalid(str(error)) from error
    if again != content:
        at = next((i for i, (a, b) in enumerate(zip(again, content, strict=False)) if a != b), len(again))
        raise CertificateInvalid(
            f"expected the canonical spelling (RFC 8785), found another from byte {at} on: "
            "the file was edited or reformatted; ask for the file as it was issued"
        )
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Two readers may take two different values of a key that is there twice.
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise CertificateInvalid(f"expected each key once, found {key!r} twice in one object")
        values[key] = value
    return values


def _number(digits: str) -> int | float:
    # A float such as 1e20 is spelled like an integer, and has to be read as a float again.
    small = len(digits) <= 17 and abs(int(digits)) <= SAFE_INTEGER
    return int(digits) if small else float(digits)


def _no_constant(word: str) -> Any:
    raise CertificateInvalid(f"expected finite numbers, found {word}")
