"""Credentials: the suite gives the W3C's own figures, a verifier that is not ours agrees, and no change goes unseen."""

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from certify import sample
from eupg import verify
from eupg.certify import Credential
from eupg.certify.certificate import Certificate
from eupg.certify.data_integrity import add_proof, check_proof, decode, did_key, encode, key_named
from eupg.certify.keys import PublicKey, SigningKey
from eupg.certify.verification import verify_integrity
from eupg.errors import CertificateInvalid, CertificateRefused

KEY = sample.key()
VERIFIER = Path(__file__).parent / "verifier"
# Data Integrity EdDSA Cryptosuites 1.0, test vectors, "Representation: eddsa-jcs-2022".
W3C_KEYS = ("z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2", "z3u2en7t5LR2WtQH5PfFqMqwVHBeXouLzo6haApm8XHqvjxq")
W3C_DOCUMENT = {
    "@context": ["https://www.w3.org/ns/credentials/v2", "https://www.w3.org/ns/credentials/examples/v2"],
    "id": "urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33",
    "type": ["VerifiableCredential", "AlumniCredential"],
    "name": "Alumni Credential",
    "description": "A minimum viable example of an Alumni Credential.",
    "issuer": "https://vc.example/issuers/5678",
    "validFrom": "2023-01-01T00:00:00Z",
    "credentialSubject": {"id": "did:example:abcdefgh", "alumniOf": "The School of Examples"},
}
W3C_CREATED = "2023-02-24T23:36:38Z"
W3C_VALUE = "z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpwTWd3GAVFuUfjoJdcnTMuVor51aX"


def w3c_key() -> SigningKey:
    private = Ed25519PrivateKey.from_private_bytes(decode(W3C_KEYS[1])[2:])
    return SigningKey(PublicKey(private.public_key().public_bytes_raw()), private)


@pytest.fixture
def credential() -> Credential:
    return Credential.of(sample.certificate(issuer=sample.ISSUER), KEY)


def test_proof_is_that_of_the_published_test_vector():
    key = w3c_key()
    assert did_key(key.public) == f"did:key:{W3C_KEYS[0]}"
    secured = add_proof(W3C_DOCUMENT, key, created=W3C_CREATED, context=True)
    assert secured["proof"]["proofValue"] == W3C_VALUE
    check_proof(secured, key.public)


@given(st.binary(max_size=70))
def test_base58_is_read_back(content):
    assert decode(encode(content)) == content


@pytest.mark.parametrize("text", ["", "115Q", "z0", "zO", "zl", "z" + "2" * 200, "z é"])
def test_other_text_is_not_base58(text):
    with pytest.raises(CertificateInvalid, match="base58btc"):
        decode(text)


def test_a_key_is_known_by_its_name():
    did = did_key(KEY.public)
    assert key_named(f"{did}#{did.removeprefix('did:key:')}") == KEY.public
    for other in (did, f"{did}#other", did.removeprefix("did:key:"), None, "did:key:#"):
        with pytest.raises(CertificateInvalid):
            key_named(other)


def test_credential_says_what_the_certificate_says(credential):
    body, document = sample.body(issuer=sample.ISSUER), credential.document
    assert document["issuer"] == {"id": did_key(KEY.public), **sample.ISSUER.to_json()}
    subject = document["credentialSubject"]
    assert subject["holds"] == body.claimed.claim.plain_words(body.request.unit)
    assert subject["notCovered"] == list(body.not_covered)
    assert subject["certificate"] == credential.certificate.to_json()
    assert document["validFrom"] == body.issued


@pytest.mark.parametrize("claim", [sample.LINKING, sample.PRIVATE, sample.EXACT], ids=lambda claim: claim.notion)
def test_credential_comes_back_from_its_file_and_is_verified(claim, tmp_path):
    certificate = sample.certificate(claim)
    Credential.of(certificate, KEY).save(tmp_path / "c.json")
    verify(tmp_path / "c.json", key=KEY.public)
    verify_integrity(Credential.load(tmp_path / "c.json"))
    assert Credential.load(tmp_path / "c.json").certificate == certificate
    # Spaces are not signed, because the proof covers the canonical form.
    dense = json.dumps(json.loads((tmp_path / "c.json").read_text(encoding="utf-8")), separators=(",", ":"))
    (tmp_path / "dense.json").write_text(dense, encoding="utf-8")
    verify(tmp_path / "dense.json", key=KEY.public)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every text, number and truth value."""
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, part in inner for found in places(part, (*path, key))]
    return [path]


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value} "


def test_no_value_of_a_credential_can_be_changed(credential):
    everywhere = places(credential.document)
    assert len(everywhere) > 150
    for path in everywhere:
        document = copy.deepcopy(credential.document)
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = changed(holder[path[-1]])
        with pytest.raises(CertificateInvalid):
            verify(Credential(document), key=KEY.public)


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a field added": lambda d: d.update(extra="hidden"),
    "a sentence dropped": lambda d: d["credentialSubject"]["notCovered"].pop(0),
    "no proof": lambda d: d.pop("proof"),
    "a field of the proof added": lambda d: d["proof"].update(expires="2030-01-01T00:00:00Z"),
    "another context in the proof": lambda d: d["proof"].update({"@context": ["https://www.w3.org/ns/credentials/v2"]}),
    "not a number": lambda d: d.update(extra=float("nan")),
    "no subject": lambda d: d.pop("credentialSubject"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_credential_is_refused(change, credential):
    change(credential.document)
    with pytest.raises(CertificateInvalid):
        verify(credential, key=KEY.public)


def test_credential_by_another_key_is_refused(credential):
    with pytest.raises(CertificateInvalid, match="expected"):
        verify(credential, key=sample.key(2).public)
    with pytest.raises(CertificateRefused, match="was signed with key"):
        Credential.of(credential.certificate, sample.key(2))


def test_certificate_of_another_inside_a_signed_credential_is_refused(credential):
    """Whoever wraps somebody else's certificate signs the wrapping alone."""
    document = {name: part for name, part in credential.document.items() if name != "proof"}
    for foreign in (
        sample.certificate(seed=2),
        sample.certificate(),
        sample.certificate(issued="2025-02-04T17:00:00Z"),
    ):
        subject = {**document["credentialSubject"], "certificate": foreign.to_json()}
        wrapped = add_proof({**document, "credentialSubject": subject}, KEY, created="2025-02-03T17:00:00Z")
        with pytest.raises(CertificateInvalid, match="disagree"):
            verify(Credential(wrapped), key=KEY.public)


def test_key_that_is_there_twice_is_refused(credential, tmp_path):
    text = json.dumps(credential.document)
    (tmp_path / "c.json").write_text(text.replace('"validFrom"', '"validFrom": "2020-01-01T00:00:00Z", "validFrom"', 1))
    with pytest.raises(CertificateInvalid, match="twice"):
        verify(tmp_path / "c.json", key=KEY.public)


def test_other_documents_are_named_as_what_they_are(credential, tmp_path):
    credential.certificate.save(tmp_path / "c.json")
    with pytest.raises(CertificateInvalid, match=r"c\.json: expected a credential"):
        Credential.load(tmp_path / "c.json")
    credential.save(tmp_path / "v.json")
    with pytest.raises(CertificateInvalid, match="not a certificate"):
        Certificate.load(tmp_path / "v.json")


def test_checking_a_credential_loads_nothing_that_trains(credential, tmp_path):
    credential.save(tmp_path / "c.json")
    (tmp_path / "k.pub").write_bytes(KEY.public.to_pem())
    code = (
        "import sys; from eupg import verify; verify('c.json', key='k.pub');"
        "print([m for m in sys.modules if m.startswith(('eupg.learn', 'eupg.forget', 'eupg.manage', 'numpy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(
    shutil.which("node") is None or not (VERIFIER / "node_modules").is_dir(),
    reason="needs Node.js and npm ci --prefix tests/certify/verifier",
)
def test_a_verifier_that_is_not_ours_accepts_credentials_and_refuses_changed_ones(credential, tmp_path):
    papers = [sample.certificate(claim) for claim in (sample.LINKING, sample.PRIVATE, sample.EXACT)]
    credentials = [credential, *(Credential.of(paper, KEY) for paper in papers)]
    for number, paper in enumerate(credentials):
        paper.save(tmp_path / f"{number}.json")
    credential.document["credentialSubject"]["holds"] = "Nothing is left."
    credential.save(tmp_path / "changed.json")
    names = [str(tmp_path / f"{number}.json") for number in range(len(credentials))]
    command = ["node", str(VERIFIER / "verify.mjs"), *names, str(tmp_path / "changed.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    accepted = {"verified": True, "defined": True}
    assert json.loads(done.stdout) == [*[accepted] * len(names), {"verified": False, "defined": True}]
