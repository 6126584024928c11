"""What a workspace tells about its model: the claim in plain words, and from the ledger its quality and audits."""

from __future__ import annotations

from dataclasses import dataclass

from eupg.audit.membership.report import AuditReport
from eupg.guarantees import guarantee_from_json
from eupg.manage.manager import Manager
from eupg.manage.quality import QUALITY, Quality

_AUDIT = "audit"


@dataclass(frozen=True)
class NotedAudit:
    """An audit: when it was made, of which model, about whom, and what it found."""

    at: str
    served: str
    about: str
    report: AuditReport
    words: str


@dataclass(frozen=True)
class ModelHistory:
    """What is claimed, in plain words; the quality of each version, with its date, and the audits, the oldest first."""

    claim: str
    quality: tuple[tuple[str, Quality], ...]
    audits: tuple[NotedAudit, ...]


def model_history(manager: Manager) -> ModelHistory:
    """Read what a workspace holds about its model."""
    claim = guarantee_from_json(manager.space.state().claim)
    quality, audits = [], []
    for entry in manager.space.ledger.entries(kinds=(QUALITY, _AUDIT)):
        body = entry.body
        if entry.kind == QUALITY:
            quality.append((entry.at, Quality.from_json(body)))
        elif isinstance(report := body["report"], dict):
            about, said = str(body["about"]), str(body["words"])
            audits.append(NotedAudit(entry.at, str(body["served"]), about, AuditReport.from_json(report), said))
    return ModelHistory(claim.plain_words(), tuple(quality), tuple(audits))
