"""The service without HTTP: everything that the API, the pages, the adapters and the worker call, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Self

from sqlalchemy import func, select

from eupg.certify.issuer import Issuer
from eupg.manage.ledger.ledger import utc_now
from eupg.manage.ledger.transaction import Clock
from eupg.service.accounts import Accounts
from eupg.service.certificates import Certificates
from eupg.service.database import LEASES, MESSAGES, WORKER, ServiceDatabase
from eupg.service.group_commit import GroupCommit
from eupg.service.mail import mailer_of
from eupg.service.models import Models
from eupg.service.outbox import Outbox
from eupg.service.public_form import PublicForm
from eupg.service.requests import Requests
from eupg.service.sealing import Seal
from eupg.service.settings import ServiceSettings
from eupg.service.signin.sessions import Sessions
from eupg.service.signing import signer_of
from eupg.service.trail import AuditTrail


@dataclass(frozen=True)
class Service:
    """The parts of a running service. Every use case takes the actor first, and checks what the actor may do.

    Examples
    --------
    >>> import tempfile
    >>> from eupg.service.accounts import OPERATOR
    >>> from eupg.service.requests import NewRequest
    >>> folder = tempfile.TemporaryDirectory()
    >>> service = Service.open(ServiceSettings(folder=folder.name))
    >>> created = service.requests.create(OPERATOR, NewRequest({"subject": "125024"}, channel="letter"))
    >>> service.requests.accept(OPERATOR, created.case.request.id).request.state
    <State.ACCEPTED: 'accepted'>
    >>> service.close()
    >>> folder.cleanup()
    """

    settings: ServiceSettings
    database: ServiceDatabase
    seal: Seal
    accounts: Accounts
    sessions: Sessions
    models: Models
    requests: Requests
    certificates: Certificates
    intake: GroupCommit
    trail: AuditTrail
    public_form: PublicForm

    @classmethod
    def open(cls, settings: ServiceSettings, *, clock: Clock = utc_now) -> Self:
        """Open the service of a folder; its database and keys are made where there are none."""
        database = ServiceDatabase(settings.ledger_place, clock=clock)
        seal = Seal.at(settings.own_folder / "keys" / "seal.key")
        issuer = None if settings.issuer is None else Issuer(**settings.issuer.model_dump())
        public_file = None if settings.signer is not None else settings.own_folder / "keys" / "signing.pub"
        kinds = tuple(dict.fromkeys((settings.identifier, *settings.identifiers.values())))
        requests = Requests(database, seal, Outbox(seal), settings.second_person, kinds)
        return cls(
            settings=settings,
            database=database,
            seal=seal,
            accounts=Accounts(database),
            sessions=Sessions(database, settings.sessions),
            models=Models(settings.folder),
            requests=requests,
            certificates=Certificates(database, requests, cache(lambda: signer_of(settings)), issuer, public_file),
            intake=GroupCommit(requests),
            trail=AuditTrail(database),
            public_form=PublicForm(
                database,
                seal,
                requests,
                mailer_of(settings) if settings.public_form else None,
                settings.public_url,
                kinds,
            ),
        )

    def worker_seen(self) -> float | None:
        """Return when a worker last showed a sign of life, in seconds since 1970; None if none ever did."""
        with self.database.reading() as snapshot:
            until = snapshot.connection.execute(select(LEASES.c.until).where(LEASES.c.name == WORKER)).scalar()
        return None if until is None else float(until) - self.settings.worker.lease_s

    def messages_waiting(self) -> int:
        """Count the callbacks that wait to be delivered."""
        waiting = select(func.count()).select_from(MESSAGES).where(MESSAGES.c.state == "waiting")
        with self.database.reading() as snapshot:
            return int(snapshot.connection.execute(waiting).scalar_one())

    def close(self) -> None:
        """Close database and workspaces."""
        self.models.close()
        self.database.close()
