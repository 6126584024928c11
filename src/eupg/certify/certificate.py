"""The certificate: a statement about one request, and a signature over all of it.

A file holds ``body``, ``digests`` (of each part of the body, so that a change can be located), ``key`` (the signer's
public key) and ``signature``, which covers the other three in canonical JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import PlainSerializer, PlainValidator

from eupg.certify.body import FORMAT, FORMATS, Body
from eupg.certify.canonical import canonical, read_canonical
from eupg.certify.keys import PublicKey, SigningKey
from eupg.certify.parts import CertificatePart, Digest, KeyId, Signature, strict_dataclass
from eupg.certify.statement import asked, done, holds, limits, moment
from eupg.certify.summary import readable, summary
from eupg.errors import CertificateInvalid, CertificateRefused, ParameterError
from eupg.files import write_atomically
from eupg.pages import card

# Far more than any certificate needs, and little enough to read without care.
_LARGEST = 16 * 2**20


@strict_dataclass
class _KeyFields(CertificatePart):
    id: KeyId
    public: Digest


def read_key(values: Any) -> PublicKey:
    """Read a public key, and check that it is the one that it is said to be."""
    if isinstance(values, PublicKey):
        return values
    fields = _KeyFields.from_json(values, where="")
    key = PublicKey(bytes.fromhex(fields.public))
    if key.id != fields.id:
        raise ParameterError(f".public: expected the key {fields.id}, found {key.id}: one of them was changed")
    return key


def write_key(key: PublicKey) -> dict[str, str]:
    """Return a public key and its id as plain values."""
    return {"id": key.id, "public": key.raw.hex()}


@strict_dataclass
class Certificate(CertificatePart):
    """A signed statement about one erasure.

    Reading one checks its form; :func:`eupg.verify` checks the signature. ``print`` shows a summary.

    Attributes
    ----------
    body
        The statement.
    digests
        The digest of each part of the body.
    key
        The signer's public key. It is part of the file, so it does not prove who signed.
    signature
        128 hexadecimal digits.
    """

    body: Body
    digests: Mapping[str, str]
    key: Annotated[PublicKey, PlainValidator(read_key), PlainSerializer(write_key)]
    signature: Signature

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
        return _message(self.body, self.digests, self.key)

    def __str__(self) -> str:
        return summary(self.body, key_id=self.key_id, digest=self.digest)

    def __repr__(self) -> str:
        request = self.body.request
        strength = readable(self.body.claimed.claim.strength(request.unit))
        return f"<Certificate for request {request.id}, issued {moment(self.body.issued)}: {strength}>"

    def _repr_html_(self) -> str:
        body = self.body
        rows = [
            ("Issuer", str(body.issuer or "not named")),
            ("What was asked", asked(body)),
            ("What was done", done(body)),
            ("What holds now", holds(body)),
            ("What limits this claim", " ".join(limits(body)) or "Nothing but the assumptions."),
            ("What this does not cover", " ".join(body.not_covered)),
            ("What is assumed", " ".join(body.assumed)),
        ]
        note = f"Signed with key {self.key_id}; shown here, not verified. print() shows the evidence."
        title = f"Certificate of erasure for request {body.request.id}, issued {moment(body.issued)}"
        return card(title, [(name, readable(text)) for name, text in rows], notes=[note])

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, where: str | None = "certificate") -> Self:
        """Read a certificate from plain values; anything missing, unknown or malformed is refused with its place."""
        _check_kind(values)
        _check_format(values.get("body"))
        try:
            return super().from_json(values, where=where)
        except (ParameterError, CertificateRefused) as error:
            raise CertificateInvalid(str(error)) from error

    def to_bytes(self) -> bytes:
        """Return the file's content: canonical JSON, and nothing else."""
        return canonical(self.to_json())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a file's content, which has to be spelled exactly as it was issued."""
        if len(content) > _LARGEST:
            raise CertificateInvalid(
                f"expected at most {_LARGEST:,} bytes, found {len(content):,}: this is not a certificate"
            )
        # A JSON file of another kind is called that before its spelling is checked.
        with contextlib.suppress(json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            _check_kind(json.loads(content))
        return cls.from_json(read_canonical(content))

    def save(self, path: str | Path) -> None:
        """Write the certificate to a file, entirely or not at all."""
        write_atomically(Path(path), self.to_bytes(), mode=0o644)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a certificate from a file; the signature is for ``verify`` to check."""
        content = read_file(path)
        try:
            return cls.from_bytes(content)
        except CertificateInvalid as error:
            raise CertificateInvalid(f"{path}: {error}") from error


def read_file(path: str | Path) -> bytes:
    """Return the content of a file, or the beginning of one that is far too large for a certificate."""
    try:
        with Path(path).open("rb") as file:
            return file.read(_LARGEST + 1)
    except OSError as error:
        raise CertificateInvalid(
            f"{path}: cannot be read ({error.strerror}): pass the file of a certificate"
        ) from error


def sign(body: Body, key: SigningKey) -> Certificate:
    """Sign the statement about a request.

    Raises
    ------
    CertificateRefused
        If the body could not be read back as it is, because it was changed after it was built.
    """
    if Body.from_json(body.to_json(), where="body") != body:
        raise CertificateRefused("the body cannot be read back as it is: build it anew from plain values")
    digests = part_digests(body)
    signature = key.sign(_message(body, digests, key.public)).hex()
    return Certificate(body=body, digests=digests, key=key.public, signature=signature)


def part_digests(body: Body) -> dict[str, str]:
    """Return the digest of each part of the body."""
    return {name: hashlib.sha256(canonical(part)).hexdigest() for name, part in body.to_json().items()}


def _message(body: Body, digests: Mapping[str, str], key: PublicKey) -> bytes:
    return canonical({"body": body.to_json(), "digests": digests, "key": write_key(key)})


def _check_kind(values: object) -> None:
    if not isinstance(values, Mapping) or not {"body", "digests", "key", "signature"} & values.keys():
        raise CertificateInvalid("this is not a certificate: pass a file that eupg certify wrote")


def _check_format(body: object) -> None:
    # Checked first: a later format may have other fields, and its version is the useful thing to report.
    version = body.get("format") if isinstance(body, Mapping) else None
    if version not in FORMATS:
        raise CertificateInvalid(
            f"body.format: expected {FORMAT!r}, found {version!r}: check it with the version of eupg that issued it"
        )
