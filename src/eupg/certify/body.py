"""What a certificate says about one request, as plain data: claimed, measured, assumed, deleted and where from.

The three kinds of statement are kept apart: what follows from a theorem, what an experiment found, and what has to be
believed. Nothing personal enters: people appear as keyed digests, files by the digest of their content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eupg.certify.claimed import Claimed
from eupg.certify.measured import Kind, Measurement
from eupg.certify.parts import Day, Digest, KeyedDigest, Moment, Part, RequestId, Text
from eupg.certify.wording import ALL_VERSIONS, EARLIER_MODELS, NOT_COVERED, says_earlier_models
from eupg.errors import CertificateRefused, ParameterError
from eupg.guarantees import DifferentiallyPrivate, KAnonymous, Unit
from eupg.guarantees.wording import SEEDED

FORMAT = "eupg-certificate-2"
# The first format says neither how many were forgotten together nor what groups of records share.
FIRST_FORMAT = "eupg-certificate-1"
FORMATS = (FIRST_FORMAT, FORMAT)


@dataclass(frozen=True, kw_only=True)
class Request(Part):
    """The request that was honoured.

    Parameters
    ----------
    id
        Its random name in the ledger.
    unit
        Whether a person or a single record was to be forgotten; a record where nothing tells whose it is.
    digest
        Keyed digest of the person's or record's id; without the workspace's key it says nothing.
    received, accepted, completed
        Moments in UTC.
    due
        The day or moment the law gave.
    identity_verified
        Whether it was checked that the person asked for themselves.
    records_erased
        How many records were erased.
    people_known
        Whether it was known which records belong to one person; False makes every claim one about records alone. None
        in certificates of the first format.
    together
        How many people were forgotten in the same run, this one among them; records, where nothing tells whose they
        are. Where the model that was replaced had been fitted on this one's records, only those are counted whose
        records it had been fitted on, too: whoever compares the models sees the difference that they make together.
        None where it was not noted.
    """

    id: RequestId
    unit: Unit
    digest: KeyedDigest
    received: Moment
    accepted: Moment
    completed: Moment
    due: Day
    identity_verified: bool
    records_erased: int
    people_known: bool | None = None
    together: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.together is not None and self.together < 1:
            raise ParameterError(f"Request.together: expected at least 1, found {self.together}")
        if self.records_erased < 1:
            raise ParameterError(f"Request.records_erased: expected at least 1, found {self.records_erased}")

    @property
    def in_time(self) -> bool:
        """Whether the erasure was completed on the day it was due, or before; days are those of UTC."""
        if len(self.due) == len("2025-01-31"):
            return self.completed[:10] <= self.due
        return datetime.fromisoformat(self.completed) <= datetime.fromisoformat(self.due)


@dataclass(frozen=True, kw_only=True)
class Method(Part):
    """How the model was trained and forgets.

    Parameters
    ----------
    name, mechanism, learner
        The unlearning method, what protected the data (None for plain retraining) and what trained on it.
    parameters
        Their settings, as plain values.
    seeded
        True when any randomness of the run can be repeated from a known seed.
    """

    name: Text
    mechanism: Text | None
    learner: Text
    parameters: Mapping[str, Any]
    seeded: bool


@dataclass(frozen=True, kw_only=True)
class Deletion(Part):
    """A file that was deleted: what it was, its digest, when, and the ledger's entry that says so."""

    what: Text
    digest: Digest
    at: Moment
    event: int


@dataclass(frozen=True, kw_only=True)
class Derived(Part):
    """Something that was read from the data: bounds, categories, scales, embeddings; and where it came from."""

    what: Text
    source: Text


@dataclass(frozen=True, kw_only=True)
class Provenance(Part):
    """Which software and which files stand behind the certificate.

    Parameters
    ----------
    eupg, python
        Versions.
    libraries
        Versions of the libraries that took part.
    base_model, release
        Digests of the protected copy and of the model trained on it; None where there is neither. Both are the
        model's where it was trained under protection, without a copy.
    new_model, retained, schema
        Digests of the model in use, of the records it may know, and of the schema; ``retained`` is None once nobody is
        left.
    data_derived
        What was read from the data rather than declared.
    """

    eupg: Text
    python: Text
    libraries: Mapping[str, str]
    base_model: Digest | None
    release: Digest | None
    new_model: Digest
    retained: Digest | None
    schema: Digest
    data_derived: tuple[Derived, ...]


@dataclass(frozen=True, kw_only=True)
class LedgerHead(Part):
    """The newest entry of the ledger when the certificate was issued; it shows a tail that was cut off later."""

    number: int
    digest: Digest


@dataclass(frozen=True, kw_only=True)
class Body(Part):
    """Everything a certificate says. Build it with :meth:`of`, which adds what every certificate has to say."""

    format: str
    issued: Moment
    request: Request
    method: Method
    claimed: Claimed
    measured: tuple[Measurement, ...]
    assumed: tuple[Text, ...]
    not_covered: tuple[Text, ...]
    deleted: tuple[Deletion, ...]
    provenance: Provenance
    ledger: LedgerHead

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_format()
        self._check_files()
        self._check_measures()
        if not (says_earlier_models(self.not_covered) or _covers_all_versions(self.claimed)):
            raise CertificateRefused(f"not_covered has to say: {EARLIER_MODELS!r}; build the body with Body.of")
        if self.seeded and not (SEEDED in self.assumed and SEEDED in self.claimed.sentence):
            raise CertificateRefused(
                f"a seeded run has to say in its claim and among its assumptions: {SEEDED!r}; "
                "build the body with Body.of and the claim with Claimed.of(…, seeded=True)"
            )

    @classmethod
    def of(
        cls,
        *,
        issued: str,
        request: Request,
        method: Method,
        claimed: Claimed,
        measured: Sequence[Measurement],
        deleted: Sequence[Deletion],
        provenance: Provenance,
        ledger: LedgerHead,
        assumed: Sequence[str] = (),
        not_covered: Sequence[str] = (),
    ) -> Body:
        """Put a certificate's content together; further assumptions and exclusions follow the standing ones."""
        seeded = method.seeded or claimed.claim.seeded
        return cls(
            format=FORMAT,
            issued=issued,
            request=request,
            method=method,
            claimed=claimed,
            measured=tuple(measured),
            assumed=(*claimed.claim.assumptions(seeded=seeded), *assumed),
            not_covered=(
                *(said for said in NOT_COVERED if said != EARLIER_MODELS or not _covers_all_versions(claimed)),
                *not_covered,
            ),
            deleted=tuple(deleted),
            provenance=provenance,
            ledger=ledger,
        )

    @property
    def seeded(self) -> bool:
        """Whether any randomness of the run can be repeated."""
        return self.method.seeded or self.claimed.claim.seeded

    def measurement(self, kind: Kind) -> Measurement | None:
        """Return the first measurement of that kind."""
        return next((m for m in self.measured if m.kind is kind), None)

    def _check_format(self) -> None:
        if self.format not in FORMATS:
            raise ParameterError(f"Body.format: expected {FORMAT!r}, found {self.format!r}")
        if self.format == FIRST_FORMAT:
            later = {
                "request.people_known": self.request.people_known,
                "request.together": self.request.together,
                "claimed.claim.shared": self._shared,
            }
            unknown = [name for name, value in later.items() if value is not None]
            if unknown:
                raise ParameterError(f"Body: expected no field {', '.join(unknown)} in {self.format!r}, found one")
        elif self.request.people_known is None:
            raise ParameterError("Body.request.people_known: expected true or false, found none")
        elif not self.request.people_known and self.request.unit is Unit.PERSON:
            raise ParameterError("Body.request.unit: expected 'record' where people are not known, found 'person'")

    @property
    def _shared(self) -> tuple[tuple[str, float], ...] | None:
        return self.claimed.claim.shared if isinstance(self.claimed.claim, KAnonymous) else None

    def _check_files(self) -> None:
        files = (self.provenance.base_model, self.provenance.release)
        if None in files and isinstance(self.claimed.claim, KAnonymous | DifferentiallyPrivate):
            raise CertificateRefused(
                "a claim that rests on a protected copy needs the digests of that copy and of the base model: "
                "give Provenance both"
            )

    def _check_measures(self) -> None:
        needed = {Kind.NEAR_DUPLICATES}
        if isinstance(self.claimed.claim, KAnonymous):
            needed |= {Kind.EFFECTIVE_K, Kind.CONSTANT_COLUMNS}
            needed |= {Kind.SHARED_VALUES} if self.format != FIRST_FORMAT else set()
        absent = sorted(needed - {m.kind for m in self.measured})
        if absent:
            raise CertificateRefused(
                f"this claim needs a word about {', '.join(absent)}: "
                "measure it, or say why not with Measurement.missing"
            )


def _covers_all_versions(claimed: Claimed) -> bool:
    """Tell whether it is claimed that all versions are covered, by a claim that can be."""
    private = isinstance(claimed.claim, DifferentiallyPrivate) and claimed.claim.covers_presence
    return private and claimed.never_seen_raw and ALL_VERSIONS in claimed.sentence
