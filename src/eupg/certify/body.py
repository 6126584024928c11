"""What a certificate says about one request, as plain data: claimed, measured, assumed, deleted and where from.

The three kinds of statement are kept apart: what follows from a theorem, what an experiment found, and what has to be
believed. Nothing personal enters: people appear as keyed digests, files by the digest of their content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eupg.certify.claimed import SEEDED, Claimed, LinkingClaim, PrivateClaim, Unit
from eupg.certify.measured import Kind, Measurement
from eupg.certify.parts import Day, Digest, KeyedDigest, Moment, Part, RequestId, Text
from eupg.certify.wording import EARLIER_MODELS, NOT_COVERED, assumptions, says_earlier_models
from eupg.errors import CertificateRefused, ParameterError

FORMAT = "eupg-certificate-1"


@dataclass(frozen=True, kw_only=True)
class Request(Part):
    """The request that was honoured.

    Parameters
    ----------
    id
        Its random name in the ledger.
    unit
        Whether a person or a single record was to be forgotten.
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

    def __post_init__(self) -> None:
        super().__post_init__()
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
        if self.format != FORMAT:
            raise ParameterError(f"Body.format: expected {FORMAT!r}, found {self.format!r}")
        self._check_files()
        self._check_measures()
        if not says_earlier_models(self.not_covered):
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
            assumed=(*assumptions(claimed, seeded=seeded), *assumed),
            not_covered=(*NOT_COVERED, *not_covered),
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

    def _check_files(self) -> None:
        files = (self.provenance.base_model, self.provenance.release)
        if None in files and isinstance(self.claimed.claim, LinkingClaim | PrivateClaim):
            raise CertificateRefused(
                "a claim that rests on a protected copy needs the digests of that copy and of the base model: "
                "give Provenance both"
            )

    def _check_measures(self) -> None:
        needed = {Kind.NEAR_DUPLICATES}
        if isinstance(self.claimed.claim, LinkingClaim):
            needed |= {Kind.EFFECTIVE_K, Kind.CONSTANT_COLUMNS}
        absent = sorted(needed - {m.kind for m in self.measured})
        if absent:
            raise CertificateRefused(
                f"this claim needs a word about {', '.join(absent)}: "
                "measure it, or say why not with Measurement.missing"
            )
