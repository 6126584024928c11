"""Everything a certificate says about one request, collected from the ledger and the workspace.

All of it was noted when it happened, so a certificate can be issued long after the records it speaks of are gone.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from eupg.audit.duplicates import DuplicateReport
from eupg.certify.body import Body, CertifiedMethod, CertifiedRequest, Deletion, Derived, LedgerHead, Provenance
from eupg.certify.claimed import Claimed
from eupg.certify.issuer import Issuer
from eupg.certify.measured import Measurement, MeasurementKind
from eupg.certify.wording import ALL_VERSIONS
from eupg.errors import WorkspaceDamaged
from eupg.forget.durable import Durable, assumes_requests_apart
from eupg.guarantees import DifferentiallyPrivate, Guarantee, KAnonymous, Neighbours, Unit, guarantee_from_json
from eupg.guarantees.wording import NO_PERSON, REQUESTS_APART, as_sentence
from eupg.manage.auditing import FORGOTTEN
from eupg.manage.description import describe
from eupg.manage.forgetting import FEWEST_AUDITED
from eupg.manage.ledger.earlier_formats import answer_details, forget_entry
from eupg.manage.ledger.events import Entry
from eupg.manage.ledger.transaction import Snapshot
from eupg.manage.requests.states import Request, State
from eupg.manage.storage.pointer import SETTLED
from eupg.manage.storage.state import WorkspaceState, digest_of_all
from eupg.manage.storage.workspace import Workspace

_OTHERS_UNKNOWN = "Other records of the same person: no column names people, so none are known here."
_LIBRARIES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "torch": "torch",
    "opacus": "opacus",
}


def body_for(
    space: Workspace, request: Request, method: Durable, not_covered: Sequence[str] = (), issuer: Issuer | None = None
) -> Body:
    """Return what a certificate for this request says."""
    state = space.state()
    history = {entry.kind: entry for entry in space.book.history(request.id)}
    completed = history[f"request.{State.COMPLETED}"]
    noted: Any = completed.body["details"]
    answer = answer_details(noted)
    with space.ledger.snapshot() as snapshot:
        entries = [e for e in entries_of_change(snapshot, completed) if e.body.get("change") == int(answer["change"])]
        entries = [forget_entry(e, snapshot) if e.kind == "forget" else e for e in entries]
    claim = guarantee_from_json(answer["claim"])
    nameless = space.schema.subject is None and space.index(state).nameless
    stated = claim.narrowed(NO_PERSON) if nameless else claim
    seeded = bool(claim.seeded or any(guarantee_from_json(r.claim).seeded for r in state.releases))
    head = space.ledger.head()
    return Body.of(
        issued=space.ledger.now().isoformat(timespec="microseconds"),
        request=_request(request, history, answer, nameless=nameless),
        method=CertifiedMethod(
            name=type(method).__name__,
            mechanism=repr(method.mechanism) if hasattr(method, "mechanism") else None,
            learner=repr(getattr(method, "learner", method)),
            parameters={"method": describe(method)},
            seeded=seeded,
        ),
        claimed=Claimed.of(
            answer["claim"],
            " ".join((stated.sentence(), *_all_versions(method, stated))),
            never_seen_raw=answer["seen"] == 0,
            seeded=seeded,
        ),
        measured=_measured(entries, answer, state, claim),
        deleted=[
            Deletion(what=str(e.body["what"]), digest=str(e.body["digest"]), at=e.at, event=e.number)
            for e in entries
            if e.kind == "delete"
        ],
        provenance=_provenance(space, state, next(e.body for e in entries if e.kind == "forget")),
        ledger=LedgerHead(number=head.number, digest=head.digest),
        assumed=_assumed(claim.caveats, seen=assumes_requests_apart(method) and int(answer["seen"]) > 0),
        not_covered=(
            # A claim noted by an earlier version does not say so itself, and is certified as it was noted.
            *((_OTHERS_UNKNOWN,) if stated != claim else ()),
            *space.settings.not_covered,
            *_still_held(space, state, request),
            *not_covered,
        ),
        issuer=issuer,
    )


def entries_of_change(snapshot: Snapshot, completed: Entry) -> list[Entry]:
    """Return what was noted about the change that completed a request: from the change before it to the one after.

    Audits may follow until then. However long the ledger is, nothing else of it is read.
    """
    before = snapshot.last(SETTLED, before=completed.number)
    settled = snapshot.next(SETTLED, completed.number)
    following = None if settled is None else snapshot.next(SETTLED, settled.number)
    return snapshot.between(
        0 if before is None else before.number,
        None if following is None else following.number,
        ["forget", "measure", "audit", "delete"],
    )


def _all_versions(method: Durable, claim: Guarantee) -> list[str]:
    """Say that all versions are covered, if every model that saw a record has a claim about the record's presence."""
    private = isinstance(claim, DifferentiallyPrivate) and claim.neighbours is not Neighbours.SUBSTITUTION
    return [ALL_VERSIONS] if private and not claim.leaves_open and not getattr(method, "sees_raw", True) else []


def _assumed(caveats: Sequence[str], *, seen: bool) -> list[str]:
    """Return what a claim assumes, if it was noted before claims said so themselves."""
    return [as_sentence(REQUESTS_APART)] if seen and REQUESTS_APART not in caveats else []


def _request(
    request: Request, history: Mapping[str, Entry], answer: Mapping[str, Any], *, nameless: bool
) -> CertifiedRequest:
    return CertifiedRequest(
        id=request.id,
        # Where no column names people, the name of a person is that of a record.
        unit=Unit.RECORD if nameless else Unit(request.unit),
        digest=request.digest,
        received=request.received_at,
        accepted=history[f"request.{State.ACCEPTED}"].at,
        completed=history[f"request.{State.COMPLETED}"].at,
        due=request.due.isoformat(),
        identity_verified=request.verified,
        records_erased=int(answer["records"]),
        people_known=not nameless,
        together=answer.get("together"),
    )


def _still_held(space: Workspace, state: WorkspaceState, request: Request) -> list[str]:
    """Say what is held about the same person when the certificate is issued: the claim does not cover it."""
    again, others = space.index(state).still_held(request)
    sentences = [f"What came in again: records of this {request.unit} since the erasure ({again})."] if again else []
    if others:
        sentences.append(f"What other records of this person that were kept ({others}) tell about the erased one.")
    return sentences


def _measured(
    entries: list[Entry], answer: Mapping[str, Any], state: WorkspaceState, claim: Guarantee
) -> list[Measurement]:
    results: list[Measurement] = []
    measures: dict[str, Any] = {}
    audits: list[Any] = []
    for entry in entries:
        body: Any = entry.body
        if entry.kind == "measure":
            measures |= body
            audits += body.get("audits", [])
        elif entry.kind == "forget":
            if body["elapsed_ms"] is not None:
                results.append(_exposure(body, int(answer["exposed"]), int(answer["seen"])))
        elif body.get("about") == FORGOTTEN:
            # An audit of those who stay says nothing about the person who asked.
            audits.append(body)
    if isinstance(claim, KAnonymous):
        results += _linking(answer, state, claim)
    results.append(_twins(answer, measures))
    if not audits:
        # Earlier versions did not note which of the two it was.
        why = f"fewer than {FEWEST_AUDITED} people were forgotten together, or fewer than {FEWEST_AUDITED} held out"
        results.append(Measurement.missing(MeasurementKind.MEMBERSHIP, str(measures.get("no_audit", why))))
    return results + [Measurement.audit(a["report"], a["words"]) for a in audits]


def _twins(answer: Mapping[str, Any], measures: Mapping[str, Any]) -> Measurement:
    """Count the twins of this request's own records; an earlier version noted those of the whole batch."""
    own = answer.get("duplicates")
    if own is not None:
        return Measurement.near_duplicates(own, DuplicateReport.from_json(own).sentence())
    batch = measures.get("duplicates")
    if batch is not None and "together" not in answer and answer["held_out"] < answer["records"]:
        alone = batch["report"]["forgotten"] == answer["records"] - answer["held_out"]
        return Measurement.near_duplicates(batch["report"], batch["words"], batch=not alone)
    why = "no record in training was erased for this request, or none was left to compare with"
    return Measurement.missing(MeasurementKind.NEAR_DUPLICATES, why)


def _exposure(forget: Mapping[str, Any], exposed: int, seen: int) -> Measurement:
    """Say whether a model had seen the records, and how long the forgetting took."""
    took = f"the whole run took {forget['elapsed_ms']:g} ms"
    if seen and not (exposed and forget["trained"]):
        result = "seen raw by an earlier model, which another request had replaced before"
        words = f"An earlier model had been fitted on {seen} of the records; another request had replaced it before."
    elif exposed and forget["served"] == forget["base"]:
        result = f"seen raw, so the base model is served instead; {took}"
        words = f"The model in use had been fitted on {exposed} of the records; the base model replaced it; {took}."
    elif exposed:
        # Earlier versions knew one method.
        how = forget.get("how", "the base model was fine-tuned again")
        result = f"seen raw, so {how}; {took}"
        words = f"The model in use had been fitted on {exposed} of the records; {how}; {took}."
    else:
        result = f"never seen raw, nothing to undo; {took}"
        words = f"The model in use was never fitted on the records, so what is claimed held before; {took}."
    numbers = {"records_seen_raw": seen, "elapsed_ms": forget["elapsed_ms"], "trained": forget["trained"]}
    return Measurement.of(MeasurementKind.EXPOSURE, result, words, numbers)


def _linking(answer: Mapping[str, Any], state: WorkspaceState, claim: KAnonymous) -> list[Measurement]:
    counted = answer.get("effective_k")
    if counted is None:
        raise WorkspaceDamaged(
            "the ledger has no effective k for this request, though its records were released: restore it from a backup"
        )
    words, k = str(counted["words"]), int(counted["k"])
    figures = (int(counted["minimum"]), float(counted["median"]), float(counted["alone"]))
    return [
        Measurement.effective_k(*figures, k=k, sentence=words),
        Measurement.constant_columns(dict(state.releases[-1].constant)),
        Measurement.missing(MeasurementKind.SHARED_VALUES, "an earlier version made the release")
        if claim.shared is None
        else Measurement.shared_values(dict(claim.shared)),
    ]


def _provenance(space: Workspace, state: WorkspaceState, forget: Mapping[str, Any]) -> Provenance:
    # Earlier versions did not note the digest of the retained records.
    retained = digest_of_all(state.records) if state.number == forget["change"] else None
    return Provenance(
        eupg=version("eupg"),
        python=platform.python_version(),
        libraries=_versions(),
        base_model=forget["base"],
        release=forget["release"],
        new_model=forget["served"],
        retained=forget.get("retained_digest", retained),
        schema=hashlib.sha256(space.schema.to_toml().encode()).hexdigest(),
        data_derived=tuple(Derived(what=c, source="the records themselves") for c in space.schema.caveats),
    )


def _versions() -> dict[str, str]:
    """Return the versions of the loaded libraries; a build under another package name is known by its module."""
    versions = {}
    for module, package in _LIBRARIES.items():
        if module in sys.modules:
            try:
                versions[package] = version(package)
            except PackageNotFoundError:
                versions[package] = str(getattr(sys.modules[module], "__version__", "unknown"))
    return versions
