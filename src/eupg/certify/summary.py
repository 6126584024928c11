"""A certificate in the terminal: at most 40 lines of at most 100 columns, what matters most first."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable

from eupg.certify.body import Body
from eupg.certify.fitting import fit, listed
from eupg.guarantees import KAnonymous
from eupg.guarantees.wording import SEEDED, as_sentence, percent

_WIDTH = 100
_LABEL = 13
_LINES = 40
_MEASURES = 6
# The most lines for claim, narrowings, each measurement, assumptions and exclusions: as many as there is room for.
_ROOM = ((9, 9, 3, 9, 9), (7, 6, 3, 6, 6), (6, 5, 2, 5, 4), (6, 3, 2, 3, 3))
# Direction marks can make a text read differently from what it says.
_TURNS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def summary(body: Body, *, key_id: str, digest: str) -> str:
    """Say in a terminal what was forgotten, what is claimed, measured and assumed; the file itself says more."""
    for room in _ROOM:
        lines = _lines(body, key_id, digest, room)
        if len(lines) <= _LINES:
            break
    return "\n".join(lines)


def _lines(body: Body, key_id: str, digest: str, room: tuple[int, ...]) -> list[str]:
    request, claim = body.request, body.claimed.claim
    claimed, narrowed, measured, assumed, excluded = room
    lines = [f"CERTIFICATE OF ERASURE, issued {moment(body.issued)}"]
    if body.seeded:
        lines.append(SEEDED.upper())
    lines += _block("Asked", asked(body), 2)
    lines += _block("Done", f"{erased(body)} by {moment(request.completed)}, {_timeliness(body)}. {together(body)}", 2)
    lines += _block("Claimed", f"{claim.strength(request.unit)}. {claim.plain_words(request.unit)}", claimed)
    lines += _block("Narrowed by", " ".join(narrowings(body)), narrowed)
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


def asked(body: Body) -> str:
    """Say what was asked, when, and whether it was checked who asked."""
    request = body.request
    who = "identity verified" if request.identity_verified else "identity not verified"
    return f"to forget one {request.unit} (request {request.id}), received {moment(request.received)}, {who}"


def erased(body: Body) -> str:
    """Say how many records were erased."""
    count = body.request.records_erased
    return "1 record erased" if count == 1 else f"{count:,} records erased"


def together(body: Body) -> str:
    """Say how many were forgotten together; nothing where that was not noted."""
    count = body.request.together
    if count is None:
        return ""
    one, many = ("person", "people") if body.request.people_known else ("record", "records")
    number = f"1 {one}" if count == 1 else f"{count:,} {many}"
    if body.claimed.never_seen_raw:
        return f"Forgotten together: {number}."
    return f"Forgotten together: {number}; the fewer, the more a comparison of the models before and after tells."


def narrowings(body: Body) -> list[str]:
    """List what narrows the claim: attributes kept as they are, what groups share, caveats, what the data told.

    What is listed among the assumptions is not repeated.
    """
    claim = body.claimed.claim
    found = [f"Kept as it is, not covered: {listed(claim.leaves_open)}."] if claim.leaves_open else []
    if isinstance(claim, KAnonymous) and claim.shared:
        values = listed([f"{name} {percent(share)}" for name, share in claim.shared])
        found.append(
            "Whoever learns a record's group learns its value, too, where the group has one only; that is so for this "
            f"share of all released records: {values}."
        )
    found += [sentence for sentence in map(as_sentence, claim.caveats) if sentence not in body.assumed]
    derived = [d for d in body.provenance.data_derived if d.what not in claim.caveats]
    return found + [f"Read from the data: {d.what} ({d.source})." for d in derived]


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
    """Set a text in at most so many lines, in whole sentences; a cut shows."""

    def wrapped(shown: str) -> list[str]:
        indent = f"{label:<{_LABEL}}"
        return textwrap.wrap(shown, width=_WIDTH, initial_indent=indent, subsequent_indent=" " * _LABEL)

    text = readable(" ".join(text.split()))
    return wrapped(fit([text], lambda shown: len(wrapped(shown)) <= most)) if text else []
