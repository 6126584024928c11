"""Whether a workspace is what it says: ledger, requests, pointer and files, and a certificate against all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eupg.certify.canonical import canonical
from eupg.certify.certificate import Certificate
from eupg.certify.verify import check_ledger_head, verify
from eupg.errors import CertificateInvalid, StoreCorrupt
from eupg.manage.ledger import Ledger
from eupg.manage.request_states import State
from eupg.manage.status import running
from eupg.manage.workspace import Workspace


def check_workspace(space: Workspace) -> None:
    """Check everything; return nothing, or raise and name what is wrong."""
    space.ledger.verify()
    space.book.verify()
    space.check_pointer()
    if space.trained:
        current = space.current()
        strange = [*space.store.verify(current.live_files), *space.records.files.verify(current.live_records)]
        # While somebody changes the workspace, files that nothing points at yet are as they should be.
        if strange and running(space) is None:
            raise StoreCorrupt(f"{len(strange)} files belong to nothing, first {strange[0]}: run recover")


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


def _digest_of(ledger: Ledger, number: int) -> str | None:
    entry = next(iter(ledger.entries(after=number - 1)), None)
    return entry.digest if entry is not None and entry.number == number else None
