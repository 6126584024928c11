"""Issue the golden claims again in today's words: ``python tests/golden/issue.py FOLDER`` with ``tests`` on the path.

For a change of words, write a new folder and add it to ``FOLDERS`` in ``test_certificates``. A folder that exists is
never written again: whoever holds such a certificate must be able to verify it.
"""

import json
import sys
from pathlib import Path

from certify import sample
from eupg.certify.body import Body
from eupg.certify.certificate import Certificate, sign
from eupg.certify.claimed import Claimed
from eupg.certify.measured import Measurement, MeasurementKind
from eupg.guarantees import Guarantee, KAnonymous, Unit

FIRST = Path(__file__).parent / "certificates"


def issue(before: Body) -> Certificate:
    """Return a certificate about the same request and claim in today's words."""
    claim = before.claimed.claim
    measured = sample.measures(claim)
    if isinstance(claim, KAnonymous) and claim.shared is None:
        measured.append(Measurement.missing(MeasurementKind.SHARED_VALUES, "an earlier version made the release"))
    body = Body.of(
        issued=before.issued,
        request=before.request,
        method=before.method,
        claimed=Claimed.of(
            claim.to_json(),
            claim.sentence(),
            never_seen_raw=before.claimed.never_seen_raw,
            seeded=before.method.seeded,
        ),
        measured=measured,
        deleted=before.deleted,
        provenance=before.provenance,
        ledger=before.ledger,
        issuer=sample.ISSUER,
    )
    return sign(body, sample.key())


def words(claim: Guarantee) -> dict[str, object]:
    """Return every text that is derived from a claim."""
    units = {str(unit): {"strength": claim.strength(unit), "plain_words": claim.plain_words(unit)} for unit in Unit}
    return {"label": claim.label, "sentence": claim.sentence(), **units}


def main(folder: Path) -> None:
    """Write one certificate per golden claim, and the words of all of them."""
    folder.mkdir()
    texts = {}
    for path in sorted(FIRST.glob("*.2.json")):
        name = path.name.removesuffix(".2.json")
        certificate = issue(Certificate.load(path).body)
        certificate.save(folder / f"{name}.json")
        texts[name] = words(certificate.body.claimed.claim)
    (folder / "words.json").write_text(json.dumps(texts, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
