"""The result of a comparison: one row per method, one run per repetition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from eupg.audit.membership.report import AuditReport
from eupg.forget.storage import Storage
from eupg.guarantees import Guarantee


@dataclass(frozen=True)
class Audited:
    """Figures of an attack, in percent: AUC with its interval, and the share of members found at 1 % false alarms."""

    auc: float
    low: float
    high: float
    tpr_at_1: float

    @classmethod
    def of(cls, report: AuditReport) -> Audited:
        """Take the figures of a report."""
        return cls(report.auc, report.low, report.high, report.tails[0].tpr)


@dataclass(frozen=True)
class Run:
    """One method in one repetition."""

    before: float
    after: float
    seconds: Mapping[str, float]
    storage: Storage
    claim: Guarantee
    audit_before: Audited | None = None
    audit_after: Audited | None = None


@dataclass(frozen=True)
class MissingRun:
    """A run that was not made, and why."""

    method: str
    repetition: int
    reason: str


@dataclass(frozen=True)
class Row:
    """One method over all repetitions: means, and the median time of each stage."""

    method: str
    runs: tuple[Run, ...]

    @property
    def claim(self) -> Guarantee:
        """What the method claims for a forgotten record."""
        return self.runs[0].claim

    @property
    def forget_s(self) -> float:
        """Median seconds of a forget."""
        return self.stage_s["forget"]

    @property
    def stage_s(self) -> dict[str, float]:
        """Median seconds of each stage."""
        return {stage: median(run.seconds[stage] for run in self.runs) for stage in self.runs[0].seconds}

    def utility(self, when: str) -> tuple[float, float]:
        """Return mean and standard deviation of the utility ``"before"`` or ``"after"``."""
        values = [getattr(run, when) for run in self.runs]
        return float(np.mean(values)), float(np.std(values))

    def audited(self, when: str) -> Audited | None:
        """Return the audit ``"before"`` or ``"after"``; over several repetitions the mean of each figure."""
        audits: list[Audited | None] = [getattr(run, f"audit_{when}") for run in self.runs]
        figures = [asdict(audit) for audit in audits if audit is not None]
        if not figures:
            return None
        return Audited(**{name: float(np.mean([audit[name] for audit in figures])) for name in figures[0]})


@dataclass(frozen=True)
class MethodComparison:
    """All methods on one data set. After an interruption or a failure some runs are missing, and rows have fewer."""

    source: str
    records: int
    people: int
    forgotten: int
    utility_name: str
    repetitions: int
    references: int
    rows: tuple[Row, ...]
    names_people: bool = True
    missing: tuple[MissingRun, ...] = ()
    interrupted: bool = False

    @property
    def units(self) -> str:
        """What is counted: people, or records if it is not known whose they are."""
        return "people" if self.names_people else "records"

    def speed_up(self, row: Row) -> float | None:
        """Return how many times as fast as retraining a method forgets; None if retraining was not measured."""
        retrain = next((r for r in self.rows if r.method == "Retrain"), None)
        return None if retrain is None else retrain.forget_s / max(row.forget_s, 1e-9)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        head = {name: value for name, value in self.__dict__.items() if name not in ("rows", "missing", "interrupted")}
        return head | {
            "complete": not self.missing,
            "missing": [asdict(run) for run in self.missing],
            "methods": [self._row(row) for row in self.rows],
        }

    def _row(self, row: Row) -> dict[str, Any]:
        (before, _), (after, spread) = row.utility("before"), row.utility("after")
        return {
            "method": row.method,
            "utility_before": before,
            "utility_after": after,
            "utility_after_std": spread,
            "seconds": row.stage_s,
            "speed_up": self.speed_up(row),
            "claim": row.claim.to_json(),
            "claim_sentence": row.claim.sentence(),
            "runs": [{k: v for k, v in asdict(run).items() if k != "claim"} for run in row.runs],
        }
