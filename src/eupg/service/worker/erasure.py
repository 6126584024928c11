"""One pass of the worker: accepted requests go to every workspace, are honoured there, and come back with evidence.

Every step can be repeated. A workspace knows a request by the service's id of it, so a worker that was killed asks
again and gets the same request; a change of a workspace survives a crash by itself. Everybody in one pass whose parts
are done is answered together. A part that fails or is put off, or waits for a batch, delays its request, which can
depend on what is held.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from sqlalchemy import delete, insert, or_, select, update

from eupg.certify.certificate import Certificate
from eupg.errors import LeaseLost, LockHeld, NobodyNamed, RequestRefused
from eupg.killpoint import checkpoint
from eupg.manage.ledger.transaction import Transaction
from eupg.manage.manager import Manager
from eupg.manage.requests.index import REQUESTS
from eupg.manage.requests.intake import accept, not_held
from eupg.manage.requests.references import note_references, noted_references, reference_digest
from eupg.manage.requests.states import UNDECIDED, Receipt, Request, State, Step
from eupg.manage.storage.subjects import person_digest
from eupg.service.access import Actor, Permission
from eupg.service.certificates import BUNDLE, CREDENTIAL
from eupg.service.database import CASES, DOCUMENTS, PARTS, WORKSPACES, Act
from eupg.service.service import Service
from eupg.service.worker.lease import Lease

_log = logging.getLogger("eupg.service.worker")
_CHANNEL = "service"
_WORKER = Actor("worker", "the worker", frozenset(Permission))
WAITING, ERASED, NOTHING_HELD, NOT_SEARCHABLE, FAILED = "waiting", "erased", "nothing held", "not searchable", "failed"
_LONGEST_WAIT_S = 3600.0
# The state of a part, the workspace's own request, and a reason.
_Outcome: TypeAlias = tuple[str, str | None, str | None]


@dataclass(frozen=True)
class PassReport:
    """What a pass did."""

    taken_up: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True)
class ErasurePass:
    """Carries out accepted requests, under a lease."""

    service: Service
    lease: Lease

    def run(self) -> PassReport:
        """Do everything that can be done now."""
        taken_up = self._take_up()
        waiting = self._waiting()
        for workspace in sorted({name for names in waiting.values() for name in names}):
            asked = [request for request, names in waiting.items() if workspace in names]
            try:
                self._honour(workspace, asked)
            except LeaseLost:
                raise
            except Exception as error:
                # Whatever it is: the other workspaces are asked, and later passes begin. The text may be personal.
                _log.error("a workspace failed", extra={"workspace": workspace, "error": type(error).__name__})
                self._note(workspace, dict.fromkeys(asked, (FAILED, None, type(error).__name__)), {})
        report = self._answer(taken_up)
        self._certify()
        return report

    def _take_up(self) -> int:
        """Take up what was accepted, and what failed and may be tried again: one part per workspace."""
        database, found = self.service.database, self.service.models.names()
        seen = self._note_workspaces(found)
        with self.lease.writing() as transaction:
            now = transaction.now.isoformat(timespec="seconds")
            ready = (REQUESTS.c.state == str(State.ACCEPTED)) | (
                (REQUESTS.c.state == str(State.FAILED))
                & (CASES.c.tries < self.service.settings.worker.attempts)
                & or_(CASES.c.not_before.is_(None), CASES.c.not_before <= now)
            )
            query = select(REQUESTS.c.id, REQUESTS.c.state).join(CASES, CASES.c.request == REQUESTS.c.id).where(ready)
            rows = transaction.connection.execute(
                query.order_by(REQUESTS.c.due, REQUESTS.c.first).limit(self.service.settings.worker.batch)
            )
            before = {row.id: row.state for row in rows}
            names = list(before)
            if not names:
                return 0
            taken = database.book.advance_many(Step(name, State.PROCESSING) for name in names)
            database.follow(transaction, taken)
            removed = set(self.service.settings.retired) - set(found)
            could_not = PARTS.c.request.in_(names), PARTS.c.state == FAILED
            transaction.connection.execute(delete(PARTS).where(*could_not, PARTS.c.workspace.in_(removed)))
            transaction.connection.execute(update(PARTS).where(*could_not).values(state=WAITING, reason=None))
            known = {
                (row.request, row.workspace)
                for row in transaction.connection.execute(select(PARTS).where(PARTS.c.request.in_(names)))
            }
            # A workspace that was ever there and is not there now may hold the person still: its part fails, and is
            # tried again. One that was added since the last try may hold the person, too.
            asked = transaction.connection.execute(select(PARTS.c.workspace).distinct()).scalars()
            models = sorted({*found, *seen, *asked} - removed)
            parts = [
                {"request": name, "workspace": workspace, "state": WAITING}
                for name in names
                for workspace in models
                if (name, workspace) not in known
            ]
            if parts:
                transaction.connection.execute(insert(PARTS), parts)
            # Neither a failure nor another try is told: they can depend on whether the person is held.
            first = [request for request in taken if before[request.id] == str(State.ACCEPTED)]
            self.service.requests.outbox.tell(transaction, first)
        checkpoint("service: requests taken up")
        return len(names)

    def _note_workspaces(self, found: Collection[str]) -> set[str]:
        """Return every workspace that was ever found, and note new ones."""
        with self.service.database.reading() as snapshot:
            known = set(snapshot.connection.execute(select(WORKSPACES.c.name)).scalars())
        new = sorted(set(found) - known)
        if new:
            with self.lease.writing() as transaction:
                transaction.connection.execute(insert(WORKSPACES), [{"name": name} for name in new])
        return known | set(new)

    def _waiting(self) -> dict[str, set[str]]:
        """Return the workspaces that each request in progress still waits for."""
        query = select(PARTS.c.request, PARTS.c.workspace).join(REQUESTS, REQUESTS.c.id == PARTS.c.request)
        query = query.where(PARTS.c.state == WAITING, REQUESTS.c.state == str(State.PROCESSING))
        waiting: dict[str, set[str]] = {}
        with self.service.database.reading() as snapshot:
            for row in snapshot.connection.execute(query):
                waiting.setdefault(row.request, set()).add(row.workspace)
        return waiting

    def _honour(self, workspace: str, requests: Sequence[str]) -> None:
        """Ask one workspace for these erasures, let it forget, and note what it has done."""
        people = self._people(workspace, requests)
        outcomes: dict[str, _Outcome] = {}
        with self.service.models.opened(workspace) as manager:
            kind = self.service.settings.identifier_of(workspace)
            for request in requests:
                if request not in people:
                    outcomes[request] = NOT_SEARCHABLE, None, f"the request does not name the person by {kind}"
            if people:
                asked, refused = _ask_each(manager, people, verified=self._verified(people))
                outcomes |= refused
                checkpoint("service: workspace asked")
                if any(r.state in (State.ACCEPTED, State.FAILED) for r in asked.values()):
                    manager.forget(due_only=True)
                elif any(r.state is State.PROCESSING for r in asked.values()):
                    manager.recover()
                    manager.forget(due_only=True)
                elif any(r.state in UNDECIDED for r in asked.values()):
                    # Put off while the records were changed. Whoever changed them may have been killed.
                    with suppress(LockHeld):
                        manager.recover()
                        manager.forget(due_only=True)
                checkpoint("service: workspace has forgotten")
                now = manager.space.book.get_many(r.id for r in asked.values())
                asked = {request: now[r.id] for request, r in asked.items()}
            else:
                asked = {}
            certificates = {
                request: manager.certify(r.id)
                for request, r in asked.items()
                if r.state in (State.COMPLETED, State.CERTIFIED)
            }
        checkpoint("service: certificates issued")
        outcomes |= {request: _outcome(r) for request, r in asked.items()}
        self._note(workspace, outcomes, certificates)

    def _people(self, workspace: str, requests: Sequence[str]) -> dict[str, str]:
        """Return how the people are named in a workspace, for those requests that say so."""
        kind, people = self.service.settings.identifier_of(workspace), {}
        with self.service.database.reading() as snapshot:
            rows = snapshot.connection.execute(
                select(CASES.c.request, CASES.c.sealed).where(CASES.c.request.in_(list(requests)))
            ).all()
        for row in rows:
            name = None if row.sealed is None else self.service.seal.open(row.sealed, about=row.request).get(kind)
            if name is not None:
                people[row.request] = name
        return people

    def _verified(self, requests: Collection[str]) -> set[str]:
        """Return the requests of people whose identity was verified."""
        return {name for name, r in self.service.database.book.get_many(requests).items() if r.verified}

    def _note(
        self,
        workspace: str,
        outcomes: Mapping[str, _Outcome],
        certificates: Mapping[str, Certificate],
    ) -> None:
        """Note what became of requests in a workspace, with the certificates."""
        with self.lease.writing() as transaction:
            for request, (state, workspace_request, reason) in outcomes.items():
                certificate = certificates.get(request)
                digest = None if certificate is None else certificate.digest
                part = update(PARTS).where(PARTS.c.request == request, PARTS.c.workspace == workspace)
                values = {"state": state, "workspace_request": workspace_request, "reason": reason}
                transaction.connection.execute(part.values(**values, certificate=digest))
                if certificate is not None:
                    row = {"digest": digest, "request": request, "kind": f"workspace {workspace}"}
                    transaction.connection.execute(insert(DOCUMENTS), [row | {"content": certificate.to_bytes()}])
        checkpoint("service: outcome noted")

    def _answer(self, taken_up: int) -> PassReport:
        """Complete the requests whose parts are all done, and give up for now on those with a part that failed."""
        database, done, failed = self.service.database, [], []
        query = select(PARTS.c.request, PARTS.c.state).join(REQUESTS, REQUESTS.c.id == PARTS.c.request)
        in_progress = select(REQUESTS.c.id).join(CASES, CASES.c.request == REQUESTS.c.id)
        with self.lease.writing() as transaction:
            connection = transaction.connection
            states: dict[str, set[str]] = {
                row.id: set()
                for row in connection.execute(in_progress.where(REQUESTS.c.state == str(State.PROCESSING)))
            }
            for row in connection.execute(query.where(REQUESTS.c.state == str(State.PROCESSING))):
                states[row.request].add(row.state)
            # Without any part nobody was searched for, and nothing was done.
            done = [request for request, found in states.items() if found and not found & {WAITING, FAILED}]
            failed = [r for r, found in states.items() if not found or (FAILED in found and WAITING not in found)]
            self._complete(transaction, done)
            self._give_up(transaction, failed)
            if done or failed:
                acts = [Act("carried-out", _WORKER, request) for request in done]
                database.note(transaction, acts + [Act("could-not", _WORKER, request) for request in failed])
        checkpoint("service: requests answered")
        return PassReport(taken_up, len(done), len(failed))

    def _complete(self, transaction: Transaction, requests: Sequence[str]) -> None:
        """Complete requests, and delete the identifiers of the people."""
        if not requests:
            return
        database = self.service.database
        completed = database.book.advance_many(Step(name, State.COMPLETED) for name in requests)
        database.follow(transaction, completed)
        self.service.requests.close(transaction, requests)

    def _certify(self) -> None:
        """Sign a bundle for every completed request; also for those that an earlier worker left behind."""
        database = self.service.database
        query = select(REQUESTS.c.id).where(REQUESTS.c.state == str(State.COMPLETED))
        with database.reading() as snapshot:
            names = [row.id for row in snapshot.connection.execute(query)]
        first: Exception | None = None
        for name in names:
            try:
                self._issue(name)
            except LeaseLost:
                raise
            except Exception as error:
                # The request stays completed, and is certified by a later pass; the others are certified now.
                _log.error("a bundle was not issued", extra={"request": name, "error": type(error).__name__})
                first = first or error
        if first is not None:
            raise first

    def _issue(self, request: str) -> None:
        """Sign the bundle of one request."""
        # Signed outside of the transaction: a signer that hangs must not keep others from writing.
        bundle, credential = self.service.certificates.issue(request)
        documents = ((BUNDLE, bundle.to_bytes()), (CREDENTIAL, json.dumps(credential.document).encode()))
        with self.lease.writing() as transaction:
            rows = [
                {"digest": hashlib.sha256(content).hexdigest(), "request": request, "kind": kind, "content": content}
                for kind, content in documents
            ]
            transaction.connection.execute(insert(DOCUMENTS), rows)
            step = Step(request, State.CERTIFIED, None, {"bundle": bundle.digest})
            certified = self.service.database.book.advance_many([step])
            self.service.database.follow(transaction, certified)
            self.service.requests.outbox.tell(transaction, certified)
        checkpoint("service: bundle issued")

    def _give_up(self, transaction: Transaction, requests: Sequence[str]) -> None:
        """Note that requests failed, and when they are tried again: each time after twice as long."""
        if not requests:
            return
        database, connection = self.service.database, transaction.connection
        why = "one of the workspaces could not do it; it is tried again"
        failed = database.book.advance_many(Step(name, State.FAILED, why) for name in requests)
        database.follow(transaction, failed)
        for row in connection.execute(select(CASES).where(CASES.c.request.in_(requests))).all():
            wait = min(_LONGEST_WAIT_S, 30.0 * 2**row.tries)
            again = (transaction.now + timedelta(seconds=wait)).isoformat(timespec="seconds")
            tried = update(CASES).where(CASES.c.request == row.request)
            connection.execute(tried.values(tries=row.tries + 1, not_before=again))


def _ask_each(
    manager: Manager, people: Mapping[str, str], *, verified: Collection[str]
) -> tuple[dict[str, Request], dict[str, _Outcome]]:
    """Ask a workspace to erase people; return its requests, and what became of those that it refuses."""
    try:
        return _ask(manager, people, verified=verified), {}
    except RequestRefused as error:
        if len(people) == 1:
            why = "no column of this workspace names people"
            nobody = isinstance(error, NobodyNamed)
            outcome = (NOT_SEARCHABLE, None, why) if nobody else (FAILED, None, type(error).__name__)
            return {}, dict.fromkeys(people, outcome)
    # One of them was refused, and all were undone: each alone, so that only that one is.
    asked: dict[str, Request] = {}
    refused: dict[str, _Outcome] = {}
    for request, name in people.items():
        one, none = _ask_each(manager, {request: name}, verified=verified)
        asked |= one
        refused |= none
    return asked, refused


def _ask(manager: Manager, people: Mapping[str, str], *, verified: Collection[str]) -> dict[str, Request]:
    """Ask a workspace to erase people; a request that was asked for before is found by its reference."""
    space = manager.space
    references = {reference_digest(space.key, request): request for request in people}
    with space.ledger.transaction() as transaction:
        known = noted_references(transaction, references)
        requests = {references[digest]: r for digest, r in known.items()}
        asked = {request: space.book.get(name) for request, name in requests.items()}
        new = {request: name for request, name in people.items() if request not in asked}
        receipts = [Receipt("person", person_digest(space.key, name), _CHANNEL) for name in new.values()]
        received = [r.request for r in space.book.receive_many(receipts)]
        checked = {r.id for request, r in zip(new, received, strict=True) if request in verified}
        unverified = dict.fromkeys(r.id for r in received if r.id in checked and r.state is State.RECEIVED)
        now = {r.id: r for r in space.book.advance_many(Step(name, State.VERIFIED) for name in unverified)}
        accepted = accept(space, [now.get(r.id, r) for r in received])
        asked |= dict(zip(new, accepted, strict=True))
        digests = {request: digest for digest, request in references.items()}
        note_references(transaction, {digests[request]: asked[request].id for request in new})
    return asked


def _outcome(request: Request) -> _Outcome:
    """Return what became of a request in a workspace: the state of the part, the request, and a reason."""
    if request.state in (State.COMPLETED, State.CERTIFIED):
        return ERASED, request.id, None
    if request.state is State.REJECTED:
        # Somebody may have rejected it there for another reason, about a person who is held.
        if request.reason == not_held(request.unit):
            return NOTHING_HELD, request.id, None
        return FAILED, request.id, "it was rejected in the workspace"
    if request.state is State.FAILED:
        return FAILED, request.id, request.reason
    if request.state is State.CANCELLED:
        return FAILED, request.id, "it was cancelled in the workspace"
    return WAITING, request.id, request.reason
