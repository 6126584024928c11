"""The model file of every learner: one line of JSON with a digest, then the framework's own format.

Parsers of model formats may crash the process on a damaged file, so a file is checked before a parser sees it. The line
names the learner's format and the schema. The digest covers the line and the bytes. It detects damage, not malice: the
caller must know where a file comes from.

Each file carries random salt. Its digest may outlive it in a ledger, and a learner without randomness writes the same
bytes for the same records. Without salt, a person who knows the other records could try out values of a forgotten
record until the digest of the deleted model matches.
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
    """A model file with the expected format and a matching digest."""

    path: Path
    about: Mapping[str, Any]
    schema: Schema
    effort: int
    payload: bytes

    def parts(self) -> list[bytes]:
        """Return the payload in parts of the described sizes, or whole if no sizes are described."""
        sizes = self.about.get("sizes", [len(self.payload)])
        valid = isinstance(sizes, list) and sizes and all(type(size) is int and size > 0 for size in sizes)
        if not valid or sum(sizes) != len(self.payload):
            raise _malformed(self.path, "sizes", f"{sizes!r} of {len(self.payload)} bytes")
        ends = list(itertools.accumulate(sizes))
        return [self.payload[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def encoder(self) -> Encoder:
        """Return the encoder the model was fitted with."""
        try:
            encoder = Encoder.from_json(self.schema.features, self.about["encoder"])
        except (KeyError, TypeError, ValueError) as error:
            raise _malformed(self.path, "encoder", repr(error)) from error
        features = len(self.schema.features)
        for scale in (encoder.centre, encoder.spread):
            if scale.shape != (features,) or scale.dtype.kind != "f" or not np.isfinite(scale).all():
                raise _malformed(self.path, "encoder", f"scales {scale.tolist()} of {features} features")
        return encoder


def write_model(path: str | Path, form: str, schema: Schema, payload: bytes, **about: Any) -> None:
    """Write a model's bytes after their description."""
    line = {"format": form, "schema": schema.to_json(), "salt": secrets.token_hex(_SALT_BYTES), **about}
    line["sha256"] = _digest(line, payload)
    Path(path).write_bytes(json.dumps(line).encode() + b"\n" + payload)


def read_model(path: str | Path, *forms: str) -> ModelFile:
    """Read a model file and check that it has one of these formats, and its digest and description."""
    path = Path(path)
    with path.open("rb") as file:
        line, payload = file.readline(_LONGEST_LINE), file.read()
    try:
        about = json.loads(line)
        actual = about["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a model file of this library: pass one that a learner saved") from error
    if actual not in forms:
        raise ModelFileError(
            f"{path} has the format {actual!r}, expected {' or '.join(map(repr, forms))}: load it with the learner "
            "that saved it"
        )
    if about.get("sha256") != _digest(about, payload):
        raise ModelFileError(f"{path} is damaged: its content does not match its digest; restore it from a copy")
    effort = about.get("effort")
    if not is_whole(effort) or effort < 1:
        raise _malformed(path, "effort", repr(effort))
    values = about.get("schema")
    try:
        # Files of earlier versions hold the schema as TOML.
        schema = Schema.from_toml(values) if isinstance(values, str) else Schema.from_json(values)
    except SchemaError as error:
        raise _malformed(path, "schema", str(error)) from error
    return ModelFile(path, about, schema, effort, payload)


def _digest(about: Mapping[str, Any], payload: bytes) -> str:
    """Return the digest of the line in canonical form, and of the bytes."""
    line = {word: value for word, value in about.items() if word != "sha256"}
    canonical = json.dumps(line, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(canonical + b"\n" + payload).hexdigest()


def _malformed(path: Path, part: str, value: str) -> ModelFileError:
    return ModelFileError(f"{path} does not describe its {part} in a readable form ({value}): save the model again")
