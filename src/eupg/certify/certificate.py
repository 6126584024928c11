"""The certificate: what is said about one request, and a signature over all of it.

A file holds four things: ``body``, ``digests`` (of each part of the body, so that a change can be named), ``key`` (the
public half of the signer's) and ``signature``, which covers the other three in their canonical spelling.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eupg.certify.body import FORMAT, FORMATS, Body
from eupg.certify.canonical import canonical, read_canonical
from eupg.certify.files import replace_file
from eupg.certify.keys import PublicKey, SigningKey
from eupg.certify.parts import Digest, KeyId, Part, Signature
from eupg.certify.summary import summary
from eupg.errors import CertificateInvalid, CertificateRefused, ParameterError
from eupg.strict import check_keys

# Far more than any certificate needs, and little enough to read without care.
_LARGEST = 16 * 2**20


@dataclass(frozen=True)
class Certificate:
    """A signed statement about one erasure.

    Reading one checks its form; :func:`eupg.certify.verify.verify` checks the signature. ``print`` shows a summary.

    Parameters
    ----------
    body
        What is said.
    digests
        The digest of each part of the body.
    key
        The public half of the key it was signed with. It is part of the file, so it does not prove who signed.
    signature
        128 hexadecimal digits.
    """

    body: Body
    digests: Mapping[str, str]
    key: PublicKey
    signature: str

    @property
    def key_id(self) -> str:
        """The short name of the signing key."""
        return self.key.id

    @property
    def digest(self) -> str:
        """SHA-256 of the file's bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @property
    def message(self) -> bytes:
        """The bytes that are signed: everything but the signature."""
        return canonical(_signed(self.body, self.digests, self.key))

    def __str__(self) -> str:
        return summary(self.body, key_id=self.key_id, digest=self.digest)

    def to_json(self) -> dict[str, Any]:
        """Return plain values that :meth:`from_json` reads back."""
        return _signed(self.body, self.digests, self.key) | {"signature": self.signature}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Certificate:
        """Read a certificate from plain values; anything missing, unknown or malformed is refused with its place."""
        _check_kind(values)
        try:
            check_keys(values, {"body", "digests", "key", "signature"}, "certificate")
            _check_format(values["body"])
            body = Body.from_json(values["body"], where="body")
            seal = _Seal.from_json({k: v for k, v in values.items() if k != "body"}, where="certificate")
            return cls(body, seal.digests, seal.key.read(), seal.signature)
        except (ParameterError, CertificateRefused) as error:
            raise CertificateInvalid(str(error)) from error

    def to_bytes(self) -> bytes:
        """Return the file's content: the canonical spelling, and nothing else."""
        return canonical(self.to_json())

    @classmethod
    def from_bytes(cls, content: bytes) -> Certificate:
        """Read a file's content, which has to be spelled exactly as it was issued."""
        if len(content) > _LARGEST:
            raise CertificateInvalid(f"expected at most {_LARGEST:,} bytes, found {len(content):,}: no certificate")
        # Another JSON file is named for what it is, before its spelling is looked at.
        with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            _check_kind(json.loads(content))
        return cls.from_json(read_canonical(content))

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file, entirely or not at all."""
        replace_file(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Certificate:
        """Read a certificate from a file; the signature is for ``verify`` to check."""
        try:
            with Path(path).open("rb") as file:
                return cls.from_bytes(file.read(_LARGEST + 1))
        except OSError as error:
            raise CertificateInvalid(f"{path}: cannot be read ({error.strerror}): name a certificate's file") from error
        except CertificateInvalid as error:
            raise CertificateInvalid(f"{path}: {error}") from error


def sign(body: Body, key: SigningKey) -> Certificate:
    """Sign what is said about a request.

    Raises
    ------
    CertificateRefused
        If the body could not be read back as it is, because it was changed after it was built.
    """
    if Body.from_json(body.to_json(), where="body") != body:
        raise CertificateRefused("the body cannot be read back as it is: build it anew from plain values")
    digests = part_digests(body)
    return Certificate(body, digests, key.public, key.sign(canonical(_signed(body, digests, key.public))).hex())


def part_digests(body: Body) -> dict[str, str]:
    """Return the digest of each part of the body."""
    return {name: hashlib.sha256(canonical(part)).hexdigest() for name, part in body.to_json().items()}


@dataclass(frozen=True, kw_only=True)
class _Key(Part):
    id: KeyId
    public: Digest

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.read().id != self.id:
            raise ParameterError(
                f"key.public: expected the key {self.id}, found {self.read().id}: one of them was changed"
            )

    def read(self) -> PublicKey:
        return PublicKey(bytes.fromhex(self.public))


@dataclass(frozen=True, kw_only=True)
class _Seal(Part):
    digests: Mapping[str, str]
    key: _Key
    signature: Signature


def _signed(body: Body, digests: Mapping[str, str], key: PublicKey) -> dict[str, Any]:
    return {"body": body.to_json(), "digests": dict(digests), "key": {"id": key.id, "public": key.raw.hex()}}


def _check_kind(values: object) -> None:
    if not isinstance(values, Mapping) or not {"body", "digests", "key", "signature"} & values.keys():
        raise CertificateInvalid("this is not a certificate: pass a file that eupg certify wrote")


def _check_format(body: object) -> None:
    # Before anything else: a later format may have other fields, and the version is what to tell.
    found = body.get("format") if isinstance(body, Mapping) else None
    if found not in FORMATS:
        raise CertificateInvalid(
            f"body.format: expected {FORMAT!r}, found {found!r}: check it with the version of eupg that issued it"
        )
