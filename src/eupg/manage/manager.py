"""The manager: the whole flow on one workspace, from training to certificates.

>>> from eupg import EUPG, Manager, sources
>>> from eupg.learn import SklearnLearner
>>> from eupg.protect import ProbabilisticKAnonymity
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
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from eupg.audit.membership.attack import Attack
from eupg.audit.membership.report import AuditReport
from eupg.audit.membership.rmia import RMIA
from eupg.certify.certificate import Certificate, sign
from eupg.certify.credential import Credential
from eupg.certify.issuer import Issuer
from eupg.certify.verification import Checkable
from eupg.data.dataset import Dataset, Matrix, require_dataset
from eupg.data.rows import RowReader, Rows
from eupg.data.score import Probabilities
from eupg.errors import DataError, EupgError, ParameterError, WrongState
from eupg.forget.durable import Durable
from eupg.killpoint import checkpoint
from eupg.learn.learner import Model
from eupg.manage.additions import Added, Repeated, check_repeats, fresh_prefix, held_already, with_ids
from eupg.manage.auditing import audit_served
from eupg.manage.batching import BATCHING, BatchPolicy, ForgetQueue
from eupg.manage.budget import LIMIT, new_limit
from eupg.manage.checking import check_certificate, check_workspace
from eupg.manage.description import agrees, as_described, rebuild
from eupg.manage.evidence import body_for
from eupg.manage.forgetting import enough_to_audit
from eupg.manage.integrations.export.copies import ExportFormat, copies_of, export_model
from eupg.manage.issuing import name_issuer
from eupg.manage.ledger.ledger import utc_now
from eupg.manage.ledger.transaction import Clock
from eupg.manage.requests.intake import Intake, changing, decide_deferred
from eupg.manage.requests.intake import accept as accept_all
from eupg.manage.requests.states import UNDECIDED, Request, State, Step
from eupg.manage.status import WorkspaceStatus, status_of
from eupg.manage.storage.change import Recovered, recover
from eupg.manage.storage.store import Digest
from eupg.manage.storage.workspace import Workspace
from eupg.manage.trainer import Forgotten, Trainer
from eupg.pages import card
from eupg.progress import SILENT, Logged, Progress
from eupg.rng import Randomness, Secret

_log = logging.getLogger("eupg")
_NOT_CERTIFIED = {
    State.RECEIVED: "decide on it first, then run forget; a certificate states what was done",
    State.VERIFIED: "decide on it first, then run forget; a certificate states what was done",
    State.ACCEPTED: "run forget first; a certificate states what was done",
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
        How to train and forget. A workspace remembers it, so it is needed only the first time, or if it has parts of
        your own.
    rng
        The randomness of protection and training; that of the operating system unless this is an experiment.
    ledger
        A database URL for the ledger, for instance of PostgreSQL; by default a SQLite file in the folder.
    clock
        Returns the time.
    progress
        Is told of every step; ``eupg.progress.Printed()`` prints each with its time.
    trusted
        Types, besides those skops trusts, that model files of scikit-learn may hold in a workspace that is opened
        without a method. Name only types you trust: loading a file that holds them may run their code.
    """

    def __init__(
        self,
        folder: str | Path,
        method: Durable | None = None,
        *,
        rng: Randomness | None = None,
        ledger: str | None = None,
        clock: Clock = utc_now,
        progress: Progress = SILENT,
        trusted: Sequence[str] = (),
    ) -> None:
        if method is not None and (isinstance(method, type) or not isinstance(method, Durable)):
            raise ParameterError(
                f"expected a method such as EUPG, Retrain, SISA, CertifiedSP or ExactTrees, got {method!r}: a method "
                "of your own needs the methods of eupg.forget.Durable"
            )
        self.space = Workspace(folder, ledger=ledger, clock=clock)
        self._method, self._rng, self._progress = method, rng or Secret(), Logged(progress)
        self._trusted = tuple(trusted)
        self._intake = Intake(self.space)
        self._served: tuple[Digest, Model] | None = None
        self._reader: RowReader | None = None
        # The records of the last forget, in memory alone, so that an audit can still ask about them.
        self._last: tuple[int, Dataset] | None = None
        if method is not None and self.space.trained:
            self._method = as_described(method, self.space.settings.method)
        if self.space.trained and self._method is not None and not agrees(self._method, self.space.settings.method):
            raise ParameterError(
                f"{folder} holds a trained model of another method than {method!r}: open it without a method, or use "
                "another folder"
            )

    def __repr__(self) -> str:
        return f"Manager({str(self.space.folder)!r}{'' if self._method is None else f', {self._method!r}'})"

    def _repr_html_(self) -> str:
        if not self.space.trained:
            return card(repr(self), [], notes=["Nothing is trained here yet."])
        status = self.status()
        people = f" of {status.people:,} people" if status.names_people else ""
        release = f", release {status.releases}" if status.releases else ""
        rows = [
            ("Serves", f"model {status.served[:12]}… of {status.method}{release}"),
            ("Training", f"{status.records:,} records{people}; {status.held_out:,} records held out"),
            ("Requests", f"{status.requests.open:,} open, {status.requests.overdue:,} overdue"),
            ("Claim", status.claim),
        ]
        return card(f"Workspace {self.space.folder}", rows)

    @property
    def method(self) -> Durable:
        """How this workspace trains and forgets."""
        if self._method is None:
            self._method = rebuild(self.space.settings.method, trusted=self._trusted)
        return self._method

    @property
    def _trainer(self) -> Trainer:
        return Trainer(self.space, self.method, self._rng, self._progress)

    def train(self, records: Dataset, *, hold_out: float | Dataset = 0.1, not_covered: Sequence[str] = ()) -> None:
        """Protect, pretrain, finetune, deploy.

        Parameters
        ----------
        records
            Everyone's records.
        hold_out
            The share of people whom no model ever sees, or their records. Audits compare with them. They can ask for
            erasure too.
        not_covered
            Sentences for every certificate on what the claim does not cover, such as settings that were chosen by
            looking at the records.
        """
        if self._method is None:
            raise ParameterError("no method: pass one to Manager(folder, method) before the first training")
        require_dataset(records, "Manager.train")
        if not isinstance(hold_out, Real):
            require_dataset(hold_out, "hold_out of Manager.train, unless it is a share of people,")
        with changing(self.space, "train"):
            self._trainer.train(records, hold_out, not_covered)

    def renew(self) -> None:
        """Make a second release of the records that are left, and a new base model; for people in both, claims add up.

        Raises
        ------
        PrivacyError
            If nothing could be claimed any more for people in both releases, as with k-anonymity; or if the total
            budget would exceed the limit (:meth:`limit_budget`).
        """
        with changing(self.space, "renew"):
            self._trainer.renew()

    def limit_budget(self, *, epsilon: float, delta: float = 0.0) -> None:
        """Set the most privacy budget that all releases together may spend; :meth:`renew` refuses to exceed it.

        The ledger keeps every limit that was ever set; the newest one counts.
        """
        limit = new_limit(epsilon, delta)
        with changing(self.space, "limit the budget"):
            self.space.state()
            self.space.ledger.append(LIMIT, limit.to_json())

    def set_batching(self, policy: BatchPolicy | None) -> None:
        """Set when ``forget(due_only=True)`` honours requests; None goes back to at once.

        The ledger keeps every policy that was ever set; the newest one counts.
        """
        if policy is not None and not isinstance(policy, BatchPolicy):
            raise ParameterError(f"expected a BatchPolicy or None, got {policy!r}")
        with changing(self.space, "set the batching policy"):
            self.space.state()
            self.space.ledger.append(BATCHING, {} if policy is None else asdict(policy))

    def add(self, records: Dataset, *, fresh_ids: bool = False, repeated: Repeated | str = Repeated.REFUSE) -> Added:
        """Take in new records, which never touch the base model; those of people held out are held out too.

        Parameters
        ----------
        records
            The new records, under the schema of the workspace.
        fresh_ids
            Whether to generate ids. In a table without a column of ids, the ids are row numbers, which the first table
            has used. A generated id was never used here, not even by a forgotten record. It consists of a random
            prefix, which is returned, and the number of the row.
        repeated
            With fresh ids: what to do with records that equal some held already, as when a table is added twice:
            ``"refuse"`` them, ``"skip"`` them, or ``"add"`` them as further records. People are compared too, where
            they are known. Otherwise records of different people may be equal, and only a table of which at least half
            is held already is refused.
        """
        require_dataset(records, "Manager.add")
        if repeated not in list(Repeated):
            raise ParameterError(f"repeated must be one of {[str(r) for r in Repeated]}, got {repeated!r}")
        with changing(self.space, "add"):
            index, prefix, repeats = self.space.index(self.space.state()), None, 0
            if fresh_ids:
                prefix = fresh_prefix(index, self.space.key, len(records), self._rng)
                records, repeats = self._unrepeated(with_ids(records, prefix), Repeated(repeated))
            people, place = np.unique(records.subjects, return_inverse=True)
            returned = np.array(index.forgotten_people(self.space.key, people.tolist()), dtype=bool)[place]
            self._trainer.add(records)
        return Added(len(records), prefix, repeats, int(returned.sum()))

    def _unrepeated(self, records: Dataset, repeated: Repeated) -> tuple[Dataset, int]:
        """Return the records to add, and how many equal records held already."""
        data, held_out = self.space.read(self.space.state())
        equal = held_already(records, data.plus(held_out))
        repeats = int(equal.sum())
        if repeated is Repeated.REFUSE:
            check_repeats(repeats, records)
        if repeated is not Repeated.SKIP:
            return records, repeats
        if equal.all():
            raise DataError(f"all {len(records):,} new records equal records held already: there is nothing to add")
        return records.select(~equal), repeats

    def request_erasure(
        self, *, subject: str | None = None, record: str | None = None, channel: str | None = None, accept: bool = True
    ) -> Request:
        """Receive a request by a person, or about one record; it is on disk when this returns.

        With ``accept`` it is accepted at once, or rejected if nothing is held about the person. Without, it waits for
        :meth:`accept`, or for :meth:`advance` to a rejection. While another process changes the records, a request
        about somebody unknown stays received and is decided when that change has settled.
        """
        if (subject is None) == (record is None):
            raise ParameterError("a request is about one subject or one record: name exactly one of them")
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
        """Receive many requests, people first, then records; they are on disk when this returns.

        Up to two thousand are received together or not at all. More are received in parts of that size, so that others
        can write in between: if one part fails, those before it are received, and asking again for all does no harm.
        Requests of several threads share one write to the disk.
        """
        self.space.state()
        return self._intake.take_in(subjects, records, channel=channel, accept=accept)

    def accept(self, request: str) -> Request:
        """Accept a request that waits; one about nobody here is rejected with that reason."""
        with self.space.ledger.transaction():
            waiting = self.space.book.get(request)
            if waiting.state not in UNDECIDED:
                # Raises, and says from which state.
                self.space.book.advance(request, State.ACCEPTED)
            return accept_all(self.space, [waiting])[0]

    def advance(self, request: str, state: State, *, reason: str | None = None) -> Request:
        """Verify, reject or cancel a request by hand."""
        if state not in (State.VERIFIED, State.REJECTED, State.CANCELLED):
            raise ParameterError(f"a request is verified, rejected or cancelled by hand, got {state}")
        return self.space.book.advance(request, state, reason=reason)

    def extend(self, request: str, *, months: int, reason: str) -> Request:
        """Extend the deadline of a request, once, by one or two months."""
        return self.space.book.extend(request, months=months, reason=reason)

    def forget(self, *, due_only: bool = False) -> Forgotten:
        """Honour every accepted request with one fine-tuning of the base model on the records that are left.

        Where the records that would be left cannot be trained on, for instance because the last of a class would go,
        only the requests that lead there fail; the others are honoured.

        Parameters
        ----------
        due_only
            Whether people on whose records the served model was fitted wait until a batch is due
            (:meth:`set_batching`; without a policy it always is). Everybody else is erased now in any case, in a run
            of their own that trains nothing.
        """
        started = time.perf_counter()
        with changing(self.space, "forget"):
            if due_only:
                done = self._honour(lambda queue: queue.unexposed).plus(self._honour(lambda queue: queue.due))
            else:
                done = self._honour(lambda queue: queue.waiting)
        return replace(done, seconds=time.perf_counter() - started) if done.requests else done

    def _honour(self, choose: Callable[[ForgetQueue], Sequence[Request]]) -> Forgotten:
        """Honour the chosen ones of the requests that wait, in one run."""
        waiting = self._take_up(choose)
        if not waiting:
            return Forgotten()
        before = self.space.state()
        checkpoint("requests are being processed")
        try:
            done, gone = self._trainer.forget(before, waiting)
        except Exception as error:
            # If even that cannot be written, the next recovery does it.
            with contextlib.suppress(Exception):
                if self.space.holds_lock and self.space.state().number == before.number:
                    self._give_up({r.id: error for r in waiting})
            raise
        self._give_up(done.failed)
        # Rows that an audit cannot use would only stay in memory.
        self._last = (before.number + 1, gone) if enough_to_audit(gone) else None
        return replace(done, copies=copies_of(self.space, before.served)) if done.trained else done

    def _take_up(self, choose: Callable[[ForgetQueue], Sequence[Request]]) -> list[Request]:
        """Mark the requests that are to be honoured now, without those that were cancelled before."""
        with self.space.ledger.transaction():
            return self.space.book.advance_all(choose(ForgetQueue.of(self.space)), State.PROCESSING)

    def _give_up(self, failed: Mapping[str, Exception]) -> None:
        """Note which requests could not be honoured; only the type of error, since its text may be personal."""
        book, reasons = self.space.book, {n: f"could not be done: {type(why).__name__}" for n, why in failed.items()}
        with self.space.ledger.transaction():
            # A recovery by another process, while the lock file was gone, may have noted it before.
            taken_up = [name for name, r in book.get_many(reasons).items() if r.state is State.PROCESSING]
            book.advance_many(Step(name, State.FAILED, reasons[name]) for name in taken_up)

    def audit(
        self, attack: Attack | None = None, *, references: int = 8, sample: int = 2000, seed: int = 0
    ) -> AuditReport:
        """Attack the served model, and note the result for certificates.

        After a forget of 20 people or more in this process, the members are the records just forgotten. They are in
        memory alone, and are given up now. Otherwise the members are a sample of the records in training, to measure
        how exposed those who stay are. Non-members are the people held out.
        """
        number = self.space.state().number
        last = self._last[1] if self._last is not None and self._last[0] == number else None
        self._last = None
        return audit_served(
            self._trainer,
            last,
            attack=attack or RMIA(),
            references=references,
            sample=sample,
            seed=seed,
        )

    def certify(
        self,
        request: str | None = None,
        *,
        not_covered: Sequence[str] = (),
        issuer: Issuer | None = None,
        reference: str | None = None,
    ) -> Certificate:
        """Issue the certificate of a completed request; by default of the one completed last.

        Parameters
        ----------
        request
            The id of the request.
        not_covered
            Sentences on what the claim does not cover, besides those that every certificate lists.
        issuer
            Who issues it. The workspace remembers its name and contact, so it is needed only once.
        reference
            The issuer's own name for this case, such as a file number; of this certificate alone.
        """
        name = request or self._completed_last()
        completed = self.space.book.get(name)
        if completed.state not in (State.COMPLETED, State.CERTIFIED):
            raise WrongState(f"request {name} is {completed.state}: {_NOT_CERTIFIED[completed.state]}")
        named = name_issuer(self.space, issuer, reference)
        body = self.space.consistently(lambda: body_for(self.space, completed, self.method, not_covered, named))
        certificate = sign(body, self.space.signing)
        # Every certificate is noted before it is handed out: one that the ledger does not know was not issued here.
        with self.space.ledger.transaction():
            if self.space.book.get(name).state is State.COMPLETED:
                self.space.book.advance(name, State.CERTIFIED, details={"certificate": certificate.digest})
            else:
                self.space.book.reissue(name, certificate=certificate.digest)
        _log.info("certify done: request %s, certificate %s", name, certificate.digest)
        return certificate

    def _completed_last(self) -> str:
        name = self.space.book.completed_last()
        if name is None:
            raise WrongState("no request is completed: run forget first")
        return name

    def credential(self, certificate: Certificate) -> Credential:
        """Return a certificate of this workspace as a W3C Verifiable Credential, signed with the same key."""
        check_certificate(self.space, certificate)
        return Credential.of(certificate, self.space.signing)

    def verify(self, certificate: Checkable | None = None) -> None:
        """Check ledger, requests, files and pointer, and a certificate against them; raise if anything is wrong."""
        check_workspace(self.space)
        if certificate is not None:
            check_certificate(self.space, certificate)

    def status(self) -> WorkspaceStatus:
        """Return what is served, and which requests wait."""
        return self.space.consistently(lambda: status_of(self.space))

    def rows(self, table: Any, *, strict: bool = False, carried: Collection[str] = ()) -> Rows:
        """Read rows to predict: match columns by name, code them by the schema, and mark adjusted values.

        Parameters
        ----------
        table
            A pandas, Arrow or polars table, or a matrix in the schema's coding and order.
        strict
            Whether to refuse values beyond inferred bounds and categories, instead of adjusting them.
        carried
            Names of further columns that the table may have; other unknown columns are an error.
        """
        if self._reader is None:
            # Raises where nothing is trained.
            self.space.state()
            self._reader = RowReader(self.space.schema)
        return self._reader.read(table, strict=strict, carried=carried)

    def predict(self, X: Any, *, strict: bool = False) -> Probabilities:
        """Return the served model's probabilities; while a forget runs, the earlier model keeps answering.

        Parameters
        ----------
        X
            Rows to predict. In a pandas, Arrow or polars table, columns are matched by name, and names of people and
            records, and the label, are ignored. Or a matrix in the schema's coding and order, or the result of
            :meth:`rows`.
        strict
            Whether to refuse values beyond inferred bounds and categories. Otherwise they are adjusted, with a warning
            (:class:`~eupg.data.rows.AdjustedRows`); call :meth:`rows` first to see in which rows.

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
            digest, served = self.space.state().served, self._served
            if served is None or served[0] != digest:
                try:
                    served = self._served = (digest, self._trainer.served_model(digest))
                except (EupgError, OSError):
                    # It may have been replaced and deleted before it was loaded: look again.
                    if self.space.state().served != digest:
                        continue
                    raise
            return served[1].predict_proba(X)

    @property
    def base_model(self) -> Model:
        """The base model, checked against its digest; a method without one raises."""
        base = self._trainer.base_model(self.space.state())
        if base is None:
            raise WrongState(f"{type(self.method).__name__} has no base model: use served_model")
        return base

    @property
    def served_model(self) -> Model:
        """The served model, checked against its digest."""
        return self._trainer.served_model(self.space.state().served)

    def export(self, path: str | Path, *, format: ExportFormat | str = ExportFormat.NATIVE) -> list[Path]:
        """Write the served model for use without this library; return the files, a statement last.

        The copy does not forget: replace it after the next :meth:`forget`, with another call. The ledger notes it.

        Parameters
        ----------
        path
            With ``"native"``, a folder that is new or empty or holds an earlier export: the framework's own file, how a
            raw row becomes its input (``preprocessing.json``), and ``predict.py``, which needs no EUPG. With
            ``"onnx"``, a file: model and preprocessing as one graph, with one input per column.
        format
            ``"native"`` or ``"onnx"``.

        Raises
        ------
        ParameterError
            If the place cannot be used, or no such file can hold this model.
        """
        return export_model(self._trainer, path, format)

    def recover(self) -> Recovered:
        """Bring the workspace back to a whole state after a crash."""
        with self.space.locked("recover"):
            recovered = recover(self.space)
        decide_deferred(self.space)
        return recovered

    def close(self) -> None:
        """Release the database, and the model and records in memory."""
        self._last = self._served = None
        self.space.close()
