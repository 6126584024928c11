"""The certificate as a W3C Verifiable Credential 2.0, for readers whose software checks credentials.

A credential holds the whole certificate and its plain sentences. Both are signed with the same key: the credential by a
Data Integrity proof, and the certificate in it as in its own file.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from eupg.certify.bundle import Bundle, is_bundle
from eupg.certify.canonical import read_json
from eupg.certify.certificate import Certificate, read_file
from eupg.certify.data_integrity import add_proof, check_proof, did_key, key_named
from eupg.certify.keys import PublicKey, Signer, SigningKey
from eupg.certify.statement import asked, done, holds, limits
from eupg.errors import CertificateInvalid, CertificateRefused
from eupg.files import write_atomically

_VERSION_2 = "https://www.w3.org/ns/credentials/v2"
# A drawn UUID: a vocabulary of our own that needs no address on the web.
_VOCABULARY = "urn:uuid:3d5b8a0e-6c1f-4f0a-9b52-7a0c8f2e41d6#"
_TYPES = ("Erasure", "ErasureCertificate")
_SENTENCES = ("asked", "done", "holds", "limits", "notCovered", "assumed")
_CONTEXT = [
    _VERSION_2,
    {name: _VOCABULARY + name for name in (*_TYPES, *_SENTENCES, "contact", "reference")}
    | {"certificate": {"@id": f"{_VOCABULARY}certificate", "@type": "@json"}},
]
_BUNDLE_CONTEXT = [
    _VERSION_2,
    {name: _VOCABULARY + name for name in ("Erasure", "ErasureBundle", "done", "notCovered", "contact", "reference")}
    | {"bundle": {"@id": f"{_VOCABULARY}bundle", "@type": "@json"}},
]


class _SignedDocument:
    """A credential of one kind as plain values with its proof, and what it was issued for."""

    types: ClassVar[list[str]]
    # The place of the certificate or bundle in the credential's subject.
    place: ClassVar[str]

    def __init__(self, document: Mapping[str, Any]) -> None:
        if not self.describes(document):
            raise CertificateInvalid(
                f"expected a credential of the types {', '.join(self.types)}, found another document"
            )
        self.document = dict(document)

    @classmethod
    def describes(cls, values: object) -> bool:
        """Tell whether values are those of a credential of this kind."""
        return isinstance(values, Mapping) and "@context" in values and values.get("type") == cls.types

    @property
    def _content(self) -> Mapping[str, Any]:
        subject = self.document.get("credentialSubject")
        values = subject.get(self.place) if isinstance(subject, Mapping) else None
        return values if isinstance(values, Mapping) else {}

    @property
    def key(self) -> PublicKey:
        """The key that signed; it is part of the file, so it does not prove who signed."""
        proof = self.document.get("proof")
        return key_named(proof.get("verificationMethod") if isinstance(proof, Mapping) else None)

    def save(self, path: str | Path) -> None:
        """Write the credential to a file, entirely or not at all."""
        text = json.dumps(self.document, ensure_ascii=False, indent=2) + "\n"
        write_atomically(Path(path), text.encode(), mode=0o644)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a credential from a file; the proof is for ``verify`` to check."""
        with _naming(path):
            return cls(read_json(read_file(path)))


class Credential(_SignedDocument):
    """A certificate as a Verifiable Credential; :func:`eupg.verify` checks it as it checks a certificate.

    Parameters
    ----------
    document
        The credential as plain values, with its proof.
    """

    types: ClassVar[list[str]] = ["VerifiableCredential", "ErasureCertificate"]
    place = "certificate"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.certificate = Certificate.from_json(self._content)

    @classmethod
    def of(cls, certificate: Certificate, key: SigningKey) -> Self:
        """Issue a certificate as a credential; equal certificates give equal credentials."""
        body = certificate.body
        if certificate.key != key.public:
            raise CertificateRefused(
                f"the certificate was signed with key {certificate.key_id}, got {key.id}: pass the key of its workspace"
            )
        document = {
            "@context": _CONTEXT,
            "type": cls.types,
            "issuer": _issuer(certificate),
            "validFrom": body.issued,
            "credentialSubject": {
                "type": "Erasure",
                "asked": asked(body),
                "done": done(body),
                "holds": holds(body),
                "limits": limits(body),
                "notCovered": list(body.not_covered),
                "assumed": list(body.assumed),
                "certificate": certificate.to_json(),
            },
        }
        return cls(add_proof(document, key, created=body.issued))

    def check(self, key: PublicKey) -> None:
        """Check the proof, and that the credential agrees with its certificate; that one is for ``verify`` to check."""
        check_proof(self.document, key)
        body, subject = self.certificate.body, self.document["credentialSubject"]
        same = (
            self.document.get("issuer") == _issuer(self.certificate)
            and self.document.get("validFrom") == body.issued
            and subject.get("notCovered") == list(body.not_covered)
            and subject.get("assumed") == list(body.assumed)
            and self.certificate.key == key
        )
        if not same:
            raise CertificateInvalid("the credential and the certificate in it disagree about issuer, time or coverage")

    def __repr__(self) -> str:
        return f"Credential({self.certificate!r})"


class BundleCredential(_SignedDocument):
    """A bundle as a Verifiable Credential; :func:`eupg.verify` checks it as it checks a bundle.

    Parameters
    ----------
    document
        The credential as plain values, with its proof.
    """

    types: ClassVar[list[str]] = ["VerifiableCredential", "ErasureBundle"]
    place = "bundle"

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        self.bundle = Bundle.from_json(self._content)

    @classmethod
    def of(cls, bundle: Bundle, key: Signer) -> Self:
        """Issue a bundle as a credential, with the key that signed the bundle."""
        if bundle.key != key.public:
            raise CertificateRefused(f"the bundle was signed with key {bundle.key.id}, got {key.public.id}")
        body = bundle.body
        document = {
            "@context": _BUNDLE_CONTEXT,
            "type": cls.types,
            "issuer": _issuer(bundle),
            "validFrom": body.issued,
            "credentialSubject": {
                "type": "Erasure",
                "done": body.sentence(),
                "notCovered": list(body.not_covered),
                "bundle": bundle.to_json(),
            },
        }
        return cls(add_proof(document, key, created=body.issued))

    def check(self, key: PublicKey) -> None:
        """Check the proof, and that the credential agrees with its bundle."""
        check_proof(self.document, key)
        body, subject = self.bundle.body, self.document["credentialSubject"]
        same = (
            self.document.get("issuer") == _issuer(self.bundle)
            and self.document.get("validFrom") == body.issued
            and subject.get("done") == body.sentence()
            and subject.get("notCovered") == list(body.not_covered)
            and self.bundle.key == key
        )
        if not same:
            raise CertificateInvalid("the credential and the bundle in it disagree about issuer, time or content")


def load(path: str | Path) -> Certificate | Credential | Bundle | BundleCredential:
    """Read a certificate, a bundle, or the credential of either, whichever the file holds."""
    with contextlib.suppress(ValueError, RecursionError):
        values = json.loads(read_file(path))
        for kind in (Credential, BundleCredential):
            if kind.describes(values):
                return kind.load(path)
        if is_bundle(values):
            with _naming(path):
                return Bundle.load(path)
    return Certificate.load(path)


@contextlib.contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Name the file in the message of a refusal."""
    try:
        yield
    except CertificateInvalid as error:
        raise CertificateInvalid(f"{path}: {error}") from error


def _issuer(signed: Certificate | Bundle) -> dict[str, str]:
    named = signed.body.issuer
    return {"id": did_key(signed.key), **({} if named is None else named.to_json())}
