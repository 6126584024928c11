"""The figures of the pages: drawn from what the ledger keeps, escaped, and told in words."""

import math
from xml.etree import ElementTree

import numpy as np

from eupg.audit.membership.loss import LossAttack
from eupg.audit.membership.report import AuditReport, report
from eupg.manage.quality import Estimate
from eupg.service.model_history import model_history
from eupg.service.models import Models
from eupg.service.pages.figures import quality_figure, roc_points
from serving import note_audit

SVG = "{*}"


def audited(shift: float, people: int = 400) -> AuditReport:
    rng, mask = np.random.default_rng(1), np.arange(people) < people // 2
    baseline = report(rng.normal(0, 1, people), mask, attack=LossAttack(), model="retraining <b>")
    return report(rng.normal(mask * shift, 1), mask, attack=LossAttack(), baseline=baseline)


def test_roc_shows_the_measured_rates_of_a_report_that_was_read_back():
    whole = audited(1.0)
    read = AuditReport.from_json(whole.to_json())
    assert read.scores is None
    drawing = ElementTree.fromstring(roc_points(read))
    shown = [c for c in drawing.iter() if c.get("class") == "model" and c.tag.endswith("circle")]
    assert len(shown) == sum(tail.resolvable for tail in whole.tails) > 0
    assert f"AUC {whole.auc:.1f} percent" in str(drawing.get("aria-label"))


def test_stronger_attack_is_drawn_higher():
    def heights(shift: float) -> list[float]:
        drawing = ElementTree.fromstring(roc_points(audited(shift)))
        return [float(c.get("cy", "nan")) for c in drawing.iter() if c.get("class") == "model" and c.get("cy")]

    assert all(strong < weak for strong, weak in zip(heights(3.0), heights(0.3), strict=True))


def test_quality_is_drawn_per_version_with_its_interval():
    points = [("2027-01-01T00:00:00+00:00", Estimate(0.7 + i / 100, 0.68, 0.75)) for i in range(3)]
    drawing = ElementTree.fromstring(quality_figure(points, "AUC <x>"))
    marks = [float(c.get("cy", "nan")) for c in drawing.iter() if c.get("class") == "mark"]
    assert marks == sorted(marks, reverse=True)
    assert len(marks) == 3
    assert "70.0% at first, 72.0% now" in str(drawing.get("aria-label"))
    one = ElementTree.fromstring(quality_figure(points[:1], "AUC"))
    assert not any(math.isnan(float(c.get("cy", "0"))) for c in one.iter())


def test_history_of_a_workspace_holds_claim_quality_and_audits(folder):
    models = Models(folder)
    with models.opened("all") as manager:
        assert model_history(manager).audits == ()
        note_audit(manager)
        history = model_history(manager)
    models.close()
    assert "protected copy" in history.claim
    assert history.audits[0].report.attack == "LossAttack"
