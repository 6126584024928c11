"""Few people seen raw: the manager knows whom, trains for nobody else, and the certificate tells the difference."""

import dataclasses

import numpy as np
import pytest

from eupg import EUPG, LocalDP, Manager, ProbabilisticKAnonymity, Seeded, SklearnLearner
from people import people

METHOD = EUPG(ProbabilisticKAnonymity(10), SklearnLearner(), 2, 1, exposure=0.2)


@pytest.fixture
def manager(tmp_path):
    found = Manager(tmp_path / "ws", METHOD, rng=Seeded(3))
    found.train(people(300), hold_out=0.0)
    yield found
    found.close()


def exposed(manager) -> set[str]:
    current = manager.space.current()
    data, _ = manager.space.read(current)
    roll = manager.space.roll(current)
    return set(data.subjects[roll.part(roll.exposed, held_out=False)].tolist())


def test_roll_holds_exactly_those_the_method_drew(manager):
    data = people(300)
    drawn = METHOD.train(data, Seeded(3))
    assert exposed(manager) == set(data.subjects[np.isin(data.ids, list(drawn.ids))].tolist())
    assert len(exposed(manager)) == round(0.2 * len(np.unique(data.subjects)))


def test_somebody_never_seen_raw_is_erased_without_training_and_the_certificate_says_so(manager, monkeypatch):
    person = min(set(people(300).subjects.tolist()) - exposed(manager))
    request, before = manager.request_erasure(subject=person), manager.status().served
    monkeypatch.setattr(SklearnLearner, "fit", None)
    done = manager.forget()
    assert not done.trained
    assert manager.status().served == before
    paper = manager.certify(request.id)
    manager.verify(paper)
    assert paper.body.claimed.never_seen_raw
    found = next(m for m in paper.body.measured if m.kind == "exposure")
    assert "never seen raw" in found.result
    assert found.numbers["elapsed_ms"] > 0
    assert person not in manager.space.read(manager.space.current())[0].subjects


def test_somebody_exposed_costs_a_fine_tuning_on_the_others_who_are(manager):
    person = min(exposed(manager))
    others = exposed(manager) - {person}
    request, before = manager.request_erasure(subject=person), manager.status().served
    assert manager.forget().trained
    assert manager.status().served != before
    assert exposed(manager) == others
    paper = manager.certify(request.id)
    assert not paper.body.claimed.never_seen_raw
    assert "seen raw, so the base model was fine-tuned again" in str(paper)


def test_served_model_is_the_one_the_method_gives_without_a_manager(manager):
    data = people(300)
    trained = METHOD.train(data, Seeded(3))
    person = min(exposed(manager))
    manager.request_erasure(subject=person)
    manager.forget()
    after = METHOD.forget(trained, data.select(data.subjects != person), Seeded(3))
    np.testing.assert_array_equal(manager.predict(data.X), after.model.predict_proba(data.X))


def test_new_people_are_exposed_at_the_same_share_and_the_old_ones_stay(manager):
    later = people(200, seed=8)
    later = dataclasses.replace(later, ids=np.char.add("n", later.ids), subjects=np.char.add("n", later.subjects))
    before = exposed(manager)
    manager.add(later)
    assert before <= exposed(manager)
    newcomers = {name for name in exposed(manager) if name.startswith("n")}
    assert len(newcomers) == round(0.2 * len(np.unique(later.subjects)))


def test_top_up_is_noted(tmp_path):
    found = Manager(tmp_path / "ws", dataclasses.replace(METHOD, top_up=True), rng=Seeded(3))
    found.train(people(300), hold_out=0.0)
    size = len(exposed(found))
    for _ in range(3):
        found.request_erasure(subject=min(exposed(found)))
        found.forget()
    noted = [e.body["drawn"] for e in found.space.ledger.entries(kinds=["forget"])]
    assert len(exposed(found)) >= size - 1
    assert sum(noted) > 0
    found.verify()
    found.close()


def test_base_alone_serves_and_every_erasure_is_free(tmp_path):
    found = Manager(tmp_path / "ws", EUPG(LocalDP(2.0), SklearnLearner(), 2, 1, exposure=0.0), rng=Seeded(3))
    found.train(people(200), hold_out=0.0)
    current = found.space.current()
    assert current.base == current.served
    request = found.request_erasure(subject="p1")
    assert not found.forget().trained
    assert found.certify(request.id).body.claimed.never_seen_raw
    found.verify()
    found.close()


def test_workspace_opens_again_with_its_exposure(manager, tmp_path):
    again = Manager(tmp_path / "ws")
    assert repr(again.method) == repr(METHOD)
    again.close()


def test_somebody_forgotten_by_another_process_does_not_stay_in_this_ones_memory(manager, tmp_path):
    person = min(exposed(manager))
    assert any(person in data.subjects for data in manager.space._at_hand.values())
    other = Manager(tmp_path / "ws", rng=Seeded(3))
    other.request_erasure(subject=person)
    other.forget()
    other.close()
    manager.predict(people(3).X)
    assert not any(person in data.subjects for data in manager.space._at_hand.values())
