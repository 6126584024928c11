"""The certificate as a page for the data-protection officer: plain words first, evidence after, one sheet of A4.

The page has no scripts and loads nothing. Where a text does not fit, whole sentences are left out visibly. The signed
file has them in full: it is the evidence, and the page is not.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from eupg.certify.body import Body
from eupg.certify.certificate import Certificate
from eupg.certify.measured import MeasurementKind
from eupg.certify.shortening import fit
from eupg.certify.statement import asked, day, done, files, holds, limits, moment
from eupg.certify.summary import readable, short
from eupg.certify.verification import verify_integrity
from eupg.guarantees.wording import SEEDED
from eupg.pages import render

_ROWS = 6
_ITEMS = 4
# Lists of short sentences have room for more of them.
_ITEMS_IF_SHORT, _SHORT = 6, 900
_DELETIONS = 2
# How much more room each text gets where all of them together are short enough.
_AMPLE, _MOST_IF_AMPLE = 1.8, 10_200
# The more text, the smaller the print: the largest amount of text for each size. A text begins a line of its own, which
# takes as much room as this many letters.
_SIZES = ((6300, "large"), (7600, "medium"), (8500, "small"), (9600, "smaller"), (math.inf, "smallest"))
_LINE = 70


def page(certificate: Certificate) -> str:
    """Return the certificate as one self-contained HTML page that prints on one sheet of A4.

    The signature is checked first: there is no page for a certificate that was changed. Whether the key is the
    issuer's is for the reader to check; the page says how.
    """
    verify_integrity(certificate)
    texts = _texts(certificate, _AMPLE)
    if _amount(texts) > _MOST_IF_AMPLE:
        texts = _texts(certificate, 1.0)
    amount = _amount(texts)
    return render("certificate.html", texts | {"size": next(name for most, name in _SIZES if amount <= most)})


def _amount(texts: Any) -> int:
    """Count the letters of all texts, wide ones twice, and a line per text."""
    if isinstance(texts, Mapping | list | tuple):
        return sum(map(_amount, texts.values() if isinstance(texts, Mapping) else texts))
    return _LINE * bool(str(texts)) + sum(map(_width, str(texts)))


def _texts(certificate: Certificate, room: float) -> dict[str, Any]:
    """Return the texts of the page; with more room fewer sentences are left out."""
    body = certificate.body
    return {
        "issuer": {
            name: _text(getattr(body.issuer, name, None) or "", 90) for name in ("name", "contact", "reference")
        },
        "issued": day(body.issued),
        "request": body.request.id,
        "warning": SEEDED if body.seeded else "",
        "asked": _text(asked(body), 400),
        "done": _text(done(body), 500),
        "holds": _text(holds(body), 620),
        "limits": _text(" ".join(limits(body)) or "Nothing but the assumptions below.", 400 * room),
        "not_covered": _list(body.not_covered, 160 * room, room),
        "claim": _text(body.claimed.sentence, 560),
        "about": _text(_about(body), 290),
        "measures": _measures(body, room),
        "assumed": _list(body.assumed, 240 * room, room),
        "deletions": [
            {"what": _text(d.what, 36), "at": moment(d.at), "digest": short(d.digest), "event": d.event}
            for d in body.deleted[:_DELETIONS]
        ],
        "more_deletions": max(0, len(body.deleted) - _DELETIONS),
        "files": [
            *files(body),
            ("this certificate", certificate.digest),
            (f"ledger, entry {body.ledger.number}", body.ledger.digest),
            (f"{body.request.unit}, keyed digest", body.request.digest),
        ],
        "key": certificate.key_id,
        "made": _text(_made(body), 110),
    }


def _about(body: Body) -> str:
    claimed, method = body.claimed, body.method
    compared = claimed.neighbours or "none are compared"
    made = f"{method.name} with {method.mechanism or 'no protected copy'}, {method.learner}"
    covers = f"{len(claimed.claim.covers)} attributes covered. " if claimed.claim.covers else ""
    strength = claimed.claim.strength(body.request.unit)
    return f"Strength: {strength}. Unit: {claimed.unit}. Neighbours: {compared}. {covers}Method: {made}."


def _made(body: Body) -> str:
    provenance = body.provenance
    versions = [("eupg", provenance.eupg), ("Python", provenance.python), *sorted(provenance.libraries.items())]
    return f"Made by {', '.join(f'{name} {version}' for name, version in versions)}."


def _measures(body: Body, room: float) -> list[tuple[str, str, str]]:
    rows = [(m.kind.value, _text(m.result, 130 * room), _text(m.does_not_show, 105 * room)) for m in body.measured]
    rows, more = rows[:_ROWS], len(rows) - _ROWS
    if body.measurement(MeasurementKind.MEMBERSHIP) is None:
        rows.append((MeasurementKind.MEMBERSHIP.value, "none was run on the new model", ""))
    if more > 0:
        rows.append((f"and {more} more", "in the signed file", ""))
    return rows


def _list(texts: Sequence[str], longest: float, room: float) -> list[str]:
    most = _ITEMS_IF_SHORT if sum(map(len, texts)) <= _SHORT * room else _ITEMS
    more = [f"and {len(texts) - most} more in the signed file"] if len(texts) > most else []
    return [_text(text, longest) for text in texts[:most]] + more


def _text(text: str, longest: float) -> str:
    """Return as many whole sentences of a text as fit, with a mark where others are left out."""
    text = readable(" ".join(text.split()))
    return fit([text], lambda shown: sum(map(_width, shown)) <= longest) if text else ""


def _width(letter: str) -> int:
    """Estimate the room a letter takes: wide ones count twice, so that a page of capitals still fits."""
    return 2 if letter.isupper() or letter in "mw@%—" or unicodedata.east_asian_width(letter) in "WFA" else 1
