"""Few people seen raw: the manager knows whom, trains for nobody else, and the certificate tells the difference."""

import dataclasses

import numpy as np
import pytest

from eupg import EUPG, Manager, Secret, Seeded
from eupg.forget.eupg import FEWEST_EXPOSED, TOPPED_UP
from eupg.learn import SklearnLearner
from eupg.manage.storage.subjects import SubjectIndex
from eupg.protect import LocalDP, ProbabilisticKAnonymity
from managed import archived
from people import people

METHOD = EUPG(ProbabilisticKAnonymity(10), SklearnLearner(), 2, 1, exposure=0.2)


@pytest.fixture
def manager(tmp_path):
    found = Manager(tmp_path / "ws", METHOD, rng=Seeded(3))
    found.train(people(300), hold_out=0.0)
    yield found
    found.close()


def exposed(manager) -> set[str]:
    state = manager.space.state()
    data, _ = manager.space.read(state)
    index = manager.space.index(state)
    return set(data.subjects[index.part(index.exposed, held_out=False)].tolist())


def test_index_holds_exactly_those_the_method_drew(manager):
    data = people(300)
    drawn = METHOD.train(data, Seeded(3))
    assert exposed(manager) == set(data.subjects[np.isin(data.ids, list(drawn.ids))].tolist())
    assert FEWEST_EXPOSED <= len(exposed(manager)) < 40


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
    assert person not in manager.space.read(manager.space.state())[0].subjects


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
    # 13 of 67 are expected; fewer than 2 or more than 30 have a chance below 1e-5.
    assert 2 <= len(newcomers) <= 30
    assert len(newcomers) != round(0.2 * len(np.unique(later.subjects))), "with this seed; a fixed number would be 13"


def drawn(manager) -> set[str]:
    state = manager.space.state()
    data, _ = manager.space.read(state)
    index = manager.space.index(state)
    return set(data.subjects[index.part(index.drawn, held_out=False)].tolist())


def one_more(number: int):
    new = people(3, seed=number)
    return dataclasses.replace(new, ids=np.char.add(f"n{number} ", new.ids), subjects=np.full(3, f"n{number}"))


def forget(manager, *names: str):
    requests = [manager.request_erasure(subject=name) for name in names]
    manager.forget()
    return requests


def test_people_added_one_at_a_time_are_not_all_seen_raw(tmp_path):
    found = Manager(tmp_path / "ws", dataclasses.replace(METHOD, exposure=0.1))
    found.train(people(600), hold_out=0.0)
    for number in range(20):
        found.add(one_more(number))
    # All 20 when every positive share is at least one person; more than 11 have a chance of 5e-8.
    assert len({name for name in drawn(found) if name.startswith("n")}) <= 11
    found.verify()
    found.close()


def test_decision_is_made_once_per_person_whatever_happens_in_between(tmp_path):
    """Someone who leaves and comes back, and everyone at a second release, keeps it, though nothing is seeded."""
    method = EUPG(LocalDP(1.0), SklearnLearner(), 2, 1, exposure=0.3)
    found = Manager(tmp_path / "ws", method, rng=Secret())
    data = people(300)
    found.train(data, hold_out=0.0)
    before = drawn(found)
    some = ["p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"]
    forget(found, *some)
    found.add(data.of_subjects(some))
    assert drawn(found) == before
    found.renew()
    assert drawn(found) == exposed(found) == before
    found.verify()
    found.close()


def test_someone_held_out_is_decided_about_when_they_come_to_be_in_training(tmp_path):
    """While they are held out nothing is decided. It must not count as a decision against them."""
    method = dataclasses.replace(METHOD, exposure=0.99)
    found = Manager(tmp_path / "ws", method, rng=Seeded(3))
    data, held = people(300), people(30, seed=5)
    held = dataclasses.replace(held, ids=np.char.add("h", held.ids), subjects=np.char.add("h", held.subjects))
    found.train(data, hold_out=held)
    more = dataclasses.replace(held.of_subjects(["hp1"]), ids=np.array(["x1", "x2", "x3"]))
    found.add(more)
    assert not any(name.startswith("h") for name in drawn(found))
    names = [f"hp{i}" for i in range(10)]
    requests = forget(found, *names)
    assert found.certify(requests[1].id).body.claimed.never_seen_raw
    found.add(held)
    assert {name for name in drawn(found) if name.startswith("h")}
    found.close()


def test_below_the_fewest_the_base_is_served_and_the_decisions_are_remembered(manager):
    before = sorted(drawn(manager))
    requests = forget(manager, *before[FEWEST_EXPOSED - 1 :])
    state = manager.space.state()
    assert state.served == state.base
    assert not exposed(manager)
    assert drawn(manager) == set(before[: FEWEST_EXPOSED - 1])
    paper = manager.certify(requests[0].id)
    assert "seen raw, so the base model is served instead" in str(paper)
    # An earlier model saw this one, though the one in use now did not.
    (request,) = forget(manager, before[0])
    paper = manager.certify(request.id)
    assert not paper.body.claimed.never_seen_raw
    assert "seen raw by an earlier model" in str(paper)
    number = 0
    while len(drawn(manager)) < FEWEST_EXPOSED:
        assert not exposed(manager)
        manager.add(one_more(number))
        number += 1
    assert exposed(manager) == drawn(manager)
    assert set(before[1 : FEWEST_EXPOSED - 1]) < exposed(manager)
    state = manager.space.state()
    assert state.served != state.base
    manager.verify()


def test_top_up_is_in_the_claim_of_everyone_newcomers_included(tmp_path):
    found = Manager(tmp_path / "ws", dataclasses.replace(METHOD, top_up=True), rng=Seeded(3))
    found.train(people(300), hold_out=0.0)
    found.add(one_more(1))
    for request in forget(found, "p1", "n1"):
        assert TOPPED_UP in found.certify(request.id).body.claimed.claim.caveats
    found.close()


def test_index_of_an_earlier_format_takes_those_who_were_exposed_for_drawn(manager):
    import io

    index = manager.space.index(manager.space.state())
    old = {name: array for name, array in archived(index).items() if name not in ("drawn", "seen")}
    old["format"] = np.array(2)

    def read(**changes):
        file = io.BytesIO()
        np.savez(file, **(old | changes))
        return SubjectIndex.from_bytes(file.getvalue())

    again = read()
    np.testing.assert_array_equal(again.drawn, index.exposed)
    np.testing.assert_array_equal(again.seen, index.exposed)
    # Each release had a sample of its own then, and only the last one is known.
    twice = read(groups=np.concatenate([index.groups, index.groups]))
    assert twice.seen.all()
    np.testing.assert_array_equal(twice.drawn, index.exposed)


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
    state = found.space.state()
    assert state.base == state.served
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
    assert any(person in data.subjects for data in manager.space._records_in_memory.values())
    other = Manager(tmp_path / "ws", rng=Seeded(3))
    other.request_erasure(subject=person)
    other.forget()
    other.close()
    manager.predict(people(3).X)
    assert not any(person in data.subjects for data in manager.space._records_in_memory.values())
