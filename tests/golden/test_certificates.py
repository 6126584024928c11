"""Certificates of earlier versions verify byte for byte, and today's words are pinned.

The files are snapshots of this library's own output, signed with the key of ``certify.sample``: ``certificates`` holds
both formats in the words of the first version, ``certificates-plain-words`` plainer words, and ``certificates-issuer``
today's words and an issuer. They are never written again: whoever holds such a file must be able to verify it.
``golden.issue`` writes a new folder.
"""

import json
from pathlib import Path

import pytest

from certify import sample
from eupg.certify.body import FIRST_FORMAT, FORMAT
from eupg.certify.certificate import Certificate
from eupg.certify.credential import Credential
from eupg.certify.render import page
from eupg.certify.verification import verify
from eupg.guarantees import guarantee_from_json
from golden.issue import words

HERE = Path(__file__).parent
TODAY = HERE / "certificates-issuer"
FOLDERS = (HERE / "certificates", HERE / "certificates-plain-words", TODAY)
FILES = sorted(path for folder in FOLDERS for path in folder.glob("*.json") if path.name != "words.json")
WORDS = json.loads((TODAY / "words.json").read_text(encoding="utf-8"))


def test_both_formats_and_every_notion_are_there():
    notions, formats = set(), set()
    for path in FILES:
        body = Certificate.load(path).body
        notions.add(body.claimed.claim.notion)
        formats.add(body.format)
    assert notions == {"exact", "probabilistic k-anonymity", "differential privacy", "(ε, δ)-unlearning"}
    assert formats == {FIRST_FORMAT, FORMAT}
    assert len(FILES) == 52


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_certificate_is_verified_and_written_again_byte_for_byte(path):
    certificate = Certificate.load(path)
    verify(certificate, key=sample.key().public)
    assert certificate.to_bytes() == path.read_bytes()
    assert certificate.body.claimed.claim.strength(certificate.body.request.unit) in " ".join(str(certificate).split())
    assert certificate.body.ledger.digest in page(certificate)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_claim_of_a_certificate_is_read_as_a_guarantee(path):
    body = Certificate.load(path).body
    written = json.loads(path.read_bytes())["body"]
    claim = guarantee_from_json(written["claimed"]["claim"])
    assert claim == body.claimed.claim
    assert claim.to_json() == written["claimed"]["claim"]
    if path.parent == TODAY:
        assert written["claimed"]["sentence"].startswith(claim.sentence())
        assert list(claim.assumptions(seeded=body.seeded)) == written["assumed"]


def test_credential_is_verified_and_made_again():
    """As ``Credential.of`` wrote it when credentials were new; whoever holds one must be able to verify it."""
    credential = Credential.load(HERE / "credential.json")
    verify(credential, key=sample.key().public)
    assert credential.certificate == Certificate.load(TODAY / "k-anonymous.json")
    assert Credential.of(credential.certificate, sample.key()).document == credential.document


@pytest.mark.parametrize("name", WORDS)
def test_claim_is_put_into_the_same_words(name):
    assert words(Certificate.load(TODAY / f"{name}.json").body.claimed.claim) == WORDS[name]
