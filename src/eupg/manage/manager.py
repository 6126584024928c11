"""The manager: the whole flow on one workspace, from training to certificates.

>>> from eupg import EUPG, Manager, ProbabilisticKAnonymity, SklearnLearner, sources
>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> method = EUPG(ProbabilisticKAnonymity(k=30), SklearnLearner(), pretrain=2, finetune=1)
>>> manager = Manager(folder.name, method)
>>> manager.train(sources.rand_hie().train)
>>> request = manager.request_erasure(subject="125024")
>>> manager.forget().records
5
>>> certificate = manager.certify(request.id)
>>> manager.verify(certificate)
>>> manager.close()
>>> folder.cleanup()
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from eupg.audit.attack import Attack
from eupg.audit.report import AuditReport
from eupg.audit.rmia import RMIA
from eupg.certify.certificate import Certificate, sign
from eupg.data.dataset import Dataset, Matrix, require_dataset
from eupg.data.rows import RowReader, Rows
from eupg.data.score import Probabilities
from eupg.errors import DataError, EupgError, ParameterError, WorkspaceState
from eupg.forget.eupg import EUPG
from eupg.learn.learner import Model
from eupg.manage.additions import Added, Repeated, check_repeats, fresh_prefix, held_already, with_ids
from eupg.manage.auditing import audit_served
from eupg.manage.checking import check_certificate, check_workspace
from eupg.manage.description import agrees, rebuild
from eupg.manage.evidence import body_for
from eupg.manage.forgetting import enough_to_audit
from eupg.manage.intake import accept as accept_all
from eupg.manage.intake import changing, decide_deferred, receive
from eupg.manage.killpoint import checkpoint
from eupg.manage.ledger import utc_now
from eupg.manage.request_states import Request, State, Step
from eupg.manage.status import WorkspaceStatus, status_of
from eupg.manage.store import Digest
from eupg.manage.transaction import Clock
from eupg.manage.workshop import Forgotten, Workshop
from eupg.manage.workspace import Recovered, Workspace
from eupg.rng import Randomness, Secret
from eupg.watch import Watch, unwatched

_NOT_CERTIFIED = {
    State.RECEIVED: "decide on it first, then run forget; a certificate tells what was done",
    State.VERIFIED: "decide on it first, then run forget; a certificate tells what was done",
    State.ACCEPTED: "run forget first; a certificate tells what was done",
    State.PROCESSING: "it is being carried out; ask again when that is done",
    State.FAILED: "it could not be carried out; see its reason in status, then run forget again",
    State.REJECTED: "nothing was erased, so there is nothing to certify; its reason is in the ledger",
    State.CANCELLED: "nothing was erased, so there is nothing to certify",
}


class Manager:
    """Runs a model that can forget.

    Parameters
    ----------
    folder
        The workspace; made by :meth:`train`.
    method
        How to train and forget. A workspace remembers it, so it is needed only the first time, or where it has parts
        of your own.
    rng
        Where protection draws from; the operating system unless this is an experiment.
    ledger
        A database URL for the ledger, for instance of PostgreSQL; by default a SQLite file in the folder.
    clock
        Tells the time.
    watch
        Told of every step.
    trusted
        Types, besides those skops trusts, that model files of scikit-learn may hold in a workspace that is opened
        without a method. Name only types you trust: loading a file that holds them may run their code.
    """

    def __init__(
        self,
        folder: str | Path,
        method: EUPG | None = None,
        *,
        rng: Randomness | None = None,
        ledger: str | None = None,
        clock: Clock = utc_now,
        watch: Watch = unwatched,
        trusted: Sequence[str] = (),
    ) -> None:
        if method is not None and not isinstance(method, EUPG):
            raise ParameterError(f"a manager runs an EUPG method, got {method!r}")
        self.space = Workspace(folder, ledger=ledger, clock=clock)
        self._method, self._rng, self._watch = method, rng or Secret(), watch
        self._trusted = tuple(trusted)
        self._served: tuple[Digest, Model] | None = None
        self._reader: RowReader | None = None
        # The records of the last forget, in memory alone, so that an audit can still ask about them.
        self._last: tuple[int, Dataset] | None = None
        if method is not None and self.space.trained and not agrees(method, self.space.method):
            raise ParameterError(
                f"this workspace holds a trained model of another method than {method!r}: open it without naming one, "
                "or use another folder"
            )

    @property
    def method(self) -> EUPG:
        """How this workspace trains and forgets."""
        if self._method is None:
            self._method = rebuild(self.space.method, trusted=self._trusted)
        return self._method

    @property
    def _workshop(self) -> Workshop:
        return Workshop(self.space, self.method, self._rng, self._watch)

    def train(self, records: Dataset, *, hold_out: float | Dataset = 0.1, not_covered: Sequence[str] = ()) -> None:
        """Protect, pretrain, finetune, deploy.

        Parameters
        ----------
        records
            Everyone.
        hold_out
            The share of people whom no model ever sees, or their records. Audits compare with them. They can ask for
            erasure too.
        not_covered
            Sentences for every certificate on what the claim does not cover, such as settings chosen with a look at the
            records.
        """
        if self._method is None:
            raise ParameterError("which method? pass one to Manager(folder, method) before the first training")
        require_dataset(records, "Manager.train")
        if not isinstance(hold_out, Real):
            require_dataset(hold_out, "hold_out of Manager.train, unless it is a share of people,")
        with changing(self.space, "train"):
            self._workshop.train(records, hold_out, not_covered)

    def renew(self) -> None:
        """Make a second release of the records that are left, and a new base model; claims add up for those in both.

        Raises
        ------
        PrivacyError
            If nothing would be claimed any more for people in both releases, as with k-anonymity.
        """
        with changing(self.space, "renew"):
            self._workshop.renew()

    def add(self, records: Dataset, *, fresh_ids: bool = False, repeated: Repeated | str = Repeated.REFUSE) -> Added:
        """Take in new records, which never touch the base model; those of people held out are held out, too.

        Parameters
        ----------
        records
            The new records, under the schema of the workspace.
        fresh_ids
            Whether ids are generated in place of those the records have, which in a table without a column of ids are
            row numbers and were taken by the first table. A generated id was never used here, by a forgotten record
            included. It is a random prefix, which is returned, and the number of the row.
        repeated
            With fresh ids: what to do if records equal some that are held already, as when a table is added twice.
            ``"refuse"`` them, ``"skip"`` them, or ``"add"`` them as further records. People are compared too, where
            they are known; otherwise records of different people may be equal, and only tables of which at least half
            is held already are refused.
        """
        require_dataset(records, "Manager.add")
        if repeated not in list(Repeated):
            raise ParameterError(f"repeated must be one of {[str(r) for r in Repeated]}, got {repeated!r}")
        with changing(self.space, "add"):
            current = self.space.current()
            roll, prefix, repeats = self.space.roll(current), None, 0
            if fresh_ids:
                prefix = fresh_prefix(roll, self.space.key, len(records), self._rng)
                records = with_ids(records, prefix)
                records, repeats = self._unrepeated(records, Repeated(repeated))
            people, place = np.unique(records.subjects, return_inverse=True)
            back = np.array(roll.forgotten_people(self.space.key, people.tolist()), dtype=bool)[place]
            self._workshop.add(records)
        return Added(len(records), prefix, repeats, int(back.sum()))

    def _unrepeated(self, records: Dataset, repeated: Repeated) -> tuple[Dataset, int]:
        """Return the records to add, and how many equal records that are held already."""
        data, held = self.space.read(self.space.current())
        equal = held_already(records, data.plus(held))
        repeats = int(equal.sum())
        if repeated is Repeated.REFUSE:
            check_repeats(repeats, records)
        if repeated is not Repeated.SKIP:
            return records, repeats
        if equal.all():
            raise DataError(f"all {len(records):,} new records equal records that are held already: nothing to add")
        return records.select(~equal), repeats

    def request_erasure(
        self, *, subject: str | None = None, record: str | None = None, channel: str | None = None, accept: bool = True
    ) -> Request:
        """Take a request by a person, or about one record; it is on disk when this returns.

        With ``accept`` it is accepted at once, or rejected if nothing is held about them; without it, it waits for
        :meth:`accept`, or for :meth:`advance` to a rejection. While another process changes the records, a request
        about somebody unknown stays received and is decided when that change has settled.
        """
        if (subject is None) == (record is None):
            raise ParameterError("whose erasure is asked for? name one subject or one record")
        people, records = ([subject] if subject is not None else []), ([record] if record is not None else [])
        return self.request_many(subjects=people, records=records, channel=channel, accept=accept)[0]

    def request_many(
        self,
        *,
        subjects: Iterable[str] = (),
        records: Iterable[str] = (),
        channel: str | None = None,
        accept: bool = True,
    ) -> list[Request]:
        """Take many requests at once, people first, then records; all or none."""
        self.space.current()
        with self.space.ledger.transaction():
            received = receive(self.space, subjects, records, channel=channel)
            return accept_all(self.space, received) if accept else received

    def accept(self, request: str) -> Request:
        """Accept a request that waits; one about nobody here is rejected, and says so."""
        with self.space.ledger.transaction():
            found = self.space.book.get(request)
            if found.state not in (State.RECEIVED, State.VERIFIED):
                self.space.book.advance(request, State.ACCEPTED)
            return accept_all(self.space, [found])[0]

    def advance(self, request: str, state: State, *, reason: str | None = None) -> Request:
        """Take one request a step further by hand: verified, rejected or cancelled."""
        if state not in (State.VERIFIED, State.REJECTED, State.CANCELLED):
            raise ParameterError(f"by hand a request is verified, rejected or cancelled, not {state}")
        return self.space.book.advance(request, state, reason=reason)

    def extend(self, request: str, *, months: int, reason: str) -> Request:
        """Extend the deadline of a request, once, by one or two months."""
        return self.space.book.extend(request, months=months, reason=reason)

    def forget(self) -> Forgotten:
        """Honour every accepted request with one fine-tuning of the base model on the records that are left.

        Where the records that would be left cannot be trained on, since the last of a class would go, say, only the
        requests that lead there fail; the others are honoured.
        """
        started = time.perf_counter()
        with changing(self.space, "forget"):
            waiting = self._take_up()
            if not waiting:
                return Forgotten()
            before = self.space.current()
            checkpoint("requests are being processed")
            try:
                done, gone = self._workshop.forget(before, waiting)
            except Exception as error:
                # Where even that cannot be written, the next recovery does it.
                with contextlib.suppress(Exception):
                    if self.space.holds_lock and self.space.current().number == before.number:
                        self._give_up({r.id: error for r in waiting})
                raise
            self._give_up(done.failed)
            self._last = (before.number + 1, gone)
            return replace(done, seconds=time.perf_counter() - started)

    def _take_up(self) -> list[Request]:
        """Mark the requests that are to be honoured now; one that is cancelled before this is left out."""
        with self.space.ledger.transaction():
            book = self.space.book
            waiting = [r for r in book.open_requests() if r.state in (State.ACCEPTED, State.FAILED)]
            return book.advance_many(Step(r.id, State.PROCESSING) for r in waiting)

    def _give_up(self, failed: Mapping[str, Exception]) -> None:
        """Note which requests could not be honoured; only the kind of error, since its text may be personal."""
        book, reasons = self.space.book, {n: f"could not be done: {type(why).__name__}" for n, why in failed.items()}
        with self.space.ledger.transaction():
            # A recovery by another process, while the lock file was gone, may have noted it before.
            taken_up = [name for name, r in book.get_many(reasons).items() if r.state is State.PROCESSING]
            book.advance_many(Step(name, State.FAILED, reasons[name]) for name in taken_up)

    def audit(
        self, attack: Attack | None = None, *, references: int = 8, sample: int = 2000, seed: int = 0
    ) -> AuditReport:
        """Attack the served model, and note the result for certificates.

        After a forget of 20 people or more in this process the members are the records that were just forgotten, which
        are in memory alone and given up now; otherwise a sample of the records still in training: how exposed are
        those who stay? Non-members are the people held out.
        """
        current = self.space.current()
        last = self._last[1] if self._last is not None and self._last[0] == current.number else None
        self._last = None
        return audit_served(
            self._workshop,
            last if last is not None and enough_to_audit(last) else None,
            attack=attack or RMIA(),
            references=references,
            sample=sample,
            seed=seed,
        )

    def certify(self, request: str | None = None, *, not_covered: Sequence[str] = ()) -> Certificate:
        """Issue the certificate of a completed request; by default of the one completed last.

        ``not_covered`` are sentences on what the claim does not cover besides what every certificate lists, such as
        settings that were chosen with a look at the records.
        """
        name = request or self._completed_last()
        found = self.space.book.get(name)
        if found.state not in (State.COMPLETED, State.CERTIFIED):
            raise WorkspaceState(f"request {name} is {found.state}: {_NOT_CERTIFIED[found.state]}")
        body = self.space.consistently(lambda: body_for(self.space, found, self.method, not_covered))
        certificate = sign(body, self.space.signing)
        # Every certificate is noted before it is handed out: one that the ledger does not know was not issued here.
        with self.space.ledger.transaction():
            if self.space.book.get(name).state is State.COMPLETED:
                self.space.book.advance(name, State.CERTIFIED, details={"certificate": certificate.digest})
            else:
                self.space.book.reissue(name, certificate=certificate.digest)
        return certificate

    def _completed_last(self) -> str:
        with self.space.ledger.snapshot() as snapshot:
            entry = snapshot.last(f"request.{State.COMPLETED}")
        if entry is None:
            raise WorkspaceState("no request is completed: run forget first")
        return str(entry.body["request"])

    def verify(self, certificate: Certificate | str | Path | None = None) -> None:
        """Check ledger, requests, files and pointer, and a certificate against them; return nothing or raise."""
        check_workspace(self.space)
        if certificate is not None:
            check_certificate(self.space, certificate)

    def status(self) -> WorkspaceStatus:
        """Say what is served and what waits."""
        return self.space.consistently(lambda: status_of(self.space))

    def rows(self, table: Any, *, strict: bool = False, carried: Collection[str] = ()) -> Rows:
        """Read rows to predict: match columns by name, code them by the schema, and mark what had to be adjusted.

        Parameters
        ----------
        table
            A pandas, Arrow or polars table, or a matrix in the schema's coding and order.
        strict
            Whether to refuse values beyond bounds and categories that were inferred, instead of adjusting them.
        carried
            Names of further columns that the table may hold; other unknown columns are an error.
        """
        if self._reader is None:
            # Where nothing is trained, this says so.
            self.space.current()
            self._reader = RowReader(self.space.schema)
        return self._reader.read(table, strict=strict, carried=carried)

    def predict(self, X: Any, *, strict: bool = False) -> Probabilities:
        """Return the served model's probabilities; while a forget runs, the model before it goes on answering.

        Parameters
        ----------
        X
            Rows to predict: a pandas, Arrow or polars table, whose columns are matched by name and in which names of
            people and records, and the label, are ignored; a matrix in the schema's coding and order; or what
            :meth:`rows` returned.
        strict
            Whether to refuse values beyond bounds and categories that were inferred. Otherwise they are adjusted, with
            a warning (:class:`~eupg.data.rows.AdjustedRows`); call :meth:`rows` first to see in which rows.

        Raises
        ------
        DataError
            If columns are missing or unknown, or a value breaks the bounds or categories that the schema declares.
        """
        if isinstance(X, Rows):
            if X.schema.features != self.space.schema.features:
                raise DataError("these rows were read under another schema: read them with this manager's rows()")
            return self._predict(X.X)
        rows = self.rows(X, strict=strict)
        rows.warn(stacklevel=2)
        return self._predict(rows.X)

    def _predict(self, X: Matrix) -> Probabilities:
        while True:
            wanted, found = self.space.current().served, self._served
            if found is None or found[0] != wanted:
                try:
                    found = self._served = (wanted, self._workshop.load(wanted))
                except (EupgError, OSError):
                    # Replaced and deleted between looking and loading: look again.
                    if self.space.current().served != wanted:
                        continue
                    raise
            return found[1].predict_proba(X)

    @property
    def base_model(self) -> Model:
        """The base model, checked against its digest."""
        return self._workshop.load(self.space.current().base)

    @property
    def served_model(self) -> Model:
        """The served model, checked against its digest."""
        return self._workshop.load(self.space.current().served)

    def recover(self) -> Recovered:
        """Bring the workspace back to a whole state after a crash."""
        with self.space.locked("recover"):
            recovered = self.space.recover()
        decide_deferred(self.space)
        return recovered

    def close(self) -> None:
        """Let go of the database and of what is in memory."""
        self._last = self._served = None
        self.space.close()
