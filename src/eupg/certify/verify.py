"""Checking a certificate: returns nothing, or raises. Needs the file and the public key, and nothing that can train.

Two questions are kept apart, each with its own function, so that the weaker answer is never taken for the stronger:
:func:`verify` shows who signed, given their public key from a source you trust; :func:`verify_integrity` shows only
that nothing changed since somebody signed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from eupg.certify.certificate import Certificate, part_digests
from eupg.certify.keys import PublicKey
from eupg.errors import CertificateInvalid, ParameterError


def verify(certificate: Certificate | str | Path, *, key: PublicKey | str | Path) -> None:
    """Check that this certificate was signed, as it is, by the owner of this key.

    Parameters
    ----------
    certificate
        The certificate or its file.
    key
        The signer's public key or its file, ``signing.pub``, had from the signer and not with the certificate.

    Raises
    ------
    CertificateInvalid
        If a byte was changed, another key signed, or the content is not what a certificate may say.
    """
    known = key if isinstance(key, PublicKey) else PublicKey.load(key)
    read = _read(certificate)
    if read.key != known:
        raise CertificateInvalid(
            f"{_name(certificate)} was signed with key {read.key_id}, expected {known.id}: "
            "it comes from somebody else, or the key was changed; ask the issuer which one is theirs"
        )
    _check_signature(read, known, _name(certificate))


def verify_integrity(certificate: Certificate | str | Path) -> None:
    """Check only that nothing changed since somebody signed; who that was stays open.

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
        Returns the digest of the ledger's entry of that number, or None where there is none.
    """
    head = certificate.body.ledger
    found = lookup(head.number)
    if found is None:
        raise CertificateInvalid(
            f"the ledger has no entry {head.number}, expected one with digest {head.digest}: "
            "its end was cut off, or the certificate belongs to another ledger"
        )
    if found != head.digest:
        raise CertificateInvalid(
            f"entry {head.number} of the ledger has the digest {found}, expected {head.digest}: "
            "the ledger was rewritten, or the certificate belongs to another ledger"
        )


def _read(certificate: Certificate | str | Path) -> Certificate:
    if isinstance(certificate, str | Path):
        return Certificate.load(certificate)
    if not isinstance(certificate, Certificate):
        raise ParameterError(f"expected a certificate or the path of one, got {type(certificate).__name__}")
    # What was built in memory passes the same gate as a file.
    return Certificate.from_bytes(certificate.to_bytes())


def _check_signature(certificate: Certificate, key: PublicKey, name: str) -> None:
    found, expected = part_digests(certificate.body), certificate.digests
    changed = sorted(part for part in found.keys() | expected.keys() if found.get(part) != expected.get(part))
    signed = key.signed(certificate.message, bytes.fromhex(certificate.signature))
    if changed:
        raise CertificateInvalid(
            f"{name}: the content of {', '.join(changed)} does not match its digest: it was changed after signing"
        )
    if not signed:
        raise CertificateInvalid(
            f"{name}: the signature of key {key.id} does not fit: the signature itself or the digests were changed, "
            "or a part together with its digest"
        )


def _name(certificate: Certificate | str | Path) -> str:
    return "the certificate" if isinstance(certificate, Certificate) else str(certificate)
