"""The certificate as a page for the data-protection officer: plain words first, evidence after, one sheet of A4.

The page holds no script and loads nothing. Of texts that would not fit, whole sentences are left out where one can see
it; the signed file has them in full and is the evidence, the page is not.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from string import Template

from eupg.certify.body import Body
from eupg.certify.certificate import Certificate
from eupg.certify.fitting import fit
from eupg.certify.measured import Kind
from eupg.certify.summary import erased, files, moment, narrowings, readable, short, together
from eupg.certify.verify import verify_integrity
from eupg.guarantees import KAnonymous
from eupg.guarantees.wording import SEEDED

_ROWS = 6
_ITEMS = 4
# Lists of ordinary sentences have room for more of them.
_ITEMS_IF_SHORT, _SHORT = 6, 900
_DELETIONS = 2
# How much more room texts get where all of them together are short enough for it.
_AMPLE, _MOST_IF_AMPLE = 1.8, 5700
# The more there is to tell, the smaller the print: the largest amount of text, in letters, for each size.
_SIZES = ((3400, "large"), (4300, "middle"), (math.inf, "small"))


def page(certificate: Certificate) -> str:
    """Return the certificate as one self-contained HTML page that prints on one sheet of A4.

    The signature is checked first: a certificate that was changed gets no page. Whether the key is the issuer's is for
    the reader to check; the page says how.
    """
    verify_integrity(certificate)
    told = _told(certificate, _AMPLE)
    if _amount(told) > _MOST_IF_AMPLE:
        told = _told(certificate, 1.0)
    amount = _amount(told)
    return _PAGE.substitute(told, size=next(name for most, name in _SIZES if amount <= most))


def _amount(told: Mapping[str, str]) -> int:
    return sum(_width(c) for text in told.values() for c in re.sub(r"<[^>]*>", "", text))


def _told(certificate: Certificate, room: float) -> dict[str, str]:
    """Return the texts of the page; with more room fewer sentences are left out."""
    body = certificate.body
    return {
        "issued": _text(moment(body.issued), 40),
        "request": _text(body.request.id, 70),
        "warning": f'<p class="warning">{_text(SEEDED, 200)}</p>' if body.seeded else "",
        "asked": _text(_asked(body), 400),
        "done": _text(_done(body), 500),
        "holds": _text(_holds(body), 620),
        "narrowed": _text(" ".join(narrowings(body)) or "Nothing but the assumptions below.", 400 * room),
        "not_meant": _list(body.not_covered, 160 * room, room),
        "claim": _text(body.claimed.sentence, 560),
        "about": _text(_about(body), 290),
        "measures": _measures(body, room),
        "assumed": _list(body.assumed, 240 * room, room),
        "deletions": _deletions(body),
        "files": _rows((_text(name, 40), _code(digest)) for name, digest in files(body)),
        "ledger": _text(f"entry {body.ledger.number}", 30),
        "ledger_digest": _code(body.ledger.digest),
        "person": _text(f"{body.request.unit}, keyed digest", 40),
        "person_digest": _code(body.request.digest),
        "key": _code(certificate.key_id),
        "digest": _code(certificate.digest),
        "made": _text(_made(body), 110),
    }


def _asked(body: Body) -> str:
    request = body.request
    whose = "all records of one person" if request.unit == "person" else "one record"
    who = "The identity of the person was checked." if request.identity_verified else "Identity was not checked."
    return f"To forget {whose}. Received {moment(request.received)}, accepted {moment(request.accepted)}. {who}"


def _done(body: Body) -> str:
    request = body.request
    when = "in time" if request.in_time else "late"
    one = request.records_erased == 1
    if body.claimed.never_seen_raw:
        how = f"The model in use had never been fitted on {'it' if one else 'them'} directly, so it could stay."
    else:
        how = f"The model that had been fitted on {'it' if one else 'them'} was replaced."
    done = f"{erased(body)} by {moment(request.completed)}: {when}, due {moment(request.due)}. {how}"
    return f"{done} {together(body)}".rstrip()


def _holds(body: Body) -> str:
    claim = body.claimed.claim
    known = body.measurement(Kind.EFFECTIVE_K) if isinstance(claim, KAnonymous) else None
    words = claim.plain_words(body.request.unit)
    if known is None:
        return words
    least = known.numbers.get("minimum")
    # What was not measured, or is no number, counts as the worst case.
    sure = isinstance(least, int) and least > 1
    weaker = f"finds it hidden among {least} only" if sure else "can undo this for a record that stands alone"
    return f"{words} Someone who knows every other record {weaker} (effective k, below)."


def _about(body: Body) -> str:
    claimed, method = body.claimed, body.method
    compared = claimed.neighbours or "none are compared"
    made = f"{method.name} with {method.mechanism or 'no protected copy'}, {method.learner}"
    covers = f"{len(claimed.claim.covers)} attributes covered. " if claimed.claim.covers else ""
    strength = claimed.claim.strength(body.request.unit)
    return f"Strength: {strength}. Unit: {claimed.unit}. Neighbours: {compared}. {covers}Method: {made}."


def _made(body: Body) -> str:
    used = ", ".join(f"{name} {version}" for name, version in sorted(body.provenance.libraries.items()))
    return f"Made by eupg {body.provenance.eupg}, Python {body.provenance.python}{', ' if used else ''}{used}."


def _measures(body: Body, room: float) -> str:
    rows = [
        (_text(m.kind, 30), _text(m.result, 130 * room), _text(m.does_not_show, 105 * room))
        for m in body.measured[:_ROWS]
    ]
    if body.measurement(Kind.MEMBERSHIP) is None:
        rows.append((_text(Kind.MEMBERSHIP, 30), "none was run on the new model", ""))
    if len(body.measured) > _ROWS:
        rows.append((f"and {len(body.measured) - _ROWS} more", "in the signed file", ""))
    return _rows(rows)


def _deletions(body: Body) -> str:
    if not body.deleted:
        return "<p>No file had to be deleted.</p>"
    rows = [
        (f"{_text(d.what, 36)}<br>{_text(moment(d.at), 30)}, <code>{short(d.digest)}</code><br>ledger entry {d.event}",)
        for d in body.deleted[:_DELETIONS]
    ]
    if len(body.deleted) > _DELETIONS:
        rows.append((f"and {len(body.deleted) - _DELETIONS} more in the signed file",))
    return f"<table>{_rows(rows)}</table>"


def _list(texts: Sequence[str], longest: float, room: float) -> str:
    most = _ITEMS_IF_SHORT if sum(map(len, texts)) <= _SHORT * room else _ITEMS
    shown = [f"<li>{_text(t, longest)}</li>" for t in texts[:most]]
    if len(texts) > most:
        shown.append(f"<li>and {len(texts) - most} more in the signed file</li>")
    return f"<ul>{''.join(shown)}</ul>"


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)


def _code(digest: str) -> str:
    return f"<code>{html.escape(digest)}</code>"


def _text(text: str, longest: float) -> str:
    """Take the whole sentences of a text that fit, so that one can see what is left out, and escape them."""
    text = readable(" ".join(text.split()))
    return html.escape(fit([text], lambda shown: sum(map(_width, shown)) <= longest)) if text else ""


def _width(letter: str) -> int:
    """Estimate the room a letter takes: wide ones count twice, so that a page of capitals still fits."""
    return 2 if letter.isupper() or letter in "mw@%—" or unicodedata.east_asian_width(letter) in "WFA" else 1


_PAGE = Template(
    """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Certificate of erasure</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
@page { size: A4; margin: 9mm 14mm; }
* { box-sizing: border-box; }
body { font: 10.5pt/1.4 "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif; color: #111;
  background: #fff; max-width: 190mm; margin: 10mm auto; padding: 0 4mm; overflow-wrap: anywhere; }
header { border-bottom: 2pt solid #111; display: flex; justify-content: space-between; align-items: baseline;
  flex-wrap: wrap; padding-bottom: 1mm; margin-bottom: 2mm; }
header p { margin: 0; font-size: .95em; color: #333; } h1 { font-size: 17pt; margin: 0; } p { margin: 0 0 .6em; }
.warning { border: 2pt solid #111; padding: 1mm 2mm; font-weight: bold; }
dl { display: grid; grid-template-columns: 31mm 1fr; gap: .35em 3mm; margin: 0; }
dt { font-weight: bold; } dd { margin: 0; } ul { margin: 0; padding-left: 4mm; }
.holds { border-left: 2.5pt solid #111; background: #f1f1f1; padding: 1mm 2mm; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
.evidence, footer { font-size: .84em; line-height: 1.26; border-top: .6pt solid #111; margin-top: .8em; }
h2 { font-size: 1.35em; margin: .45em 0 .2em; } h3 { font-size: 1.12em; margin: .5em 0 .1em; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; }
td, th { vertical-align: top; padding: .08em 2mm .08em 0; border-bottom: .4pt solid #999; }
.named td:first-child { white-space: nowrap; } .measures th:first-child { width: 17%; }
.measures th:nth-child(2) { width: 48%; } .pair { display: grid; grid-template-columns: 1fr auto; gap: 5mm; }
code { font: .92em/1.26 "DejaVu Sans Mono", "Liberation Mono", Consolas, monospace; } .named code { font-size: 6.9pt; }
.command { white-space: nowrap; } footer { padding-top: .4em; }
@media screen and (max-width: 600px) { dl, .pair { display: block; } dt { margin-top: 2mm; } }
@media print { body { margin: 0; padding: 0; max-width: none; line-height: 1.3; }
  .large { font-size: 10pt; } .middle { font-size: 9.2pt; } .small { font-size: 7.8pt; } }
</style></head><body class="$size">
<header><h1>Certificate of erasure</h1><p>Request $request · issued $issued</p></header>
$warning
<section><dl>
<dt>What was asked</dt><dd>$asked</dd>
<dt>What was done</dt><dd>$done</dd>
<dt>What now holds</dt><dd class="holds">$holds</dd>
<dt>What narrows it</dt><dd>$narrowed</dd>
<dt>What it does not mean or cover</dt><dd>$not_meant</dd>
</dl></section>
<section class="evidence"><h2>Evidence</h2>
<h3>Claimed (follows from a proof)</h3><p>$claim</p><p>$about</p>
<h3>Measured (found by experiment)</h3>
<table class="measures"><tr><th>What</th><th>Result</th><th>What it does not show</th></tr>$measures</table>
<h3>Assumed (has to be believed)</h3>$assumed
<div class="pair"><div><h3>Deleted</h3>$deletions</div>
<div><h3>Files, by the SHA-256 digest of their content</h3>
<table class="named">$files<tr><td>this certificate</td><td>$digest</td></tr>
<tr><td>ledger, $ledger</td><td>$ledger_digest</td></tr>
<tr><td>$person</td><td>$person_digest</td></tr></table></div></div>
</section>
<footer>Signed with Ed25519 key $key. This page only shows the certificate; the evidence is the signed file. Check it
with <code class="command">eupg verify FILE --key signing.pub</code>, with the public key had from the issuer and not
with the file: its id must be the one above. […] marks a text that is cut here and complete in the file. $made</footer>
</body></html>
"""
)
