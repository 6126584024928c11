"""A certificate in the terminal: at most 40 lines of at most 100 columns, what matters most first."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable

from eupg.certify.body import Body
from eupg.certify.claimed import SEEDED
from eupg.certify.wording import as_sentence

_WIDTH = 100
_LABEL = 13
_MEASURES = 5
_CUT = " […]"
# Direction marks can make a text read differently from what it says.
_TURNS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def summary(body: Body, *, key_id: str, digest: str) -> str:
    """Say in a terminal what was forgotten, what is claimed, measured and assumed; the file itself says more."""
    request, claim = body.request, body.claimed.claim
    lines = [f"CERTIFICATE OF ERASURE, issued {moment(body.issued)}"]
    if body.seeded:
        lines.append(SEEDED.upper())
    lines += _block("Asked", asked(body), 2)
    lines += _block("Done", f"{erased(body)} by {moment(request.completed)}, {_timeliness(body)}", 2)
    lines += _block("Claimed", f"{claim.strength()}. {claim.plain_words()}", 6)
    lines += _block("Narrowed by", " ".join(narrowings(body)), 3)
    for place, measure in enumerate(body.measured[:_MEASURES]):
        lines += _block("" if place else "Measured", f"{measure.kind}: {measure.result}", 2)
    if len(body.measured) > _MEASURES:
        lines += _block("", f"and {len(body.measured) - _MEASURES} more in the file", 1)
    lines += _block("Assumed", " ".join(body.assumed), 4)
    lines += _block("Not covered", " ".join(body.not_covered), 4)
    lines += _block("Deleted", ", ".join(f"{d.what} {short(d.digest)}" for d in body.deleted) or "no file", 2)
    lines += _block("Files", ", ".join(f"{name} {short(value)}" for name, value in files(body)), 2)
    lines += _block("Ledger", f"entry {body.ledger.number}, {short(body.ledger.digest)}", 1)
    lines += _block("Signed", f"with key {key_id}; certificate {short(digest)} (shown here, not verified)", 1)
    return "\n".join(lines)


def asked(body: Body) -> str:
    """Say what was asked, when, and whether it was checked who asked."""
    request = body.request
    who = "identity verified" if request.identity_verified else "identity not verified"
    return f"to forget one {request.unit} (request {request.id}), received {moment(request.received)}, {who}"


def erased(body: Body) -> str:
    """Say how many records were erased."""
    count = body.request.records_erased
    return "1 record erased" if count == 1 else f"{count:,} records erased"


def narrowings(body: Body) -> list[str]:
    """List what narrows the claim: attributes kept as they are, caveats, and what was read from the data.

    What is listed among the assumptions is not repeated.
    """
    claim = body.claimed.claim
    found = [f"Kept as it is, not covered: {', '.join(claim.leaves_open)}."] if claim.leaves_open else []
    found += [sentence for sentence in map(as_sentence, claim.caveats) if sentence not in body.assumed]
    return found + [f"Read from the data: {d.what} ({d.source})." for d in body.provenance.data_derived]


def files(body: Body) -> Iterable[tuple[str, str]]:
    """Name the files behind the certificate, with their digests."""
    known = body.provenance
    # Where training itself was protected there is no copy: the base model is what was released.
    copy = None if known.release == known.base_model else known.release
    named = (
        ("model in use", known.new_model),
        ("base model", known.base_model),
        ("protected copy", copy),
        ("retained records", known.retained),
        ("schema", known.schema),
    )
    return [(name, digest) for name, digest in named if digest is not None]


def moment(text: str) -> str:
    """Write a moment to the minute, or a day, as people do."""
    return text if len(text) == len("2025-01-31") else f"{text[:10]} {text[11:16]} UTC"


def short(digest: str) -> str:
    """Shorten a digest to what an eye can compare."""
    return f"{digest[:12]}…"


def readable(text: str) -> str:
    """Replace what a terminal or a page would obey rather than show."""
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Zl", "Zp") or c in _TURNS else c for c in text)


def _timeliness(body: Body) -> str:
    return f"{'in time' if body.request.in_time else 'LATE'} (due {moment(body.request.due)})"


def _block(label: str, text: str, most: int) -> list[str]:
    """Set a text in at most so many lines; a cut shows."""
    if not text:
        return []
    return textwrap.wrap(
        readable(text),
        width=_WIDTH,
        initial_indent=f"{label:<{_LABEL}}",
        subsequent_indent=" " * _LABEL,
        max_lines=most,
        placeholder=_CUT,
    )
