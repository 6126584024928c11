"""Checking a certificate: returns nothing, or raises. It needs the file and the public key, and nothing that can train.

A certificate inside a Verifiable Credential is checked along with the credential. Two questions have two functions, so
that the weaker answer is never mistaken for the stronger: :func:`verify` shows who signed, given their public key from
a source you trust; :func:`verify_integrity` shows only that nothing changed since somebody signed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eupg.certify.bundle import Bundle
from eupg.certify.certificate import Certificate, part_digests
from eupg.certify.credential import BundleCredential, Credential, load
from eupg.certify.keys import PublicKey
from eupg.errors import CertificateInvalid, ParameterError

Signed = Certificate | Credential | Bundle | BundleCredential
Checkable = Signed | str | Path


def verify(certificate: Checkable, *, key: PublicKey | str | Path) -> None:
    """Check that this certificate was signed, as it is, by the owner of this key.

    Parameters
    ----------
    certificate
        The certificate, the bundle of several, the credential that holds one of these, or the file of any of them.
    key
        The signer's public key or its file, ``signing.pub``, obtained from the signer and not with the certificate.

    Raises
    ------
    CertificateInvalid
        If a byte was changed, another key signed, or the content is not that of a certificate.
    """
    known = key if isinstance(key, PublicKey) else PublicKey.load(key)
    read = _read(certificate)
    if read.key != known:
        raise CertificateInvalid(
            f"{_name(certificate)} was signed with key {read.key.id}, expected {known.id}: "
            "it comes from somebody else, or the key was changed; ask the issuer which key is theirs"
        )
    _check_signature(read, known, _name(certificate))


def verify_integrity(certificate: Checkable) -> None:
    """Check only that nothing changed since somebody signed, whoever that was.

    Anyone can make a key, put its public half into a certificate and sign. Use :func:`verify` with the issuer's key.
    """
    read = _read(certificate)
    _check_signature(read, read.key, _name(certificate))


def check_ledger_head(certificate: Certificate, lookup: Callable[[int], str | None]) -> None:
    """Check that the ledger still holds the entry that was its newest when the certificate was issued.

    Parameters
    ----------
    certificate
        A certificate whose signature was verified.
    lookup
        Returns the digest of the ledger entry with a number, or None where there is none.
    """
    head = certificate.body.ledger
    digest = lookup(head.number)
    if digest is None:
        raise CertificateInvalid(
            f"the ledger has no entry {head.number}, expected one with digest {head.digest}: "
            "its end was cut off, or the certificate belongs to another ledger"
        )
    if digest != head.digest:
        raise CertificateInvalid(
            f"entry {head.number} of the ledger has the digest {digest}, expected {head.digest}: "
            "the ledger was rewritten, or the certificate belongs to another ledger"
        )


def certificate_in(certificate: Checkable) -> Certificate:
    """Return a certificate, from a file or a credential where it is in one."""
    read = _read(certificate)
    if isinstance(read, Bundle | BundleCredential):
        raise CertificateInvalid(
            "a bundle holds the certificates of several workspaces: check it by itself, or pass one of its certificates"
        )
    return read.certificate if isinstance(read, Credential) else read


def _read(certificate: Checkable) -> Signed:
    if isinstance(certificate, str | Path):
        return load(certificate)
    if isinstance(certificate, Credential | BundleCredential):
        return type(certificate)(certificate.document)
    if isinstance(certificate, Bundle):
        return Bundle.from_bytes(certificate.to_bytes())
    if not isinstance(certificate, Certificate):
        raise ParameterError(f"expected a certificate or the path of one, got {type(certificate).__name__}")
    # A certificate that was built in memory passes the same checks as a file.
    return Certificate.from_bytes(certificate.to_bytes())


def _check_signature(read: Signed, key: PublicKey, name: str) -> None:
    if isinstance(read, Bundle | BundleCredential):
        _check_bundle(read, key, name)
        return
    if isinstance(read, Credential):
        try:
            read.check(key)
        except CertificateInvalid as error:
            raise CertificateInvalid(f"{name}: {error}") from error
    certificate = read.certificate if isinstance(read, Credential) else read
    actual, expected = part_digests(certificate.body), certificate.digests
    changed = sorted(part for part in actual.keys() | expected.keys() if actual.get(part) != expected.get(part))
    if changed:
        raise CertificateInvalid(
            f"{name}: the content of {', '.join(changed)} does not match its digest: it was changed after signing"
        )
    if not key.signed(certificate.message, bytes.fromhex(certificate.signature)):
        raise CertificateInvalid(
            f"{name}: the signature of key {key.id} does not match: the signature itself, the digests, or a part "
            "together with its digest was changed"
        )


def _check_bundle(read: Bundle | BundleCredential, key: PublicKey, name: str) -> None:
    """Check a bundle, and each certificate in it with the key that the bundle vouches for."""
    bundle = read.bundle if isinstance(read, BundleCredential) else read
    try:
        if isinstance(read, BundleCredential):
            read.check(key)
        bundle.check(key)
    except CertificateInvalid as error:
        raise CertificateInvalid(f"{name}: {error}") from error
    for workspace, certificate in bundle.certificates().items():
        _check_signature(certificate, certificate.key, f"{name}, workspace {workspace}")


def _name(certificate: Checkable) -> str:
    return str(certificate) if isinstance(certificate, str | Path) else "the certificate"
