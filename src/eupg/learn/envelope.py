"""A file round a framework's own format: one line of JSON with a digest, then the framework's bytes.

Parsers of model formats may crash the whole process on a damaged file, so a file is checked before any parser sees it.
The line also says which learner wrote the file and under which schema. The digest covers the line and the bytes: scales
or classes changed in the line would change what the model says. A digest finds damage, not malice: where a file comes
from is for the caller to know.

Each file carries random salt. Its digest may outlive it in a ledger, and a learner without randomness writes the same
bytes for the same records: without salt whoever knows the others could try out values of a forgotten record until the
digest of the deleted model fits.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from eupg.errors import ModelFileError, SchemaError
from eupg.validation import is_whole

_LONGEST_LINE = 16 * 2**20
_SALT_BYTES = 16


@dataclass(frozen=True)
class ModelFile:
    """A model file whose format and digest were found right."""

    path: Path
    about: Mapping[str, Any]
    schema: Schema
    effort: int
    payload: bytes

    def parts(self) -> list[bytes]:
        """Return the payload in parts of the sizes it is described with; whole where it is described with none."""
        sizes = self.about.get("sizes", [len(self.payload)])
        whole = isinstance(sizes, list) and sizes and all(type(size) is int and size > 0 for size in sizes)
        if not whole or sum(sizes) != len(self.payload):
            raise _malformed(self.path, "sizes", f"{sizes!r} of {len(self.payload)} bytes")
        ends = list(itertools.accumulate(sizes))
        return [self.payload[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def encoder(self) -> Encoder:
        """Return the encoder the model was fitted with."""
        try:
            encoder = Encoder.from_json(self.schema.features, self.about["encoder"])
        except (KeyError, TypeError, ValueError) as error:
            raise _malformed(self.path, "encoder", repr(error)) from error
        for scale in (encoder.centre, encoder.spread):
            if scale.shape != (len(self.schema.features),) or scale.dtype.kind != "f" or not np.isfinite(scale).all():
                raise _malformed(
                    self.path, "encoder", f"scales {scale.tolist()} of {len(self.schema.features)} features"
                )
        return encoder


def write_model(path: str | Path, form: str, schema: Schema, payload: bytes, **about: Any) -> None:
    """Write a model's bytes behind their description."""
    line = {"format": form, "schema": schema.to_json(), "salt": secrets.token_hex(_SALT_BYTES), **about}
    line["sha256"] = _digest(line, payload)
    Path(path).write_bytes(json.dumps(line).encode() + b"\n" + payload)


def read_model(path: str | Path, form: str) -> ModelFile:
    """Return what the file holds, once format, digest and description are found right."""
    path = Path(path)
    with path.open("rb") as file:
        line, payload = file.readline(_LONGEST_LINE), file.read()
    try:
        about = json.loads(line)
        found = about["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a model file of this library: pass one that a learner saved") from error
    if found != form:
        raise ModelFileError(
            f"{path} has the format {found!r}, expected {form!r}: load it with the learner that saved it"
        )
    if about.get("sha256") != _digest(about, payload):
        raise ModelFileError(f"{path} is damaged: its content does not match its digest; restore it from a copy")
    effort = about.get("effort")
    if not is_whole(effort) or effort < 1:
        raise _malformed(path, "effort", repr(effort))
    try:
        schema = _schema(about.get("schema"))
    except SchemaError as error:
        raise _malformed(path, "schema", str(error)) from error
    return ModelFile(path, about, schema, effort, payload)


def _schema(found: Any) -> Schema:
    """Read the schema; files of earlier versions carry it as TOML."""
    return Schema.from_toml(found) if isinstance(found, str) else Schema.from_json(found)


def _digest(about: Mapping[str, Any], payload: bytes) -> str:
    """Return the digest of the line, in one spelling whatever its order and spaces, and of the bytes."""
    line = {word: value for word, value in about.items() if word != "sha256"}
    spelled = json.dumps(line, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(spelled + b"\n" + payload).hexdigest()


def _malformed(path: Path, what: str, found: str) -> ModelFileError:
    return ModelFileError(f"{path} describes no {what} that can be read ({found}): save the model again")
