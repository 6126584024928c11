"""The page: plain words first, nothing that runs or loads, every text escaped, one sheet of A4."""

import dataclasses
import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from certify import sample
from eupg.certify.body import Body, Deletion, Derived
from eupg.certify.certificate import sign
from eupg.certify.issuer import Issuer
from eupg.certify.measured import Measurement, MeasurementKind
from eupg.certify.render import page
from eupg.errors import CertificateInvalid
from eupg.guarantees import CertifiedUnlearning, DifferentiallyPrivate, Neighbours, Unit

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NASTY = "<script>alert('x')</script> & \"<img src=x onerror=alert(1)>"
# A page that says everything at its longest, and one made of the widest letters.
PAGES = {
    "linking": sample.certificate,
    "private": lambda: sample.certificate(sample.PRIVATE),
    "exact": lambda: sample.certificate(sample.EXACT),
    "issuer": lambda: sample.certificate(issuer=sample.ISSUER),
    "crowded": sample.crowded,
    "few words": lambda: sign(_texts(sample.crowded().body, "several words of prose"), sample.key()),
    "more words": lambda: sign(_texts(sample.crowded().body, "several words of prose " * 3), sample.key()),
    "wide": lambda: sign(_texts(sample.crowded().body, "WIDE LETTERS MWMW " * 40), sample.key()),
    "chinese": lambda: sign(_texts(sample.crowded().body, "删除证书" * 300), sample.key()),
    "unbroken": lambda: sign(_texts(sample.crowded().body, "x" * 5000), sample.key()),
}


def _texts(body: Body, text: str) -> Body:
    """Put the text into every field that takes any."""
    claim = dataclasses.replace(body.claimed.claim, covers=[text], leaves_open=[text], caveats=[text, text])
    return dataclasses.replace(
        body,
        issuer=Issuer(name=text[:200], contact=text[:200], reference=text[:200]),
        claimed=dataclasses.replace(body.claimed, claim=claim, sentence=f"{text} {body.claimed.sentence}",
                                    neighbours=text),
        measured=tuple(Measurement(kind=m.kind, result=text, sentence=text, numbers={text: text, "minimum": text},
                                   does_not_show=text) for m in body.measured),
        assumed=(*body.assumed[:1], text, text, text, *body.assumed[1:]),
        not_covered=(text, text, text, *body.not_covered),
        method=dataclasses.replace(body.method, name=text, mechanism=text, learner=text, parameters={text: text}),
        deleted=(Deletion(what=text, digest="ab" * 32, at="2025-02-03T16:44:00Z", event=2**53 - 1),) * 9,
        provenance=dataclasses.replace(body.provenance, eupg=text, python=text, libraries={text: text},
                                       data_derived=(Derived(what=text, source=text),)),
    )  # fmt: skip


class Tags(HTMLParser):
    """The tags and attributes a browser would see."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def words(text: str) -> str:
    body = text[text.index("<body ") :]
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_plain_words_come_before_the_evidence():
    text = words(page(sample.certificate(issuer=sample.ISSUER)))
    order = ["Certificate of erasure", "Example Clinic", "privacy@clinic.example", "Reference 2025/117",
             "What was asked", "What was done", "What holds now", "What limits this claim", "What this does not cover",
             "Evidence", "Claimed", "Measured", "Assumed", "Deleted", "Files",
             "eupg verify FILE --key signing.pub"]  # fmt: skip
    assert sorted(order, key=text.index) == order


def test_page_says_what_was_asked_done_and_found():
    certificate = sample.certificate()
    text = words(page(certificate))
    for said in (
        "to erase all records of one person", "received on 31 January 2025 and accepted on 1 February 2025",
        "The identity of the person who asked was checked", "3 records were erased on 3 February 2025",
        "in time: the request was due on 28 February 2025", "at most 3 in 30",
        "Someone who knows every retained record can undo",
        "visits", "Earlier versions",
        "AUC 52.4 %", "gender in 94%", "minimum 1", "entry 42", "ef" * 32, certificate.key_id, certificate.digest,
        "33" * 32, "5a" * 16,
    ):  # fmt: skip
        assert said in text, said


def test_person_level_epsilon_is_on_the_page():
    text = words(page(sample.certificate(sample.PRIVATE)))
    assert "person-level ε = 3" in text
    assert "more than 20.1 times as likely" in text
    assert "promises little" not in text


def test_large_epsilon_is_called_weak():
    weak = dataclasses.replace(sample.PRIVATE, epsilon=9.0)
    assert "A factor this large promises little." in words(page(sample.certificate(weak)))


def test_page_says_when_no_attack_was_run():
    quiet = [m for m in sample.measures(sample.EXACT) if m.kind is not MeasurementKind.MEMBERSHIP]
    assert "none was run on the new model" in words(page(sample.certificate(sample.EXACT, measured=quiet)))
    assert "none was run" not in words(page(sample.certificate()))


def test_seeded_run_is_marked_before_anything_else():
    text = words(page(sample.certificate(seeded=True)))
    assert text.index("Reproducible run, not private") < text.index("What was asked")
    assert "Reproducible run" not in page(sample.certificate())


def test_model_that_never_saw_the_records_is_said_to_stay():
    body = sample.body()
    never = dataclasses.replace(body, claimed=dataclasses.replace(body.claimed, never_seen_raw=True))
    assert "had never been fitted on them directly" in words(page(sign(never, sample.key())))


def test_late_erasure_says_so():
    late = sample.request(completed="2025-03-02T00:00:00Z")
    assert "on 2 March 2025, late: the request was due on 28 February 2025" in words(
        page(sample.certificate(request=late))
    )


def test_every_text_is_escaped():
    clean = Tags(page(sample.certificate(seeded=True)))
    text = page(sign(_texts(sample.body(seeded=True), NASTY), sample.key()))
    found = Tags(text)
    assert (found.tags, found.attributes) == (clean.tags, clean.attributes)
    assert text.count("&lt;script&gt;") > 10
    assert "<script" not in text


def test_page_loads_and_runs_nothing():
    text = page(sample.certificate())
    found = Tags(text)
    assert not found.tags & {"script", "link", "img", "iframe", "object", "embed", "form", "a"}
    assert not found.attributes & {"src", "href", "style"}
    assert not re.search(r"https?:|url\(|@import", text)


def test_changed_certificate_gets_no_page():
    forged = dataclasses.replace(sample.certificate(), signature="00" * 64)
    with pytest.raises(CertificateInvalid):
        page(forged)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium to print the page")
@pytest.mark.parametrize("name", PAGES)
def test_page_prints_on_one_sheet_of_a4(name, tmp_path):
    (tmp_path / "page.html").write_text(page(PAGES[name]()), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--disable-gpu", "--no-pdf-header-footer",
               f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={tmp_path / 'page.pdf'}",
               (tmp_path / "page.html").as_uri()]  # fmt: skip
    if os.geteuid() == 0:
        # Chromium refuses to sandbox itself for root; the page runs nothing.
        command.insert(1, "--no-sandbox")
    subprocess.run(command, capture_output=True, check=True, timeout=60)
    content = (tmp_path / "page.pdf").read_bytes()
    sheets = re.findall(rb"/Type\s*/Page\b[^s]", content)
    (width, height) = map(float, re.search(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", content).groups())
    assert len(sheets) == 1
    assert (round(width / 72 * 25.4), round(height / 72 * 25.4)) == (210, 297)


CLAIMS = (
    sample.LINKING,
    sample.PRIVATE,
    DifferentiallyPrivate(epsilon=1.0, delta=1e-5, unit=Unit.PERSON, neighbours=Neighbours.ADD_OR_REMOVE),
    CertifiedUnlearning(epsilon=1.0, delta=1e-5),
)


def block(text: str, name: str) -> str:
    return re.search(rf"<dt[^>]*>{name}</dt><dd[^>]*>(.*?)</dd>", text, re.S)[1]


def test_what_narrows_the_claim_keeps_its_end():
    """The predicate of a caveat stands at its end, after all the names."""
    names = ", ".join(repr(f"column {i}") for i in range(60))
    end = "read from the data: the claim does not cover what they reveal"
    caveat = f"lower, upper of {names} {end}"
    shown = block(
        page(sample.certificate(dataclasses.replace(sample.EXACT, caveats=(caveat,)))), "What limits this claim"
    )
    assert "[…]" in shown
    assert end in shown
    both = dataclasses.replace(sample.EXACT, caveats=("the claim is record-level", caveat))
    derived = dataclasses.replace(sample.body().provenance, data_derived=(Derived(what=caveat, source="the records"),))
    shown = block(page(sample.certificate(both, provenance=derived)), "What limits this claim")
    assert shown == "The claim is record-level. […]"


def test_what_was_read_from_the_data_is_said_once():
    caveat = "lower of 'age' read from the data: the claim does not cover what they reveal"
    derived = dataclasses.replace(sample.body().provenance, data_derived=(Derived(what=caveat, source="the records"),))
    text = page(sample.certificate(dataclasses.replace(sample.EXACT, caveats=(caveat,)), provenance=derived))
    assert block(text, "What limits this claim").count("ower of") == 1


def test_gap_in_the_measurements_says_why_on_the_page():
    rest = [m for m in sample.measures(sample.EXACT) if m.kind is not MeasurementKind.MEMBERSHIP]
    why = "a figure about fewer than 20 people would be about each of them"
    text = words(
        page(sample.certificate(sample.EXACT, measured=[*rest, Measurement.missing(MeasurementKind.MEMBERSHIP, why)]))
    )
    assert f"Not measured: {why}." in text


def test_page_says_what_groups_share_and_how_many_were_forgotten_together():
    text = words(page(sample.certificate()))
    assert "following share of all released records: visits 29 %." in text
    assert "4 people were forgotten together; the fewer, the more a comparison of the models before" in text


def test_page_without_an_issuer_says_so_and_names_the_key():
    certificate = sample.certificate()
    assert f"The issuer gave no name. The key {certificate.key_id} signed this certificate." in words(page(certificate))


@pytest.mark.parametrize("claim", [*CLAIMS, sample.EXACT], ids=lambda claim: claim.notion)
def test_what_holds_now_is_said_in_two_sentences(claim):
    shown = block(page(sample.certificate(claim)), "What holds now")
    assert len(re.findall(r"[.](?= [A-Z]|$)", shown)) == 2, shown
    assert "[…]" not in shown
