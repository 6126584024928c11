"""Data Integrity proofs of the W3C, in the suite ``eddsa-jcs-2022`` (https://www.w3.org/TR/vc-di-eddsa/, section 3.3).

An Ed25519 signature covers two SHA-256 digests: that of the proof without its value, and that of the document without
its proof, each in canonical JSON (RFC 8785). The key is named as a ``did:key``, which spells the key itself, so nothing
has to be looked up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from eupg.certify.canonical import canonical
from eupg.certify.keys import PublicKey, Signer
from eupg.errors import CertificateInvalid, ParameterError

_SUITE = {"type": "DataIntegrityProof", "cryptosuite": "eddsa-jcs-2022", "proofPurpose": "assertionMethod"}
# Of Bitcoin: without characters that look alike.
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# The multicodec prefix of an Ed25519 public key.
_ED25519 = b"\xed\x01"


def did_key(key: PublicKey) -> str:
    """Return the name of a public key as a ``did:key``.

    Examples
    --------
    >>> did_key(PublicKey(bytes(32)))
    'did:key:z6MkeTG3bFFSLYVU7VqhgZxqr6YzpaGrQtFMh1uvqGy1vDnP'
    """
    return f"did:key:{encode(_ED25519 + key.raw)}"


def key_named(method: object) -> PublicKey:
    """Return the key that a verification method names, in the form ``did:key:z6Mk…#z6Mk…``."""
    did, _, fragment = str(method).partition("#")
    name = did.removeprefix("did:key:")
    raw = decode(name) if did != name else b""
    if not raw.startswith(_ED25519) or len(raw) != 34 or fragment != name:
        raise CertificateInvalid("proof.verificationMethod: expected an Ed25519 key as did:key:z6Mk…#z6Mk…, found none")
    return PublicKey(raw[2:])


def add_proof(document: Mapping[str, Any], key: Signer, *, created: str, context: bool = False) -> dict[str, Any]:
    """Return the document with a proof by this key.

    Parameters
    ----------
    document, key
        What is signed, and with which key.
    created
        When, in UTC.
    context
        Whether the proof repeats the document's ``@context``, which is signed in any case. Verifiers in use compare the
        two by identity, and would refuse a context that holds an object.
    """
    did = did_key(key.public)
    proof: dict[str, Any] = {**_SUITE, "created": created, "verificationMethod": f"{did}#{did[len('did:key:') :]}"}
    if context:
        proof["@context"] = document["@context"]
    return {**document, "proof": {**proof, "proofValue": encode(key.sign(_digests(document, proof)))}}


def check_proof(secured: Mapping[str, Any], key: PublicKey) -> None:
    """Check that the proof of a document is by this key, and that nothing was changed."""
    proof = secured.get("proof")
    if not isinstance(proof, Mapping) or any(proof.get(name) != value for name, value in _SUITE.items()):
        raise CertificateInvalid(f"proof: expected one of the suite {_SUITE['cryptosuite']}, found another or none")
    document = {name: value for name, value in secured.items() if name != "proof"}
    if "@context" in proof and proof["@context"] != document.get("@context"):
        raise CertificateInvalid("proof.@context: expected that of the document, found another")
    options = {name: value for name, value in proof.items() if name != "proofValue"}
    signer = key_named(proof.get("verificationMethod"))
    if signer != key:
        raise CertificateInvalid(f"proof: expected one by key {key.id}, found one by key {signer.id}")
    if not key.signed(_digests(document, options), decode(str(proof.get("proofValue")))):
        raise CertificateInvalid(f"proof: the signature of key {key.id} does not match: something was changed")


def _digests(document: Mapping[str, Any], proof: Mapping[str, Any]) -> bytes:
    try:
        return b"".join(hashlib.sha256(canonical(part)).digest() for part in (proof, document))
    except ParameterError as error:
        raise CertificateInvalid(str(error)) from error


def encode(content: bytes) -> str:
    """Write bytes in multibase, base58btc.

    Examples
    --------
    >>> encode(bytes([0, 0, 255])), decode("z115Q") == bytes([0, 0, 255])
    ('z115Q', True)
    """
    number, digits = int.from_bytes(content), ""
    while number:
        number, digit = divmod(number, 58)
        digits = _BASE58[digit] + digits
    return "z" + "1" * (len(content) - len(content.lstrip(b"\0"))) + digits


def decode(text: str) -> bytes:
    """Read bytes from multibase, base58btc."""
    digits = text.removeprefix("z")
    # A signature has 88 digits, a key 47: the time to read a number grows with the square of its length.
    if text == digits or len(digits) > 100 or not set(digits) <= set(_BASE58):
        raise CertificateInvalid("expected multibase text in base58btc, which begins with z, found another")
    number = 0
    for digit in digits:
        number = 58 * number + _BASE58.index(digit)
    zeros = len(digits) - len(digits.lstrip("1"))
    return bytes(zeros) + number.to_bytes(-(-number.bit_length() // 8))
