"""What a certificate says comes from what was noted when it happened, and from nothing else."""

import dataclasses
import hashlib
import sys

import pytest

from eupg import Manager
from eupg.audit.membership.loss import LossAttack
from eupg.certify.measured import MeasurementKind
from eupg.manage.storage.state import digest_of_all
from managed import GROUPED, HELD_OUT, METHOD, NEWCOMERS, RECORDS, RNG, named, person, trained
from people import people
from steps import Steps


@pytest.fixture
def manager(tmp_path):
    with trained(tmp_path) as manager:
        yield manager


def body(manager, number=3):
    request = manager.request_erasure(subject=person(number), channel="letter")
    manager.forget()
    return manager.certify(request.id).body


def test_files_are_those_in_use(manager):
    found, state = body(manager).provenance, manager.space.state()
    assert (found.base_model, found.new_model, found.retained) == (
        state.base,
        state.served,
        digest_of_all(state.records),
    )
    assert found.release == state.releases[-1].digest
    assert found.schema == hashlib.sha256(RECORDS.schema.to_toml().encode()).hexdigest()
    assert "scikit-learn" in found.libraries
    assert found.python == ".".join(map(str, sys.version_info[:3]))


def test_deletions_are_those_of_the_change_and_stand_in_the_ledger(manager):
    before = manager.space.state()
    found = body(manager).deleted
    assert {(d.what, d.digest) for d in found} == {
        ("served model", before.served),
        ("subject index", before.index),
        ("records", before.records[0]),
        ("record sketch", before.sidecars[before.records[0]][1]),
    }
    entries = {entry.number: entry for entry in manager.space.ledger.entries(kinds=["delete"])}
    for deletion in found:
        assert entries[deletion.event].body["digest"] == deletion.digest
        assert entries[deletion.event].at == deletion.at
        assert deletion.digest not in manager.space.store
        assert deletion.digest not in manager.space.records.files


def test_each_certificate_lists_its_own_deletions(manager):
    first, second = body(manager, 3), body(manager, 4)
    assert not {d.digest for d in first.deleted} & {d.digest for d in second.deleted}


def test_nothing_personal_is_in_it(manager):
    request = manager.request_erasure(subject=person(3))
    manager.forget()
    content = manager.certify(request.id).to_bytes()
    names = [*RECORDS.ids.tolist(), *RECORDS.subjects.tolist()]
    assert not [name for name in names if name.encode() in content]


def test_twins_are_counted(tmp_path):
    """Record 9 of the first table stands in it a second time, under another name."""
    copies = RECORDS.select(RECORDS.where(["record-amber-00009"]))
    twin = dataclasses.replace(copies, ids=NEWCOMERS.ids[:1], subjects=NEWCOMERS.subjects[:1])
    with trained(tmp_path, records=RECORDS.plus(twin)) as manager:
        numbers = body(manager).measurement(MeasurementKind.NEAR_DUPLICATES).numbers
        assert (numbers["forgotten"], numbers["same_label"], numbers["retained"]) == (3, 1, 148)


def test_gap_is_named_where_no_record_in_training_was_erased(manager):
    request = manager.request_erasure(subject=person(1, "cedar"))
    manager.forget()
    found = manager.certify(request.id).body.measurement(MeasurementKind.NEAR_DUPLICATES)
    assert found.result.startswith("Not measured")


def test_k_anonymity_brings_its_own_measurements(tmp_path):
    with trained(tmp_path, GROUPED) as manager:
        kinds = {m.kind for m in body(manager).measured}
        assert {MeasurementKind.EFFECTIVE_K, MeasurementKind.CONSTANT_COLUMNS} <= kinds


def test_quick_attack_is_made_where_enough_people_are_held_out(tmp_path):
    manager = Manager(tmp_path, METHOD, rng=RNG)
    manager.train(RECORDS, hold_out=named(people(30, seed=9), "cedar"))
    asked = manager.request_many(subjects=[person(i) for i in range(20)])
    manager.forget()
    numbers = manager.certify(asked[0].id).body.measurement(MeasurementKind.MEMBERSHIP).numbers
    assert (numbers["members"], numbers["nonmembers"]) == (60, 30)
    manager.close()


def test_few_people_held_out_are_not_attacked_with(manager):
    assert len(HELD_OUT) < 20
    manager.request_many(subjects=[person(i) for i in range(20)])
    manager.forget()
    assert not manager.certify().body.measurement(MeasurementKind.MEMBERSHIP).numbers


def test_nothing_is_measured_about_so_few_people_that_it_would_be_about_them(tmp_path):
    """What an attack finds about one record is its rank among others: it tells the label, and outlives the erasure."""
    manager = Manager(tmp_path, METHOD, rng=RNG)
    manager.train(RECORDS, hold_out=named(people(30, seed=9), "cedar"))
    manager.request_many(subjects=[person(i) for i in range(19)])
    manager.forget()
    assert manager.audit(LossAttack(), references=0).members > 60, "those who stay are asked about instead"
    found = manager.certify().body.measurement(MeasurementKind.MEMBERSHIP)
    assert "fewer than 20 people" in found.sentence
    assert not found.numbers
    assert not any("audits" in e.body for e in manager.space.ledger.entries(kinds=["measure"]))
    manager.close()


def test_audit_of_the_forgotten_is_told(manager):
    asked = manager.request_many(subjects=[person(i) for i in range(20)])
    manager.forget()
    report = manager.audit(LossAttack(), references=0)
    found = manager.certify(asked[3].id).body.measurement(MeasurementKind.MEMBERSHIP)
    assert found.numbers["auc"] == report.auc
    assert found.numbers["members"] == 60
    assert manager.audit(LossAttack(), references=0).members == 90, "they are not kept in memory after that"


def test_audit_of_those_who_stay_is_noted_and_not_told_to_the_one_who_left(manager):
    request = manager.request_erasure(subject=person(3))
    manager.forget()
    other = Manager(manager.space.folder, rng=RNG)
    assert other.audit(LossAttack(), references=0).members == 147
    assert [e.body["about"] for e in manager.space.ledger.entries(kinds=["audit"])] == ["records still in training"]
    assert not other.certify(request.id).body.measurement(MeasurementKind.MEMBERSHIP).numbers
    other.close()


def test_request_is_told_as_the_ledger_has_it(manager):
    request = manager.request_erasure(subject=person(3))
    manager.forget()
    asked = manager.certify(request.id).body.request
    at = {entry.kind: entry.at for entry in manager.space.book.history(request.id)}
    assert (asked.received, asked.accepted) == (at["request.received"], at["request.accepted"])
    assert asked.completed == at["request.completed"]
    assert (asked.due, asked.records_erased, asked.in_time) == (request.due.isoformat(), 3, True)


def test_head_covers_the_erasure(manager):
    request = manager.request_erasure(subject=person(3))
    manager.forget()
    paper = manager.certify(request.id)
    completed = manager.space.book.history(request.id)[-2]
    assert completed.kind == "request.completed"
    assert paper.body.ledger.number >= completed.number


def test_certificate_is_noted_with_its_digest(manager):
    request = manager.request_erasure(subject=person(3))
    manager.forget()
    paper = manager.certify(request.id)
    noted = manager.space.book.history(request.id)[-1]
    assert (noted.kind, noted.body["details"]["certificate"]) == ("request.certified", paper.digest)


def test_records_that_came_in_again_are_named_as_not_covered(manager):
    request = manager.request_erasure(subject=person(3))
    manager.forget()
    assert not any("again" in sentence for sentence in manager.certify(request.id).body.not_covered)
    manager.add(RECORDS.of_subjects([person(3)]))
    said = "What came in again: records of this person since the erasure (3)."
    assert said in manager.certify(request.id).body.not_covered


def test_other_records_of_the_same_person_are_named_as_not_covered(manager):
    request = manager.request_erasure(record=str(RECORDS.ids[9]))
    manager.forget()
    said = "What other records of this person that were kept (2) tell about the erased one."
    assert said in manager.certify(request.id).body.not_covered


def test_records_that_another_request_took_along_were_seen_by_an_earlier_model(manager, tmp_path):
    """Asked for while a forget runs that erases them: the next one has nothing to train."""
    late = []

    def ask(step) -> None:
        if step == "forget":
            late.append(Manager(manager.space.folder).request_erasure(record=str(RECORDS.ids[9])))

    manager._progress = Steps(ask)
    manager.request_erasure(subject=str(RECORDS.subjects[9]))
    manager.forget()
    assert not manager.forget().trained
    found = manager.certify(late[0].id).body.measurement(MeasurementKind.EXPOSURE)
    assert found.sentence.startswith("An earlier model had been fitted on 1 of the records")
