"""Certificates of the service: one envelope per request, over the certificates of all workspaces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import select

from eupg.certify.body import LedgerHead
from eupg.certify.bundle import Bundle, BundledOutcome, BundledRequest, BundledWorkspace, bundle_page
from eupg.certify.credential import BundleCredential
from eupg.certify.issuer import Issuer
from eupg.certify.keys import PublicKey, Signer
from eupg.certify.verification import verify
from eupg.errors import CertificateInvalid, WrongState
from eupg.manage.requests.states import State
from eupg.service.access import Actor, Permission
from eupg.service.database import DOCUMENTS, ServiceDatabase
from eupg.service.requests import Requests

BUNDLE, CREDENTIAL = "bundle", "credential"


@dataclass(frozen=True)
class Certificates:
    """Hands out what the worker has signed."""

    database: ServiceDatabase
    requests: Requests
    signer: Callable[[], Signer]
    issuer: Issuer | None = None
    public_file: Path | None = None

    def issue(self, request: str) -> tuple[Bundle, BundleCredential]:
        """Sign what was done for a completed request; for the worker, which notes it."""
        signer = self.signer()
        times = {entry.kind.removeprefix("request."): entry.at for entry in self.database.trail(request)}
        with self.database.reading() as snapshot:
            case = self.requests.case(snapshot.connection, request)
            kinds = DOCUMENTS.c.kind.startswith("workspace ")
            rows = snapshot.connection.execute(select(DOCUMENTS).where(DOCUMENTS.c.request == request, kinds))
            contents = {row.digest: row.content for row in rows}
            head = snapshot.head()
            issued = snapshot.not_before(self.database.now()).isoformat(timespec="microseconds")
        workspaces = [
            BundledWorkspace(
                name=part.workspace,
                outcome=BundledOutcome(part.state),
                note=part.reason,
                certificate=None if part.certificate is None else json.loads(contents[part.certificate]),
            )
            for part in case.parts
        ]
        bundle = Bundle.sign(
            signer,
            issued=issued,
            request=BundledRequest(
                id=request,
                received=case.request.received_at,
                accepted=times["accepted"],
                completed=times["completed"],
                due=case.request.due.isoformat(),
                identity_verified=case.request.verified,
            ),
            workspaces=workspaces,
            ledger=LedgerHead(number=head.number, digest=head.digest),
            issuer=self.issuer,
        )
        return bundle, BundleCredential.of(bundle, signer)

    def public_key(self) -> PublicKey:
        """Return the key that bundles are checked with; a web process need not be able to read the private half."""
        path = self.public_file
        return PublicKey.load(path) if path is not None and path.is_file() else self.signer().public

    def verify_json(self, values: Mapping[str, Any]) -> str | None:
        """Check a bundle or its credential with the key of this service; return what is wrong, or None."""
        try:
            read = BundleCredential(values) if BundleCredential.describes(values) else Bundle.from_json(values)
            verify(read, key=self.public_key())
        except CertificateInvalid as error:
            return str(error)
        return None

    def page(self, actor: Actor, request: str) -> str:
        """Return a request's certificate as a page for printing."""
        return bundle_page(Bundle.from_bytes(self.content(actor, request)))

    def content(self, actor: Actor, request: str, kind: str = BUNDLE) -> bytes:
        """Return the file of a request's certificate.

        Its owner gets it once their identity was verified: it says what was held about the person.
        """
        actor.require(Permission.CERTIFICATES, Permission.READ_OWN)
        case = self.requests.visible(actor, request, Permission.CERTIFICATES)
        missing = WrongState(f"request {request} has no certificate for you: it is issued when all workspaces are done")
        if case.request.state is not State.CERTIFIED:
            raise missing
        if not actor.may(Permission.CERTIFICATES) and not case.request.verified:
            raise missing
        query = select(DOCUMENTS.c.content).where(DOCUMENTS.c.request == request, DOCUMENTS.c.kind == kind)
        with self.database.reading() as snapshot:
            content = snapshot.connection.execute(query.limit(1)).scalar()
        if content is None:
            raise missing
        return bytes(content)
