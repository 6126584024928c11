"""A file round a framework's own format: one line of JSON with a digest, then the framework's bytes.

Parsers of model formats may crash the whole process on a damaged file, so a file is checked before any parser sees it.
The line also says which learner wrote the file and under which schema. A digest finds damage, not malice: where a file
comes from is for the caller to know.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from eupg.data.schema import Schema
from eupg.errors import ModelFileError

_LONGEST_LINE = 16 * 2**20


def write_model(path: Path, form: str, schema: Schema, payload: bytes, **about: Any) -> None:
    """Write a model's bytes behind their description."""
    line = {"format": form, "schema": schema.to_toml(), "sha256": hashlib.sha256(payload).hexdigest(), **about}
    path.write_bytes(json.dumps(line).encode() + b"\n" + payload)


def read_model(path: Path, form: str) -> tuple[Schema, dict[str, Any], bytes]:
    """Return schema, description and bytes, once format and digest are found right."""
    with path.open("rb") as file:
        line, payload = file.readline(_LONGEST_LINE), file.read()
    try:
        about = json.loads(line)
        found = about["format"]
    except (ValueError, TypeError, KeyError) as error:
        raise ModelFileError(f"{path} is not a model file of this library: pass one that a learner saved") from error
    if found != form:
        raise ModelFileError(
            f"{path} has the format {found!r}, expected {form!r}: load it with the learner that saved it"
        )
    if about.get("sha256") != hashlib.sha256(payload).hexdigest():
        raise ModelFileError(f"{path} is damaged: its bytes do not match their digest; restore it from a copy")
    return Schema.from_toml(about["schema"]), about, payload
