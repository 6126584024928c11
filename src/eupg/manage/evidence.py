"""Everything a certificate says about one request, gathered from the ledger and the workspace.

Nothing is computed here that was not noted when it happened, so a certificate can be issued long after the records it
speaks of are gone.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from eupg.audit.duplicates import DuplicateReport
from eupg.certify.body import Body, Deletion, Derived, LedgerHead, Method, Provenance
from eupg.certify.body import Request as Asked
from eupg.certify.claimed import Claimed
from eupg.certify.measured import Kind, Measurement
from eupg.certify.wording import ALL_VERSIONS
from eupg.errors import WorkspaceDamaged
from eupg.forget.eupg import EUPG
from eupg.guarantees import DifferentiallyPrivate, Guarantee, KAnonymous, Neighbours, guarantee_from_json
from eupg.guarantees.wording import NO_PERSON, REQUESTS_APART, as_sentence
from eupg.manage.auditing import FORGOTTEN
from eupg.manage.current import Current
from eupg.manage.description import describe
from eupg.manage.earlier import answer_details, forget_entry
from eupg.manage.events import Entry
from eupg.manage.forgetting import FEWEST_AUDITED
from eupg.manage.request_states import Request, State
from eupg.manage.workspace import Workspace

_OTHERS_UNKNOWN = "Other records of the same person: no column names people, so that none are known here."
_LIBRARIES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "torch": "torch",
    "opacus": "opacus",
}


def body_for(space: Workspace, request: Request, method: EUPG, not_covered: Sequence[str] = ()) -> Body:
    """Return what a certificate for this request says."""
    current = space.current()
    history = {entry.kind: entry for entry in space.book.history(request.id)}
    completed: Any = history[f"request.{State.COMPLETED}"].body["details"]
    done = answer_details(completed)
    change = int(done["change"])
    kinds = ["forget", "measure", "audit", "delete"]
    with space.ledger.snapshot() as snapshot:
        noted = [e for e in snapshot.entries(kinds=kinds) if e.body.get("change") == change]
        noted = [forget_entry(e, snapshot) if e.kind == "forget" else e for e in noted]
    claim = guarantee_from_json(done["claim"])
    nameless = space.schema.subject is None and space.roll(current).nameless
    told = claim.narrowed(NO_PERSON) if nameless else claim
    seeded = bool(claim.seeded or any(guarantee_from_json(r.claim).seeded for r in current.releases))
    head = space.ledger.head()
    return Body.of(
        issued=space.ledger.now().isoformat(timespec="microseconds"),
        request=_asked(request, history, done, nameless=nameless),
        method=Method(
            name=type(method).__name__,
            mechanism=repr(method.mechanism),
            learner=repr(method.learner),
            parameters={"method": describe(method)},
            seeded=seeded,
        ),
        claimed=Claimed.of(
            done["claim"],
            " ".join((told.sentence(), *_all_versions(method, told))),
            never_seen_raw=done["seen"] == 0,
            seeded=seeded,
        ),
        measured=_measured(noted, done, current, claim),
        deleted=[
            Deletion(what=str(e.body["what"]), digest=str(e.body["digest"]), at=e.at, event=e.number)
            for e in noted
            if e.kind == "delete"
        ],
        provenance=_provenance(space, current, next(e.body for e in noted if e.kind == "forget")),
        ledger=LedgerHead(number=head.number, digest=head.digest),
        assumed=_assumed(claim.caveats, seen=int(done["seen"])),
        not_covered=(
            # An earlier version's claim does not say so itself, and is certified as it was noted.
            *((_OTHERS_UNKNOWN,) if told != claim else ()),
            *space.not_covered,
            *_still_held(space, current, request),
            *not_covered,
        ),
    )


def _all_versions(method: EUPG, claim: Guarantee) -> list[str]:
    """Say that all versions are covered where no model is ever fitted on a record but under a claim about presence."""
    private = isinstance(claim, DifferentiallyPrivate) and claim.neighbours is not Neighbours.SUBSTITUTION
    return [ALL_VERSIONS] if private and not claim.leaves_open and not method.sees_raw else []


def _assumed(caveats: Sequence[str], *, seen: int) -> list[str]:
    """Return what a claim assumes that was noted before claims said so themselves."""
    return [as_sentence(REQUESTS_APART)] if seen and REQUESTS_APART not in caveats else []


def _asked(request: Request, history: Mapping[str, Entry], done: Mapping[str, Any], *, nameless: bool) -> Asked:
    return Asked(
        id=request.id,
        # Where nothing tells whose the records are, a person's name is a record's.
        unit="record" if nameless else request.unit,  # type: ignore[arg-type]
        digest=request.digest,
        received=request.received_at,
        accepted=history[f"request.{State.ACCEPTED}"].at,
        completed=history[f"request.{State.COMPLETED}"].at,
        due=request.due.isoformat(),
        identity_verified=request.verified,
        records_erased=int(done["records"]),
        people_known=not nameless,
        together=done.get("together"),
    )


def _still_held(space: Workspace, current: Current, request: Request) -> list[str]:
    """Say what is held of the same person when the certificate is issued: the claim does not speak of it."""
    again, others = space.roll(current).still_held(request)
    found = [f"What came in again: records of this {request.unit} since the erasure ({again})."] if again else []
    if others:
        found.append(f"What other records of this person that were kept ({others}) tell about the erased one.")
    return found


def _measured(noted: list[Entry], done: Mapping[str, Any], current: Current, claim: Guarantee) -> list[Measurement]:
    found: list[Measurement] = []
    measures: dict[str, Any] = {}
    audits: list[Any] = []
    for entry in noted:
        body: Any = entry.body
        if entry.kind == "measure":
            measures |= body
            audits += body.get("audits", [])
        elif entry.kind == "forget":
            found += (
                [_exposure(body, int(done["exposed"]), int(done["seen"]))] if body["elapsed_ms"] is not None else []
            )
        elif body.get("about") == FORGOTTEN:
            # An audit of those who stay says nothing about the one who asked.
            audits.append(body)
    if isinstance(claim, KAnonymous):
        found += _linking(done, current, claim)
    found.append(_twins(done, measures))
    if not audits:
        # Earlier versions did not note which of the two it was.
        why = f"fewer than {FEWEST_AUDITED} people were forgotten together, or fewer than {FEWEST_AUDITED} held out"
        found.append(Measurement.missing(Kind.MEMBERSHIP, str(measures.get("no_audit", why))))
    return found + [Measurement.audit(a["report"], a["words"]) for a in audits]


def _twins(done: Mapping[str, Any], measures: Mapping[str, Any]) -> Measurement:
    """Count the twins of this request's own records; an earlier version noted those of the whole batch."""
    own = done.get("duplicates")
    if own is not None:
        return Measurement.near_duplicates(own, DuplicateReport.from_json(own).sentence())
    batch = measures.get("duplicates")
    if batch is not None and "together" not in done and done["held_out"] < done["records"]:
        alone = batch["report"]["forgotten"] == done["records"] - done["held_out"]
        return Measurement.near_duplicates(batch["report"], batch["words"], batch=not alone)
    why = "no record in training was erased for this request, or none was left to compare with"
    return Measurement.missing(Kind.NEAR_DUPLICATES, why)


def _exposure(forget: Mapping[str, Any], exposed: int, seen: int) -> Measurement:
    """Say whether a model had seen the records, and how long the run of forgetting took."""
    took = f"the whole run took {forget['elapsed_ms']:g} ms"
    if seen and not (exposed and forget["trained"]):
        result = "seen raw by an earlier model, which another request had replaced before"
        words = f"An earlier model had been fitted on {seen} of the records; another request had replaced it before."
    elif exposed and forget["served"] == forget["base"]:
        result = f"seen raw, so the base model is served instead; {took}"
        words = f"The model in use had been fitted on {exposed} of the records; the base model replaced it; {took}."
    elif exposed:
        result = f"seen raw, so the base model was fine-tuned again; {took}"
        words = f"The model in use had been fitted on {exposed} of the records; it was replaced; {took}."
    else:
        result = f"never seen raw, nothing to undo; {took}"
        words = f"The model in use was never fitted on the records, so what is claimed held before; {took}."
    numbers = {"records_seen_raw": seen, "elapsed_ms": forget["elapsed_ms"], "trained": forget["trained"]}
    return Measurement.of(Kind.EXPOSURE, result, words, numbers)


def _linking(done: Mapping[str, Any], current: Current, claim: KAnonymous) -> list[Measurement]:
    counted = done.get("effective_k")
    if counted is None:
        raise WorkspaceDamaged("the ledger has no effective k for this request, though its records were released")
    words, k = str(counted["words"]), int(counted["k"])
    figures = (int(counted["minimum"]), float(counted["median"]), float(counted["alone"]))
    return [
        Measurement.effective_k(*figures, k=k, sentence=words),
        Measurement.constant_columns(dict(current.releases[-1].constant)),
        Measurement.missing(Kind.SHARED_VALUES, "an earlier version made the release")
        if claim.shared is None
        else Measurement.shared_values(dict(claim.shared)),
    ]


def _provenance(space: Workspace, current: Current, forget: Mapping[str, Any]) -> Provenance:
    return Provenance(
        eupg=version("eupg"),
        python=platform.python_version(),
        libraries=_versions(),
        base_model=forget["base"],
        release=forget["release"],
        new_model=forget["served"],
        retained=forget.get("retained_digest", current.retained if current.number == forget["change"] else None),
        schema=hashlib.sha256(space.schema.to_toml().encode()).hexdigest(),
        data_derived=tuple(Derived(what=c, source="the records themselves") for c in space.schema.caveats),
    )


def _versions() -> dict[str, str]:
    """Return the versions of the libraries that are loaded; a build under another name counts by its module."""
    found = {}
    for module, package in _LIBRARIES.items():
        if module in sys.modules:
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = str(getattr(sys.modules[module], "__version__", "unknown"))
    return found
