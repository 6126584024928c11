"""In notebooks and logs: short forms without personal values, a card per object, and one line per step."""

import logging

import numpy as np
import pytest

from certify import sample
from eupg import Manager
from eupg.audit.membership.loss import LossAttack
from eupg.audit.membership.report import report
from eupg.progress import Printed
from managed import HELD_OUT, METHOD, RECORDS, RNG, person, trained

REPORT = report(
    np.array([0.9, 0.8, 0.4, 0.7, 0.3, 0.2]),
    np.array([1, 1, 1, 0, 0, 0], dtype=bool),
    attack=LossAttack(),
    model="<b>m",
)
SHOWN = {
    "certificate": sample.certificate(issuer=sample.ISSUER),
    "report": REPORT,
    "data": RECORDS,
    "schema": RECORDS.schema,
}


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_objects_have_a_short_form_and_a_card(shown):
    assert len(repr(shown)) < 160
    assert "\n" not in repr(shown)
    card = shown._repr_html_()
    assert card.startswith("<div")
    assert "<script" not in card
    for private in (*RECORDS.ids[:3], *RECORDS.subjects[:3]):
        assert private not in repr(shown) + card


def test_cards_escape_every_value():
    assert "<b>m" not in REPORT._repr_html_()
    assert "&lt;b&gt;m" in REPORT._repr_html_()


def test_cards_say_the_most_important_first():
    card = sample.certificate(issuer=sample.ISSUER)._repr_html_()
    order = ["Example Clinic", "What was asked", "What was done", "What holds now", "What this does not cover",
             "not verified"]  # fmt: skip
    assert sorted(order, key=card.index) == order
    audit = REPORT._repr_html_()
    assert audit.index(REPORT.verdict()[:12]) < audit.index("AUC</span>")
    assert repr(REPORT).startswith("<AuditReport: exposed; LossAttack on ")
    assert repr(RECORDS) == "<Dataset: 150 records of 50 people, 6 features, label 'ill'>"


def test_manager_shows_its_workspace(tmp_path):
    empty = Manager(tmp_path / "ws", METHOD)
    assert repr(empty) == f"Manager({str(tmp_path / 'ws')!r}, {METHOD!r})"
    assert "Nothing is trained here yet." in empty._repr_html_()
    with trained(tmp_path / "ws") as manager:
        manager.request_erasure(subject=person(1))
        card = manager._repr_html_()
        assert "1 open, 0 overdue" in card
        assert "150 records of 50 people; 12 records held out" in card
        assert repr(Manager(tmp_path / "ws")) == f"Manager({str(tmp_path / 'ws')!r})"


def test_steps_are_printed_and_logged_without_personal_values(tmp_path, capsys, caplog):
    caplog.set_level(logging.INFO, logger="eupg")
    manager = Manager(tmp_path / "ws", METHOD, rng=RNG, progress=Printed())
    manager.train(RECORDS, hold_out=HELD_OUT)
    request = manager.request_erasure(subject=person(1))
    manager.forget()
    certificate = manager.certify(request.id)
    manager.close()
    printed = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["protect", "pretrain", "finetune", "forget"]
    assert {record.name for record in caplog.records} == {"eupg"}
    for said in ("change of the workspace (train) begins", "pretrain done in", "change of the workspace (forget) done",
                 f"certify done: request {request.id}, certificate {certificate.digest}"):  # fmt: skip
        assert said in caplog.text, said
    assert "amber" not in caplog.text


def test_library_logs_nothing_unless_asked():
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("eupg").handlers)
