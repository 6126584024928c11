"""The figure: written, repeatable, and refused where there is nothing to draw."""

import sys

import numpy as np
import pytest

from eupg.audit.membership.loss import LossAttack
from eupg.audit.membership.plot import roc_figure
from eupg.audit.membership.report import AuditReport, report
from eupg.errors import DataError, MissingFramework, ParameterError


def two_sides(seed, m=200, n=200, shift=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=m + n) + shift * (np.arange(m + n) < m), np.arange(m + n) < m


def loss_report(scores, members, **options):
    return report(scores, members, attack=LossAttack(), **options)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_figure_is_written_twice_alike(tmp_path, suffix):
    scores, members = two_sides(14, 300, 300)
    base = loss_report(scores, members, model="retraining")
    found = loss_report(scores + members, members, model="EUPG", baseline=base)
    first, second = (roc_figure(found, tmp_path / f"{name}{suffix}") for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    if suffix == ".svg":
        text = first.read_text(encoding="utf-8")
        for words in (f"EUPG: AUC {found.auc:.1f}", f"retraining: AUC {base.auc:.1f}", "chance (AUC 50)", "0.1 %"):
            assert words in text


def test_figure_of_the_smallest_audit(tmp_path):
    found = loss_report(np.array([0.0, 1.0]), np.array([True, False]))
    assert roc_figure(found, tmp_path / "roc.png").stat().st_size > 1000


def test_figure_refuses_what_it_cannot_draw(tmp_path, monkeypatch):
    found = loss_report(*two_sides(15))
    with pytest.raises(ParameterError, match=r"\.svg or \.png, got 'roc.pdf'"):
        roc_figure(found, tmp_path / "roc.pdf")
    with pytest.raises(DataError, match="no scores"):
        roc_figure(AuditReport.from_json(found.to_json()), tmp_path / "roc.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingFramework, match=r"pip install 'eupg\[demo\]'"):
        roc_figure(found, tmp_path / "roc.png")
