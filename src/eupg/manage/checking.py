"""Whether a workspace is what it says: ledger, requests, pointer and files, and a certificate against all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eupg.certify.canonical import canonical
from eupg.certify.certificate import Certificate
from eupg.certify.verify import check_ledger_head, verify
from eupg.errors import CertificateInvalid, LockHeld, StoreCorrupt
from eupg.manage.ledger import Ledger
from eupg.manage.lock import WorkspaceLock
from eupg.manage.request_states import REISSUED, State
from eupg.manage.workspace import Workspace


def check_workspace(space: Workspace) -> None:
    """Check everything; return nothing, or raise and name what is wrong.

    Keys and settings are compared with the ledger, files with their digests, the index of requests with its events, and
    the index of people with the records. Another process may change the workspace meanwhile.
    """
    space.ledger.verify()
    space.book.verify()
    space.consistently(space.check_pointer)
    if space.trained:
        space.check_settings()
        _ = space.signing
        space.consistently(lambda: _check_files(space))
        space.consistently(space.check_people)
        strange = space.consistently(lambda: _strange(space)) and _strange_at_rest(space)
        if strange:
            raise StoreCorrupt(f"{len(strange)} files belong to nothing, first {strange[0]}: run recover")


def _check_files(space: Workspace) -> None:
    current = space.current()
    space.store.verify(current.live_files)
    space.records.files.verify(current.live_records)


def _strange(space: Workspace) -> list[str]:
    current = space.current()
    return [*space.store.others(current.live_files), *space.records.files.others(current.live_records)]


def _strange_at_rest(space: Workspace) -> list[str]:
    """Look for files that nothing points at while no change is under way; a change writes such files before it ends."""
    if space.holds_lock:
        return _strange(space)
    try:
        with WorkspaceLock(space.folder / "lock", shared=True):
            return _strange(space)
    except LockHeld:
        return []


def check_certificate(space: Workspace, certificate: Certificate | str | Path) -> None:
    """Check a certificate's signature, its ledger head, and that the ledger tells the same story."""
    verify(certificate, key=space.signing.public)
    read = certificate if isinstance(certificate, Certificate) else Certificate.load(certificate)
    check_ledger_head(read, lambda number: _digest_of(space.ledger, number))
    body = read.body
    found = space.book.get(body.request.id)
    served = {str(entry.body["served"]) for entry in space.ledger.entries(kinds=["deploy"])}
    told: Any = next(
        (e.body["details"] for e in space.book.history(found.id) if e.kind == f"request.{State.COMPLETED}"), {}
    )
    same = (found.digest, told.get("records")) == (body.request.digest, body.request.records_erased)
    same = same and canonical(told.get("claim")) == canonical(body.claimed.claim.to_json())
    if not same or body.provenance.new_model not in served:
        raise CertificateInvalid(
            "the certificate is signed with this workspace's key, but the ledger tells another story about its "
            "request, claim or model: find out who else has the key"
        )
    if read.digest not in issued_for(space, found.id):
        raise CertificateInvalid(
            "the certificate is signed with this workspace's key, but the ledger does not know that it was ever "
            "issued: unless it is a further one that version 0.1.0 issued, find out who else has the key"
        )


def issued_for(space: Workspace, request: str) -> set[str]:
    """Return the digests of all certificates that were issued for a request."""
    history = space.book.history(request)
    details: list[Any] = [e.body.get("details") or {} for e in history if e.kind == f"request.{State.CERTIFIED}"]
    again = [str(e.body["certificate"]) for e in history if e.kind == REISSUED]
    return {*(str(d["certificate"]) for d in details if "certificate" in d), *again}


def _digest_of(ledger: Ledger, number: int) -> str | None:
    entry = next(iter(ledger.entries(after=number - 1)), None)
    return entry.digest if entry is not None and entry.number == number else None
