"""Verification: a certificate passes as it was issued, under the issuer's key, and in no other way."""

import dataclasses
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certify import sample
from eupg.certify.canonical import canonical
from eupg.certify.certificate import Certificate, part_digests
from eupg.certify.verification import check_ledger_head, verify, verify_integrity
from eupg.errors import CertificateInvalid, EupgError, ParameterError

CERTIFICATE = sample.certificate()
CONTENT = CERTIFICATE.to_bytes()
KEY = sample.key().public


def checked(content: bytes) -> None:
    verify(Certificate.from_bytes(content), key=KEY)


def resigned(change) -> bytes:
    """A forgery by the owner of the key: changed content under a fresh, fitting signature."""
    values = json.loads(CONTENT)
    change(values)
    del values["signature"]
    values["digests"] = {k: _digest(v) for k, v in values["body"].items()}
    return canonical(values | {"signature": sample.key().sign(canonical(values)).hex()})


def _digest(part) -> str:
    import hashlib

    return hashlib.sha256(canonical(part)).hexdigest()


def test_certificate_passes_as_issued_from_memory_and_file(tmp_path):
    CERTIFICATE.save(tmp_path / "certificate.json")
    (tmp_path / "signing.pub").write_bytes(KEY.to_pem())
    assert verify(CERTIFICATE, key=KEY) is None
    verify(tmp_path / "certificate.json", key=tmp_path / "signing.pub")
    verify(str(tmp_path / "certificate.json"), key=str(tmp_path / "signing.pub"))
    verify_integrity(tmp_path / "certificate.json")


def test_helper_that_signs_again_makes_valid_files():
    checked(resigned(lambda values: None))


@given(st.integers(0, len(CONTENT) - 1), st.integers(0, 255))
def test_any_changed_byte_is_found(place, byte):
    changed = CONTENT[:place] + bytes([byte]) + CONTENT[place + 1 :]
    if changed == CONTENT:
        checked(changed)
    else:
        with pytest.raises(CertificateInvalid):
            checked(changed)


def test_flipped_bit_is_found_all_through_the_file():
    # Every fifth byte, so that each of the eight bits has its turn.
    for place in range(0, len(CONTENT), 5):
        changed = bytearray(CONTENT)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(CertificateInvalid):
            checked(bytes(changed))


@given(st.integers(0, len(CONTENT)), st.sampled_from([b" ", b"\n", b"0", b"x", b"\x00"]))
def test_any_inserted_byte_is_found(place, byte):
    with pytest.raises(CertificateInvalid):
        checked(CONTENT[:place] + byte + CONTENT[place:])


@given(st.integers(0, len(CONTENT) - 1))
def test_any_cut_is_found(place):
    with pytest.raises(CertificateInvalid):
        checked(CONTENT[:place])


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (b'"auc":52.4', b'"auc":50.4', "the content of measured does not match"),
        (b'"epsilon"', b'"epsilom"', "body.claimed.claim"),
        (b'"identity_verified":true', b'"identity_verified":false', "the content of request does not match"),
        (b'"number":42', b'"number":41', "the content of ledger does not match"),
        (b'"event":40', b'"event":39', "the content of deleted does not match"),
    ],
)
def test_changed_part_is_named(old, new, named):
    content = sample.certificate(sample.PRIVATE).to_bytes()
    assert old in content
    with pytest.raises(CertificateInvalid, match=named):
        checked(content.replace(old, new))


def test_part_changed_together_with_its_digest_is_found():
    body = dataclasses.replace(CERTIFICATE.body, issued="2024-01-01T00:00:00Z")
    forged = dataclasses.replace(CERTIFICATE, body=body, digests=part_digests(body))
    with pytest.raises(CertificateInvalid, match=r"the signature of key .* does not match"):
        verify(forged, key=KEY)


def test_wrong_digest_under_a_fitting_signature_is_found():
    values = json.loads(CONTENT)
    del values["signature"]
    values["digests"]["issued"] = "00" * 32
    forged = canonical(values | {"signature": sample.key().sign(canonical(values)).hex()})
    with pytest.raises(CertificateInvalid, match="the content of issued does not match"):
        checked(forged)


def test_signature_of_another_certificate_is_refused():
    other = sample.certificate(issued="2025-02-04T17:00:00Z")
    with pytest.raises(CertificateInvalid, match=r"the signature of key .* does not match"):
        verify(dataclasses.replace(CERTIFICATE, signature=other.signature), key=KEY)


def test_other_signer_is_refused_and_both_keys_are_named():
    forged = sample.certificate(seed=2)
    verify_integrity(forged)
    with pytest.raises(CertificateInvalid, match=f"signed with key {forged.key_id}, expected {KEY.id}"):
        verify(forged, key=KEY)


def test_other_signer_under_the_issuer_s_name_is_refused():
    forged = dataclasses.replace(sample.certificate(seed=2), key=KEY)
    with pytest.raises(CertificateInvalid, match=r"the signature of key .* does not match"):
        verify(forged, key=KEY)


def test_key_id_that_is_not_the_key_s_is_refused():
    def rename(values):
        values["key"]["id"] = "0" * 16

    with pytest.raises(CertificateInvalid, match="expected the key 0000000000000000, found"):
        checked(resigned(rename))


def test_verification_needs_a_key():
    with pytest.raises(TypeError, match="key"):
        verify(CERTIFICATE)


def test_something_else_than_a_certificate_is_refused():
    with pytest.raises(ParameterError, match="expected a certificate or the path of one, got dict"):
        verify({}, key=KEY)


def test_duplicate_key_is_refused():
    doubled = CONTENT.replace(b'{"body":{', b'{"body":{"issued":"2024-01-01T00:00:00Z",', 1)
    with pytest.raises(CertificateInvalid, match="'issued' twice"):
        checked(doubled)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v["body"].update(format="eupg-certificate-9"), "'eupg-certificate-9': check it with the version"),
        (lambda v: v["body"].update(extra=1), "extra: expected no such field"),
        (lambda v: v.update(extra=1), "extra: expected no such field"),
        (lambda v: v["body"]["claimed"].update(claim={"notion": "none", "why": "no reason"}), "nothing is claimed"),
        (lambda v: v["body"]["claimed"]["claim"].update(k=3), "says nothing"),
        (lambda v: v["body"].update(not_covered=[]), "not_covered has to say"),
        (lambda v: v["body"]["method"].update(seeded=True), "a seeded run has to say"),
        (lambda v: v["body"].update(measured=[]), "needs a word about"),
        (lambda v: v.update(body=[]), "format: expected"),
        (lambda v: v.update(key="mine"), r"certificate\.key: expected an object"),
    ],
)
def test_content_no_certificate_may_have_is_refused_even_if_signed(change, message):
    values = json.loads(CONTENT)
    change(values)
    content = canonical(values) if not isinstance(values["body"], dict) else resigned(change)
    with pytest.raises(CertificateInvalid, match=message):
        checked(content)


@pytest.mark.parametrize("content", [b"", b"null", b"[]", b"{}", b'"text"', b"\x00", b"[" * 10_000, b" " * (2**24 + 1)])
def test_no_certificate_at_all_is_refused(content, tmp_path):
    (tmp_path / "certificate.json").write_bytes(content)
    with pytest.raises(CertificateInvalid, match=r"certificate\.json"):
        verify(tmp_path / "certificate.json", key=KEY)


@given(
    st.recursive(st.none() | st.integers(0, 9) | st.text("ab"), st.lists)
    | st.dictionaries(
        st.sampled_from(["body", "digests", "key", "signature"]), st.dictionaries(st.text("ab"), st.none()) | st.none()
    )
)
def test_strange_json_is_refused_and_never_crashes(value):
    with pytest.raises(CertificateInvalid):
        Certificate.from_bytes(canonical(value))


def test_ledger_head_is_looked_up():
    check_ledger_head(CERTIFICATE, {42: "ef" * 32}.get)
    with pytest.raises(CertificateInvalid, match=r"no entry 42.*cut off"):
        check_ledger_head(CERTIFICATE, {41: "ef" * 32}.get)
    with pytest.raises(CertificateInvalid, match=r"entry 42 of the ledger has the digest 00.*rewritten"):
        check_ledger_head(CERTIFICATE, {42: "00" * 32}.get)


def test_verification_imports_nothing_that_can_train():
    code = "import sys, eupg.certify.verification, eupg.certify.render; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "eupg.certify.verification" in loaded
    heavy = ("torch", "xgboost", "lightgbm", "sklearn", "pandas", "numpy", "scipy", "numba", "sqlalchemy")
    assert not loaded & set(heavy)
    assert not [m for m in loaded if m.startswith(("eupg.learn", "eupg.forget", "eupg.protect", "eupg.manage"))]


def test_errors_are_in_the_tree():
    assert issubclass(CertificateInvalid, EupgError)
    assert issubclass(CertificateInvalid, ValueError)
