"""Certificates that were issued before guarantees had one home: they verify byte for byte and read as they did.

The files in ``certificates`` are snapshots of this library's own output, in both formats, signed with the key of
``certify.sample``. They are never to be written again: whoever holds such a file must be able to verify it.
"""

import json
from pathlib import Path

import pytest

from certify import sample
from eupg.certify.body import FIRST_FORMAT, FORMAT
from eupg.certify.certificate import Certificate
from eupg.certify.render import page
from eupg.certify.verify import verify
from eupg.guarantees import Unit, guarantee_from_json

FOLDER = Path(__file__).parent / "certificates"
FILES = sorted(FOLDER.glob("*.[12].json"))
WORDS = json.loads((FOLDER / "words.json").read_text(encoding="utf-8"))
# The only words that changed: two formatters disagreed where e^ε is beyond what a person reads.
CHANGED = {"e^750 ≈ infinitely many times": "e^750 times"}


def todays(sentence: str) -> str:
    for before, now in CHANGED.items():
        sentence = sentence.replace(before, now)
    return sentence


def test_both_formats_and_every_notion_are_there():
    notions, formats = set(), set()
    for path in FILES:
        body = Certificate.load(path).body
        notions.add(body.claimed.claim.notion)
        formats.add(body.format)
    assert notions == {"exact", "probabilistic k-anonymity", "differential privacy", "(ε, δ)-unlearning"}
    assert formats == {FIRST_FORMAT, FORMAT}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_certificate_is_verified_and_written_again_byte_for_byte(path):
    certificate = Certificate.load(path)
    verify(certificate, key=sample.key().public)
    assert certificate.to_bytes() == path.read_bytes()
    assert certificate.body.claimed.claim.strength(certificate.body.request.unit) in " ".join(str(certificate).split())
    assert certificate.body.ledger.digest in page(certificate)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_claim_of_a_certificate_is_a_guarantee_with_the_same_sentence_and_assumptions(path):
    body = Certificate.load(path).body
    written = json.loads(path.read_bytes())["body"]
    claim = guarantee_from_json(written["claimed"]["claim"])
    assert claim == body.claimed.claim
    assert claim.to_json() == written["claimed"]["claim"]
    assert todays(written["claimed"]["sentence"]).startswith(claim.sentence())
    assert list(claim.assumptions(seeded=body.seeded)) == written["assumed"]


@pytest.mark.parametrize("name", WORDS)
def test_claim_reads_as_it_did(name):
    claim = Certificate.load(FOLDER / f"{name}.2.json").body.claimed.claim
    assert claim.sentence() == todays(WORDS[name]["sentence"])
    for unit in Unit:
        assert claim.strength(unit) == WORDS[name][unit]["strength"]
        assert claim.plain_words(unit) == WORDS[name][unit]["plain_words"]
