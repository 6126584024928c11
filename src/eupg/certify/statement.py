"""What a certificate says in plain sentences; the page, the terminal, notebooks and credentials all say the same."""

from __future__ import annotations

from datetime import date

from eupg.certify.body import Body
from eupg.certify.measured import MeasurementKind
from eupg.certify.shortening import listed
from eupg.guarantees import KAnonymous, Unit
from eupg.guarantees.wording import NO_PERSON, as_sentence, percent

# Not those of the locale: the sentences around them are English.
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FEWER = "the fewer, the more a comparison of the models before and after reveals."


def asked(body: Body) -> str:
    """Say what was requested, when, and whether the identity was checked."""
    request = body.request
    what = "all records of one person" if request.unit is Unit.PERSON else "one record"
    received, accepted = day(request.received), day(request.accepted)
    when = f"received on {received} and accepted on {accepted}"
    if received == accepted:
        when = f"received and accepted on {received}"
    checked = "was checked" if request.identity_verified else "was not checked"
    return f"The request was to erase {what}. It was {when}. The identity of the person who asked {checked}."


def done(body: Body) -> str:
    """Say how many records were erased, whether in time, and what became of the model."""
    request = body.request
    one = request.records_erased == 1
    records = "1 record was" if one else f"{request.records_erased:,} records were"
    if body.claimed.never_seen_raw:
        how = f"The model in use had never been fitted on {'it' if one else 'them'} directly, so it could stay."
    else:
        how = f"The model that had been fitted on {'it' if one else 'them'} was replaced."
    when = "in time" if request.in_time else "late"
    erased = f"{records} erased on {day(request.completed)}, {when}: the request was due on {day(request.due)}."
    return f"{erased} {how} {_together(body)}".rstrip()


def _together(body: Body) -> str:
    """Say how many were forgotten together; nothing where that was not recorded."""
    count, people = body.request.together, body.request.people_known
    if count is None:
        return ""
    who = f"{count:,} {'people' if people else 'records'} were forgotten together"
    if count == 1:
        who = f"No other {'person' if people else 'record'} was forgotten at the same time"
    return f"{who}." if body.claimed.never_seen_raw else f"{who}; {_FEWER}"


def holds(body: Body) -> str:
    """Say what is true now, to a reader who does not know the method."""
    return body.claimed.claim.plain_words(body.request.unit)


def limits(body: Body) -> list[str]:
    """List what limits the claim: whom it is about, what others may know, attributes released unchanged, caveats.

    What is listed among the assumptions is not repeated.
    """
    claim = body.claimed.claim
    # For whom a claim holds comes first: the end may be cut off where there is little room.
    whom = [as_sentence(text) for text in claim.caveats if text == NO_PERSON]
    sentences = [*whom, *(_effective_k(body) if isinstance(claim, KAnonymous) else [])]
    if claim.leaves_open:
        sentences.append(f"Released unchanged, so not covered: {listed(claim.leaves_open)}.")
    if isinstance(claim, KAnonymous) and claim.shared:
        values = listed([f"{name} {percent(share)}" for name, share in claim.shared.items()])
        sentences.append(
            "Where all records of a group have the same value, anyone who learns a record's group learns that value. "
            f"This applies to the following share of all released records: {values}."
        )
    sentences += [text for text in map(as_sentence, claim.caveats) if text not in (*body.assumed, *whom)]
    derived = [d for d in body.provenance.data_derived if d.what not in claim.caveats]
    return sentences + [f"Read from the data: {d.what} ({d.source})." for d in derived]


def _effective_k(body: Body) -> list[str]:
    measured = body.measurement(MeasurementKind.EFFECTIVE_K)
    if measured is None:
        return []
    least = measured.numbers.get("minimum")
    # What was not measured, or is not a number, counts as the worst case.
    hidden = isinstance(least, int) and least > 1
    who = "someone who knows every retained record"
    if hidden:
        return [f"From {who}, an erased record is hidden among only {least} records (see effective k)."]
    return [f"S{who[1:]} can undo the shuffling of an erased record that stands alone (see effective k)."]


def files(body: Body) -> list[tuple[str, str]]:
    """Name the files behind the certificate, with their digests."""
    provenance = body.provenance
    digests = {
        "model in use": provenance.new_model,
        "base model": provenance.base_model,
        # Where training itself was protected, there is no copy, and the base model is recorded in its place.
        "protected copy": None if provenance.release == provenance.base_model else provenance.release,
        "retained records": provenance.retained,
        "schema": provenance.schema,
    }
    return [(name, digest) for name, digest in digests.items() if digest is not None]


def day(text: str) -> str:
    """Write the day of a moment in words.

    Examples
    --------
    >>> day("2025-01-31T09:30:00Z")
    '31 January 2025'
    """
    try:
        parsed = date.fromisoformat(text[:10])
    except ValueError:
        # The form of a day is checked when a certificate is read, and not whether the calendar has it.
        return text[:10]
    return f"{parsed.day} {_MONTHS[parsed.month - 1]} {parsed.year}"


def moment(text: str) -> str:
    """Write a moment to the minute, or a day."""
    return text if len(text) == len("2025-01-31") else f"{text[:10]} {text[11:16]} UTC"
