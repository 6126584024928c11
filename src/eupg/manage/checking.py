"""Whether a workspace is consistent: ledger, requests, pointer and files, and a certificate against all of them."""

from __future__ import annotations

from typing import Any

from eupg.certify.canonical import canonical
from eupg.certify.verification import Checkable, certificate_in, check_ledger_head, verify
from eupg.errors import CertificateInvalid, StoreCorrupt
from eupg.manage.requests.states import REISSUED, State
from eupg.manage.storage.workspace import Workspace


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
        space.consistently(space.check_index)
        stray = space.consistently(lambda: _stray_files(space))
        if stray:
            # A change in progress writes such files before it takes effect.
            with space.at_rest() as resting:
                stray = _stray_files(space) if resting else []
        if stray:
            raise StoreCorrupt(f"{len(stray)} files belong to nothing, first {stray[0]}: run recover")


def _check_files(space: Workspace) -> None:
    state = space.state()
    space.store.verify(state.live_files)
    space.records.files.verify(state.live_records)


def _stray_files(space: Workspace) -> list[str]:
    state = space.state()
    return [*space.store.others(state.live_files), *space.records.files.others(state.live_records)]


def check_certificate(space: Workspace, certificate: Checkable) -> None:
    """Check a certificate's signature and its ledger head, and that the ledger agrees with it."""
    verify(certificate, key=space.signing.public)
    read = certificate_in(certificate)
    check_ledger_head(read, lambda number: _entry_digest(space, number))
    body = read.body
    request = space.book.get(body.request.id)
    served = {str(entry.body["served"]) for entry in space.ledger.entries(kinds=["deploy"])}
    history = space.book.history(request.id)
    noted: Any = next((e.body["details"] for e in history if e.kind == f"request.{State.COMPLETED}"), {})
    same = (request.digest, noted.get("records")) == (body.request.digest, body.request.records_erased)
    same = same and canonical(noted.get("claim")) == canonical(body.claimed.claim.to_json())
    if not same or body.provenance.new_model not in served:
        raise CertificateInvalid(
            "the certificate is signed with this workspace's key, but the ledger disagrees about its request, claim or "
            "model: find out who else has the key"
        )
    if read.digest not in issued_for(space, request.id):
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


def _entry_digest(space: Workspace, number: int) -> str | None:
    entry = next(iter(space.ledger.entries(after=number - 1)), None)
    return entry.digest if entry is not None and entry.number == number else None
