"""A certificate in the terminal: at most 40 lines of at most 100 columns, the most important first."""

from __future__ import annotations

import textwrap
import unicodedata

from eupg.certify.body import Body
from eupg.certify.shortening import fit
from eupg.certify.statement import asked, done, files, holds, limits, moment
from eupg.guarantees.wording import SEEDED

_WIDTH = 100
_LABEL = 13
_LINES = 40
_MEASURES = 6
# The most lines for the claim, its limits, each measurement, assumptions and exclusions, from ample to scarce room.
_ROOM = ((9, 9, 3, 9, 9), (7, 6, 3, 6, 6), (6, 5, 2, 5, 4), (6, 3, 2, 3, 3))
# Direction marks can make a text read differently from what it says.
_TURNS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def summary(body: Body, *, key_id: str, digest: str) -> str:
    """Summarise what was forgotten and what is claimed, measured and assumed; the file itself says more."""
    for room in _ROOM:
        lines = _lines(body, key_id, digest, room)
        if len(lines) <= _LINES:
            break
    return "\n".join(lines)


def _lines(body: Body, key_id: str, digest: str, room: tuple[int, ...]) -> list[str]:
    request, claim = body.request, body.claimed.claim
    claimed, limited, measured, assumed, excluded = room
    lines = [f"CERTIFICATE OF ERASURE for request {request.id}, issued {moment(body.issued)}"]
    if body.seeded:
        lines.append(SEEDED.upper())
    lines += _block("Issuer", str(body.issuer or ""), 2)
    lines += _block("Asked", asked(body), 2)
    lines += _block("Done", done(body), 4)
    lines += _block("Claimed", f"{claim.strength(request.unit)}. {holds(body)}", claimed)
    lines += _block("Limited by", " ".join(limits(body)), limited)
    for place, measure in enumerate(body.measured[:_MEASURES]):
        lines += _block("" if place else "Measured", f"{measure.kind}: {measure.result}", measured)
    if len(body.measured) > _MEASURES:
        lines += _block("", f"and {len(body.measured) - _MEASURES} more in the file", 1)
    lines += _block("Assumed", " ".join(body.assumed), assumed)
    lines += _block("Not covered", " ".join(body.not_covered), excluded)
    lines += _block("Deleted", ", ".join(f"{d.what} {short(d.digest)}" for d in body.deleted) or "no file", 2)
    lines += _block("Files", ", ".join(f"{name} {short(value)}" for name, value in files(body)), 2)
    lines += _block("Ledger", f"entry {body.ledger.number}, {short(body.ledger.digest)}", 1)
    lines += _block("Signed", f"with key {key_id}; certificate {short(digest)} (shown here, not verified)", 1)
    return lines


def short(digest: str) -> str:
    """Shorten a digest to a length that people can compare."""
    return f"{digest[:12]}…"


def readable(text: str) -> str:
    """Replace characters that a terminal or a page would obey rather than show."""
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Zl", "Zp") or c in _TURNS else c for c in text)


def _block(label: str, text: str, most: int) -> list[str]:
    """Set a text in a limited number of lines, in whole sentences, with a mark where others are left out."""

    def wrapped(shown: str) -> list[str]:
        indent = f"{label:<{_LABEL}}"
        return textwrap.wrap(shown, width=_WIDTH, initial_indent=indent, subsequent_indent=" " * _LABEL)

    text = readable(" ".join(text.split()))
    return wrapped(fit([text], lambda shown: len(wrapped(shown)) <= most)) if text else []
