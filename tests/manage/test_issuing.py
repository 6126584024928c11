"""The issuer of a workspace's certificates, named once and remembered; and certificates as credentials."""

import json

import pytest

from certify import sample
from commands import eupg, words
from eupg import Manager, verify
from eupg.certify import Credential, Issuer
from eupg.errors import CertificateInvalid, ParameterError
from managed import person, trained

CLINIC = Issuer(name="Example Clinic", contact="privacy@clinic.example")


@pytest.fixture
def manager(tmp_path):
    with trained(tmp_path / "ws") as manager:
        manager.request_erasure(subject=person(1))
        manager.forget()
        yield manager


def test_issuer_is_remembered_and_the_reference_is_not(manager):
    assert manager.certify().body.issuer is None
    named = manager.certify(issuer=CLINIC, reference="2025/117")
    assert named.body.issuer == Issuer(name=CLINIC.name, contact=CLINIC.contact, reference="2025/117")
    with_reference = Issuer(name=CLINIC.name, contact=CLINIC.contact, reference="2025/118")
    assert manager.certify(issuer=with_reference).body.issuer == with_reference
    manager.close()
    again = Manager(manager.space.folder)
    assert again.certify().body.issuer == CLINIC
    assert len(list(again.space.ledger.entries(kinds=["issuer"]))) == 1
    again.verify(named)
    again.close()


def test_another_issuer_replaces_the_first(manager):
    manager.certify(issuer=CLINIC)
    assert manager.certify(issuer=Issuer(name="Example Hospital")).body.issuer == Issuer(name="Example Hospital")
    assert manager.certify().body.issuer == Issuer(name="Example Hospital")


def test_wrong_issuers_are_refused(manager):
    with pytest.raises(ParameterError, match="none is named"):
        manager.certify(reference="2025/117")
    with pytest.raises(ParameterError, match=r"got str: pass Issuer\(name=…"):
        manager.certify(issuer="Example Clinic")
    for text in ("", "   ", "x" * 201):
        with pytest.raises(ParameterError, match="name: expected"):
            Issuer(name=text)


def test_changed_issuer_is_not_verified(manager, tmp_path):
    certificate = manager.certify(issuer=CLINIC)
    certificate.save(tmp_path / "c.json")
    content = (tmp_path / "c.json").read_text(encoding="utf-8")
    (tmp_path / "c.json").write_text(content.replace("Example Clinic", "Another Clinic"), encoding="utf-8")
    with pytest.raises(CertificateInvalid, match="the content of issuer does not match"):
        verify(tmp_path / "c.json", key=manager.space.signing.public)


def test_credential_is_verified_against_the_workspace(manager):
    certificate = manager.certify(issuer=CLINIC)
    credential = manager.credential(certificate)
    manager.verify(credential)
    verify(credential, key=manager.space.signing.public)
    with pytest.raises(CertificateInvalid):
        manager.credential(sample.certificate())


def test_command_line_names_the_issuer_and_writes_and_checks_a_credential(manager, tmp_path):
    manager.close()
    files = ("--out", "c.json", "--page", "c.html", "--credential", "v.json")
    named = ("--issuer", "Example Clinic", "--contact", "privacy@clinic.example", "--reference", "2025/117")
    issued = eupg("certify", "--workspace", "ws", *files, *named, cwd=tmp_path)
    assert issued.returncode == 0
    assert "Issuer Example Clinic, privacy@clinic.example, reference 2025/117" in words(issued)
    assert "Credential: v.json" in words(issued)
    body = Credential.load(tmp_path / "v.json").certificate.body
    assert str(body.issuer) == "Example Clinic, privacy@clinic.example, reference 2025/117"
    for file in ("c.json", "v.json"):
        checked = eupg("verify", file, "--key", "ws/keys/signing.pub", "--workspace", "ws", cwd=tmp_path)
        assert checked.returncode == 0, words(checked)
    document = json.loads((tmp_path / "v.json").read_text(encoding="utf-8"))
    document["credentialSubject"]["done"] = "Everything was erased."
    (tmp_path / "changed.json").write_text(json.dumps(document), encoding="utf-8")
    for how in (("--key", "ws/keys/signing.pub"), ("--integrity-only",)):
        refused = eupg("verify", "changed.json", *how, cwd=tmp_path)
        assert refused.returncode == 1
        assert "NOT VERIFIED" in words(refused)
    wrong = eupg("certify", "--workspace", "ws", "--out", "d.json", "--contact", "x", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "--contact belongs to an issuer" in words(wrong)
