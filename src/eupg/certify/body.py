"""What a certificate says about one request, as plain data: claimed, measured, assumed, deleted and provenance.

Three kinds of statement are kept apart: what follows from a theorem, what an experiment showed, and what is taken on
trust. Nothing personal enters: people appear as keyed digests, files by the digest of their content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from eupg.certify.claimed import Claimed
from eupg.certify.issuer import Issuer
from eupg.certify.measured import Measurement, MeasurementKind
from eupg.certify.parts import (
    CertificatePart,
    Day,
    Digest,
    JsonObject,
    KeyedDigest,
    Moment,
    RequestId,
    Text,
    strict_dataclass,
)
from eupg.certify.wording import EARLIER_MODELS, NOT_COVERED, says
from eupg.errors import CertificateRefused, ParameterError
from eupg.guarantees import DifferentiallyPrivate, KAnonymous, Unit
from eupg.guarantees.wording import SEEDED

Format = Literal["eupg-certificate-1", "eupg-certificate-2"]
# The first format says neither how many were forgotten together nor what groups of records share.
FIRST_FORMAT: Format = "eupg-certificate-1"
FORMAT: Format = "eupg-certificate-2"
FORMATS = (FIRST_FORMAT, FORMAT)


@strict_dataclass
class CertifiedRequest(CertificatePart):
    """The request that was honoured.

    Parameters
    ----------
    id
        Its random name in the ledger.
    unit
        Whether a person or a single record was to be forgotten; a record where the table does not name people.
    digest
        Keyed digest of the person's or record's id; without the workspace's key it reveals nothing.
    received, accepted, completed
        Moments in UTC.
    due
        The day or moment of the legal deadline.
    identity_verified
        Whether it was checked that the person asked for themselves.
    records_erased
        The number of records that were erased.
    people_known
        Whether the table names the person of each record; False limits every claim to records. None in certificates of
        the first format.
    together
        The number of people forgotten in the same run, this one included; records, where people are not known. Where
        the replaced model had been fitted on this one's records, only others on whose records it had been fitted are
        counted: anyone who compares the models sees the difference that all of these make together. None where it was
        not recorded.
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
        for name in ("records_erased", "together"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise ParameterError(f".{name}: expected at least 1, found {count}")

    @property
    def in_time(self) -> bool:
        """Whether the erasure was completed on or before the day it was due; days are in UTC."""
        if len(self.due) == len("2025-01-31"):
            return self.completed[:10] <= self.due
        return datetime.fromisoformat(self.completed) <= datetime.fromisoformat(self.due)


@strict_dataclass
class CertifiedMethod(CertificatePart):
    """How the model is trained and forgets.

    Parameters
    ----------
    name, mechanism, learner
        The unlearning method, the mechanism that protected the data (None for plain retraining) and the learner.
    parameters
        Their settings, as plain values.
    seeded
        True when any randomness of the run can be repeated from a known seed.
    """

    name: Text
    mechanism: Text | None
    learner: Text
    parameters: JsonObject
    seeded: bool


@strict_dataclass
class Deletion(CertificatePart):
    """A file that was deleted: its role, its digest, when, and the number of the ledger entry about it."""

    what: Text
    digest: Digest
    at: Moment
    event: int


@strict_dataclass
class Derived(CertificatePart):
    """Something that was read from the data, such as bounds, categories or scales, and its source."""

    what: Text
    source: Text


@strict_dataclass
class Provenance(CertificatePart):
    """The software and files behind the certificate.

    Parameters
    ----------
    eupg, python, libraries
        Versions of this package, of Python and of the libraries that took part.
    base_model, release
        Digests of the base model and of the protected copy it was trained on; None where there is neither. Both are
        the model's where the model itself was trained under protection, without a copy.
    new_model, retained, schema
        Digests of the model in use, of the retained records (None once nobody is left) and of the schema.
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


@strict_dataclass
class LedgerHead(CertificatePart):
    """The newest entry of the ledger when the certificate was issued: it reveals a tail that is cut off later."""

    number: int
    digest: Digest


@strict_dataclass
class Body(CertificatePart):
    """Everything a certificate says. Build it with :meth:`of`, which adds the sentences every certificate needs."""

    format: Format
    issued: Moment
    request: CertifiedRequest
    method: CertifiedMethod
    claimed: Claimed
    measured: tuple[Measurement, ...]
    assumed: tuple[Text, ...]
    not_covered: tuple[Text, ...]
    deleted: tuple[Deletion, ...]
    provenance: Provenance
    ledger: LedgerHead
    issuer: Issuer | None = None

    def __post_init__(self) -> None:
        self._check_format()
        self._check_evidence()
        if not (says(self.not_covered, EARLIER_MODELS) or self.claimed.covers_all_versions):
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
        request: CertifiedRequest,
        method: CertifiedMethod,
        claimed: Claimed,
        measured: Sequence[Measurement],
        deleted: Sequence[Deletion],
        provenance: Provenance,
        ledger: LedgerHead,
        assumed: Sequence[str] = (),
        not_covered: Sequence[str] = (),
        issuer: Issuer | None = None,
    ) -> Body:
        """Put a certificate's content together; further assumptions and exclusions follow the standing ones."""
        seeded = method.seeded or claimed.claim.seeded
        standing = [text for text in NOT_COVERED if text != EARLIER_MODELS or not claimed.covers_all_versions]
        return cls(
            format=FORMAT,
            issued=issued,
            request=request,
            method=method,
            claimed=claimed,
            measured=tuple(measured),
            assumed=(*claimed.claim.assumptions(seeded=seeded), *assumed),
            not_covered=(*standing, *not_covered),
            deleted=tuple(deleted),
            provenance=provenance,
            ledger=ledger,
            issuer=issuer,
        )

    @property
    def seeded(self) -> bool:
        """Whether any randomness of the run can be repeated."""
        return self.method.seeded or self.claimed.claim.seeded

    def measurement(self, kind: MeasurementKind) -> Measurement | None:
        """Return the first measurement of that kind."""
        return next((measurement for measurement in self.measured if measurement.kind is kind), None)

    def _check_format(self) -> None:
        request, claim = self.request, self.claimed.claim
        if self.format == FIRST_FORMAT:
            later = {
                "request.people_known": request.people_known,
                "request.together": request.together,
                "claimed.claim.shared": claim.shared if isinstance(claim, KAnonymous) else None,
            }
            unknown = [name for name, value in later.items() if value is not None]
            if unknown:
                raise ParameterError(f"expected no field {', '.join(unknown)} in {self.format!r}, found one")
        elif request.people_known is None:
            raise ParameterError(".request.people_known: expected true or false, found none")
        elif not request.people_known and request.unit is Unit.PERSON:
            raise ParameterError(".request.unit: expected 'record' where people are not known, found 'person'")

    def _check_evidence(self) -> None:
        """Refuse a claim without the digests of what it rests on, or without the measurements that belong to it."""
        claim, provenance = self.claimed.claim, self.provenance
        if isinstance(claim, KAnonymous | DifferentiallyPrivate) and None in (
            provenance.base_model,
            provenance.release,
        ):
            raise CertificateRefused(
                "a claim that rests on a protected copy needs the digests of that copy and of the base model: "
                "give Provenance both"
            )
        needed = {MeasurementKind.NEAR_DUPLICATES}
        if isinstance(claim, KAnonymous):
            needed |= {MeasurementKind.EFFECTIVE_K, MeasurementKind.CONSTANT_COLUMNS}
            needed |= {MeasurementKind.SHARED_VALUES} if self.format != FIRST_FORMAT else set()
        absent = sorted(needed - {measurement.kind for measurement in self.measured})
        if absent:
            raise CertificateRefused(
                f"this claim needs a word about {', '.join(absent)}: "
                "measure it, or say why not with Measurement.missing"
            )
