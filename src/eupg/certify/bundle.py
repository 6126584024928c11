"""The bundle: one signed envelope over the certificates of all models of an organisation, for one request.

A workspace certifies what it did itself, with its own key. The bundle says for which workspaces a request was carried
out and what came of it in each, and holds their certificates as they were issued. Its signature covers them and the
keys in them, so a reader needs one public key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import PlainSerializer, PlainValidator

from eupg.certify.body import LedgerHead
from eupg.certify.canonical import canonical, read_canonical
from eupg.certify.certificate import Certificate, read_file, read_key, write_key
from eupg.certify.issuer import Issuer
from eupg.certify.keys import PublicKey, Signer
from eupg.certify.parts import (
    CertificatePart,
    Day,
    JsonObject,
    Moment,
    RequestId,
    Signature,
    Text,
    strict_dataclass,
)
from eupg.certify.statement import day, done
from eupg.errors import CertificateInvalid, CertificateRefused, ParameterError
from eupg.files import write_atomically
from eupg.pages import render

FORMAT: Literal["eupg-bundle-1"] = "eupg-bundle-1"
NOT_COVERED = (
    "Models and copies of records that are not in these workspaces.",
    "What each workspace's own certificate lists as not covered.",
    "Whether a workspace knows the person under another identifier than the one that was searched for.",
)


class BundledOutcome(StrEnum):
    """What came of a request in one workspace."""

    ERASED = "erased"
    NOTHING_HELD = "nothing held"
    NOT_SEARCHABLE = "not searchable"


_WORDS = {
    BundledOutcome.NOTHING_HELD: "No record of the person was held.",
    BundledOutcome.NOT_SEARCHABLE: "The person could not be searched for, so nothing was erased",
}


@strict_dataclass
class BundledRequest(CertificatePart):
    """The request to the organisation; its times count from when it came in, not from when a workspace was asked."""

    id: RequestId
    received: Moment
    accepted: Moment
    completed: Moment
    due: Day
    identity_verified: bool

    @property
    def in_time(self) -> bool:
        """Whether it was completed on or before the day it was due; days are in UTC."""
        return self.completed[:10] <= self.due


@strict_dataclass
class BundledWorkspace(CertificatePart):
    """What came of the request in one workspace: its certificate where something was erased, a note otherwise."""

    name: Text
    outcome: BundledOutcome
    note: Text | None = None
    certificate: JsonObject | None = None

    def __post_init__(self) -> None:
        if (self.outcome is BundledOutcome.ERASED) != (self.certificate is not None):
            raise CertificateRefused(f"workspace {self.name}: a certificate belongs to an erasure, and to nothing else")

    def read(self) -> Certificate | None:
        """Return the workspace's own certificate."""
        return None if self.certificate is None else Certificate.from_json(self.certificate)

    def sentence(self) -> str:
        """Say what came of the request here."""
        certificate = self.read()
        if certificate is not None:
            return done(certificate.body)
        return _WORDS[self.outcome] + (f": {self.note}." if self.note else "")


@strict_dataclass
class BundleBody(CertificatePart):
    """Everything a bundle says."""

    format: Literal["eupg-bundle-1"]
    issued: Moment
    request: BundledRequest
    workspaces: tuple[BundledWorkspace, ...]
    not_covered: tuple[Text, ...]
    ledger: LedgerHead
    issuer: Issuer | None = None

    def __post_init__(self) -> None:
        names = [workspace.name for workspace in self.workspaces]
        if len(set(names)) < len(names):
            raise CertificateRefused("a workspace is named twice: name each once")

    def sentence(self) -> str:
        """Say in one sentence what was done."""
        counts = {outcome: sum(w.outcome is outcome for w in self.workspaces) for outcome in BundledOutcome}
        when = "in time" if self.request.in_time else "late"
        unsearched = counts[BundledOutcome.NOT_SEARCHABLE]
        searched = len(self.workspaces) - unsearched
        words = (
            f"{searched} {'model was' if searched == 1 else 'models were'} searched for the person, "
            f"and the request was completed on {day(self.request.completed)}, {when}: "
            f"records were erased from {counts[BundledOutcome.ERASED]}, "
            f"{counts[BundledOutcome.NOTHING_HELD]} held none"
        )
        return f"{words}, and {unsearched} could not be searched." if unsearched else f"{words}."


@strict_dataclass
class Bundle(CertificatePart):
    """A signed statement about one request to an organisation, with the certificates of its models.

    :func:`eupg.verify` checks it like a certificate: the signature, and every certificate in it.
    """

    body: BundleBody
    key: Annotated[PublicKey, PlainValidator(read_key), PlainSerializer(write_key)]
    signature: Signature

    @classmethod
    def sign(
        cls,
        signer: Signer,
        *,
        issued: str,
        request: BundledRequest,
        workspaces: Sequence[BundledWorkspace],
        ledger: LedgerHead,
        issuer: Issuer | None = None,
    ) -> Self:
        """Put a bundle together and sign it."""
        body = BundleBody(
            format=FORMAT,
            issued=issued,
            request=request,
            workspaces=tuple(workspaces),
            not_covered=NOT_COVERED,
            ledger=ledger,
            issuer=issuer,
        )
        signature = signer.sign(_message(body, signer.public)).hex()
        return cls(body=body, key=signer.public, signature=signature)

    @property
    def digest(self) -> str:
        """SHA-256 of the file's bytes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def certificates(self) -> dict[str, Certificate]:
        """Return the certificates of the workspaces, by name."""
        read = {workspace.name: workspace.read() for workspace in self.body.workspaces}
        return {name: certificate for name, certificate in read.items() if certificate is not None}

    def check(self, key: PublicKey) -> None:
        """Check the signature of the envelope; the certificates in it are for ``verify`` to check."""
        if not key.signed(_message(self.body, self.key), bytes.fromhex(self.signature)):
            raise CertificateInvalid(f"the signature of key {key.id} does not match: the bundle was changed")

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, where: str | None = "bundle") -> Self:
        """Read a bundle from plain values; anything missing, unknown or malformed is refused with its place."""
        try:
            return super().from_json(values, where=where)
        except (ParameterError, CertificateRefused) as error:
            raise CertificateInvalid(str(error)) from error

    def to_bytes(self) -> bytes:
        """Return the file's content: canonical JSON, and nothing else."""
        return canonical(self.to_json())

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read a file's content, which has to be spelled exactly as it was issued."""
        return cls.from_json(read_canonical(content))

    def save(self, path: str | Path) -> None:
        """Write the bundle to a file, entirely or not at all."""
        write_atomically(Path(path), self.to_bytes(), mode=0o644)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a bundle from a file; the signature is for ``verify`` to check."""
        return cls.from_bytes(read_file(path))


def is_bundle(values: object) -> bool:
    """Tell whether values are those of a bundle."""
    body = values.get("body") if isinstance(values, Mapping) else None
    return isinstance(body, Mapping) and str(body.get("format")).startswith("eupg-bundle-")


def bundle_page(bundle: Bundle) -> str:
    """Return a bundle as one self-contained HTML page, for printing; the signed file is the evidence."""
    body = bundle.body
    certificates = bundle.certificates()
    workspaces = [
        {
            "name": w.name,
            "outcome": str(w.outcome),
            "words": w.sentence(),
            "claim": certificates[w.name].body.claimed.sentence if w.name in certificates else "",
            "key": certificates[w.name].key_id if w.name in certificates else "",
            "digest": certificates[w.name].digest if w.name in certificates else "",
        }
        for w in body.workspaces
    ]
    values = {
        "issuer": {"name": getattr(body.issuer, "name", ""), "contact": getattr(body.issuer, "contact", None) or ""},
        "issued": day(body.issued),
        "request": body.request,
        "received": day(body.request.received),
        "due": day(body.request.due),
        "sentence": body.sentence(),
        "workspaces": workspaces,
        "not_covered": body.not_covered,
        "key": bundle.key.id,
        "digest": bundle.digest,
        "ledger": body.ledger,
    }
    return render("bundle.html", values)


def _message(body: BundleBody, key: PublicKey) -> bytes:
    return canonical({"body": body.to_json(), "key": write_key(key)})
