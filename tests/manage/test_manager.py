"""The manager's flow: what is served after each step, and what is refused."""

import dataclasses

import numpy as np
import pytest

from eupg import EUPG, Manager, Schema, Seeded
from eupg.errors import DataError, ParameterError, PrivacyError, RequestRefused, UnknownRequest, WrongState
from eupg.forget.released import Released
from eupg.forget.unlearner import Trained
from eupg.guarantees import NoGuarantee
from eupg.learn import SklearnLearner
from eupg.manage.requests.states import State
from eupg.manage.storage.change import Recovered
from eupg.protect import LocalDP
from eupg.protect.mechanism import Unprotected
from managed import GROUPED, LOOK, METHOD, NEWCOMERS, RECORDS, RNG, person, record, trained
from people import people
from steps import Steps


def served(manager):
    return manager.predict(LOOK)


def by_hand(method, data, kept):
    """Forget with the method alone, without a manager."""
    after = method.forget(method.train(data, RNG), data.select(kept), RNG)
    return after.model.predict_proba(LOOK)


@pytest.mark.parametrize("method", [METHOD, GROUPED], ids=["local DP", "k-anonymity"])
class TestServedModel:
    def test_after_training_is_the_methods_own(self, method, tmp_path):
        with trained(tmp_path, method) as manager:
            np.testing.assert_array_equal(served(manager), method.train(RECORDS, RNG).model.predict_proba(LOOK))

    def test_after_forgetting_is_the_methods_own(self, method, tmp_path):
        with trained(tmp_path, method) as manager:
            manager.request_many(subjects=[person(4), person(9)], records=[record(0)])
            done = manager.forget()
            kept = ~(RECORDS.where_subjects([person(4), person(9)]) | RECORDS.where([record(0)]))
            np.testing.assert_array_equal(served(manager), by_hand(method, RECORDS, kept))
            assert (done.records, len(done.requests), done.trained) == (7, 3, True)

    def test_after_adding_is_the_base_model_fine_tuned_on_everyone(self, method, tmp_path):
        with trained(tmp_path, method) as manager:
            manager.add(NEWCOMERS)
            whole = method.update(method.train(RECORDS, RNG), RECORDS.plus(NEWCOMERS), RNG)
            np.testing.assert_array_equal(served(manager), whole.model.predict_proba(LOOK))


def test_second_forget_starts_from_the_base_model_again(tmp_path):
    with trained(tmp_path) as manager:
        for number in (3, 7):
            manager.request_erasure(subject=person(number))
            manager.forget()
        kept = ~RECORDS.where_subjects([person(3), person(7)])
        np.testing.assert_array_equal(served(manager), by_hand(METHOD, RECORDS, kept))


def test_method_never_sees_forgotten_rows(tmp_path, monkeypatch):
    seen = []
    forget = EUPG.forget

    def watched(self, known: Trained, retained, rng):
        seen.append(set(retained.ids.tolist()))
        assert isinstance(known.released, Released)
        return forget(self, known, retained, rng)

    with trained(tmp_path) as manager:
        monkeypatch.setattr(EUPG, "forget", watched)
        manager.request_erasure(subject=person(3))
        manager.forget()
    assert seen == [set(RECORDS.ids.tolist()) - {record(9), record(10), record(11)}]


def test_forgetting_everyone_serves_the_base_model(tmp_path):
    with trained(tmp_path) as manager:
        manager.request_many(subjects=dict.fromkeys(RECORDS.subjects.tolist()))
        assert manager.forget().records == len(RECORDS)
        np.testing.assert_array_equal(served(manager), manager.base_model.predict_proba(LOOK))
        assert manager.status().records == 0
        manager.verify(manager.certify())


def test_base_model_alone_serves_where_nothing_is_fine_tuned(tmp_path):
    with trained(tmp_path, dataclasses.replace(METHOD, finetune=0)) as manager:
        manager.request_erasure(subject=person(3))
        manager.forget()
        np.testing.assert_array_equal(served(manager), manager.base_model.predict_proba(LOOK))
        manager.verify()


def test_held_out_people_are_erased_without_training(tmp_path):
    with trained(tmp_path) as manager:
        before = manager.status()
        manager.request_erasure(subject=person(1, "cedar"))
        done = manager.forget()
        after = manager.status()
        assert (done.records, done.trained, after.held_out) == (3, False, before.held_out - 3)
        assert after.served == before.served
        left = manager.space.records.read(manager.space.state().held_out)
        assert person(1, "cedar") not in left.subjects


def test_nothing_waiting_is_nothing_to_do(tmp_path):
    with trained(tmp_path) as manager:
        before = manager.space.state()
        manager.request_erasure(subject=person(3), accept=False)
        assert manager.forget().requests == ()
        assert manager.space.state() == before


def test_people_drawn_to_be_held_out_are_seen_by_no_model(tmp_path):
    manager = Manager(tmp_path, METHOD, rng=RNG)
    manager.train(RECORDS, hold_out=0.2)
    state = manager.space.state()
    inside, outside = (manager.space.records.read(part) for part in (state.records, state.held_out))
    assert len(set(outside.subjects.tolist())) == 10
    assert not set(inside.subjects.tolist()) & set(outside.subjects.tolist())
    assert len(inside) + len(outside) == len(RECORDS)
    manager.close()


def test_new_records_of_people_held_out_stay_apart(tmp_path):
    with trained(tmp_path) as manager:
        theirs = dataclasses.replace(
            NEWCOMERS, subjects=np.where(np.arange(30) < 6, person(1, "cedar"), NEWCOMERS.subjects)
        )
        manager.add(theirs)
        known = METHOD.update(METHOD.train(RECORDS, RNG), RECORDS.plus(theirs.select(np.arange(30) >= 6)), RNG)
        np.testing.assert_array_equal(served(manager), known.model.predict_proba(LOOK))
        assert (manager.status().records, manager.status().held_out) == (174, 18)
        manager.request_erasure(subject=person(1, "cedar"))
        done = manager.forget()
        assert (done.records, done.trained) == (9, False)


def test_taken_ids_are_refused_and_nothing_changes(tmp_path):
    with trained(tmp_path) as manager:
        before = manager.space.state()
        with pytest.raises(DataError):
            manager.add(RECORDS.select(RECORDS.where([record(0)])))
        assert manager.space.state() == before
        manager.verify()


def test_second_training_is_refused(tmp_path):
    with trained(tmp_path) as manager, pytest.raises(WrongState, match="add new records with add"):
        manager.train(RECORDS)


def test_second_release_is_refused_under_k_anonymity(tmp_path):
    with trained(tmp_path, GROUPED) as manager:
        before = manager.space.state()
        with pytest.raises(PrivacyError, match=r"150 records were released before.*intersected"):
            manager.renew()
        assert manager.space.state() == before


def test_second_release_gives_a_new_base_model_of_those_who_are_left(tmp_path):
    with trained(tmp_path) as manager:
        manager.request_erasure(subject=person(3))
        manager.forget()
        old = manager.space.state().base
        manager.renew()
        left = RECORDS.select(~RECORDS.where_subjects([person(3)]))
        np.testing.assert_array_equal(served(manager), METHOD.train(left, RNG).model.predict_proba(LOOK))
        assert manager.status().releases == 2
        assert old is not None
        assert old not in manager.space.store
        manager.verify()


def test_mechanism_that_claims_nothing_is_refused(tmp_path):
    manager = Manager(tmp_path, EUPG(Unprotected(), SklearnLearner(), pretrain=1, finetune=1))
    assert isinstance(Unprotected().guarantee(RECORDS.schema), NoGuarantee)
    with pytest.raises(PrivacyError, match="nothing could be certified"):
        manager.train(RECORDS)
    assert not manager.space.trained
    manager.close()


def test_workspace_opens_again_without_naming_the_method(tmp_path):
    with trained(tmp_path) as manager:
        before = served(manager)
    again = Manager(tmp_path, rng=RNG)
    assert repr(again.method) == repr(METHOD)
    np.testing.assert_array_equal(served(again), before)
    again.close()


def test_another_method_than_the_one_trained_with_is_refused(tmp_path):
    with trained(tmp_path), pytest.raises(ParameterError, match="another method"):
        Manager(tmp_path, dataclasses.replace(METHOD, finetune=3))


def test_training_needs_a_method(tmp_path):
    with pytest.raises(ParameterError, match="no method: pass one"):
        Manager(tmp_path).train(RECORDS)
    with pytest.raises(ParameterError, match="expected a method such as EUPG, Retrain"):
        Manager(tmp_path, SklearnLearner())  # type: ignore[arg-type]


@pytest.mark.parametrize("step", ["forget", "renew", "status", "certify"])
def test_nothing_goes_before_training(step, tmp_path):
    manager = Manager(tmp_path, METHOD)
    if step == "forget":
        assert manager.forget().requests == ()
    else:
        with pytest.raises(WrongState, match=r"run (train|forget) first"):
            getattr(manager, step)()
    with pytest.raises(WrongState, match="run train first"):
        manager.request_erasure(subject="x")
    manager.close()


class TestRequests:
    def test_are_accepted_and_rejected_at_once(self, tmp_path):
        with trained(tmp_path) as manager:
            known, unknown = manager.request_many(subjects=[person(3), "nobody"])
            assert (known.state, unknown.state) == (State.ACCEPTED, State.REJECTED)
            assert unknown.reason == "no record of this person is held here"

    def test_person_and_record_of_one_name_are_two_things(self, tmp_path):
        with trained(tmp_path) as manager:
            assert manager.request_erasure(record=person(3)).state is State.REJECTED
            assert manager.request_erasure(subject=record(3)).state is State.REJECTED

    def test_wait_to_be_accepted_by_hand(self, tmp_path):
        with trained(tmp_path) as manager:
            waiting = manager.request_erasure(subject=person(3), accept=False)
            assert manager.forget().requests == ()
            manager.advance(waiting.id, State.VERIFIED)
            assert manager.accept(waiting.id).state is State.ACCEPTED
            assert manager.forget().requests == (waiting.id,)
            assert manager.certify(waiting.id).body.request.identity_verified

    def test_asked_twice_are_one(self, tmp_path):
        with trained(tmp_path) as manager:
            first, second = manager.request_many(subjects=[person(3), person(3)])
            assert first.id == second.id == manager.request_erasure(subject=person(3)).id
            assert manager.forget().records == 3

    def test_by_a_name_where_no_column_names_people_are_refused_and_not_noted(self, tmp_path):
        """A person would be told that nothing is held about them, which nobody here can know."""
        schema = Schema(tuple(a for a in RECORDS.schema.attributes if a is not RECORDS.schema.subject))
        nameless = dataclasses.replace(RECORDS, schema=schema, subjects=RECORDS.ids)
        manager = Manager(tmp_path, METHOD, rng=RNG)
        manager.train(nameless, hold_out=0.1)
        with pytest.raises(RequestRefused, match="no column names people here"):
            manager.request_erasure(subject=person(3))
        assert not any(manager.status().requests.counts.values())
        assert manager.request_erasure(record=record(9)).state is State.ACCEPTED
        manager.close()

    def test_after_erasure_are_rejected(self, tmp_path):
        with trained(tmp_path) as manager:
            manager.request_erasure(subject=person(3))
            manager.forget()
            assert manager.request_erasure(subject=person(3)).state is State.REJECTED
            assert manager.request_erasure(record=record(9)).state is State.REJECTED

    def test_cancelled_are_not_honoured(self, tmp_path):
        with trained(tmp_path) as manager:
            asked = manager.request_erasure(subject=person(3))
            manager.advance(asked.id, State.CANCELLED)
            assert manager.forget().records == 0
            with pytest.raises(RequestRefused):
                manager.accept(asked.id)

    def test_are_not_completed_by_hand(self, tmp_path):
        with trained(tmp_path) as manager:
            asked = manager.request_erasure(subject=person(3))
            with pytest.raises(ParameterError, match="by hand"):
                manager.advance(asked.id, State.COMPLETED)

    @pytest.mark.parametrize("who", [{}, {"subject": "a", "record": "b"}], ids=["nobody", "both"])
    def test_name_one_person_or_one_record(self, who, tmp_path):
        with trained(tmp_path) as manager, pytest.raises(ParameterError, match="one subject or one record"):
            manager.request_erasure(**who)

    def test_unknown_id_is_an_error(self, tmp_path):
        with trained(tmp_path) as manager, pytest.raises(UnknownRequest):
            manager.accept("r-0")

    def test_extension_shows_in_the_status(self, tmp_path):
        with trained(tmp_path) as manager:
            asked = manager.request_erasure(subject=person(3))
            longer = manager.extend(asked.id, months=2, reason="many requests at once")
            assert manager.status().waiting[0]["due"] == longer.due.isoformat() > asked.due.isoformat()


def test_status_follows_a_request(tmp_path):
    with trained(tmp_path) as manager:
        asked = manager.request_erasure(subject=person(3))
        before = manager.status()
        assert (before.records, before.people, before.held_out) == (150, 50, 12)
        assert before.waiting[0]["request"] == asked.id
        assert before.requests.open == 1
        manager.forget()
        after = manager.status()
        assert (after.records, after.people, after.waiting, after.requests.open) == (147, 49, (), 0)
        assert after.served != before.served
        assert after.since > before.since
        assert after.to_json()["requests"]["counts"]["completed"] == 1


def test_recovery_changes_nothing_in_a_whole_workspace(tmp_path):
    with trained(tmp_path) as manager:
        head = manager.space.ledger.head()
        assert manager.recover() == Recovered((), False, ())
        assert manager.space.ledger.head() == head


def test_ten_thousand_requests_are_one_batch_and_one_fine_tuning(tmp_path):
    many = people(30_000)
    steps, method = Steps(), EUPG(LocalDP(4.0), SklearnLearner(), pretrain=1, finetune=1)
    manager = Manager(tmp_path, method, rng=Seeded(0), progress=steps)
    manager.train(many, hold_out=0.0)
    subjects, records = [f"p{i}" for i in range(6000)], [f"r{i}" for i in range(24_000, 28_000)]
    asked = manager.request_many(subjects=subjects, records=records)
    assert {r.state for r in asked} == {State.ACCEPTED}
    done = manager.forget()
    assert (done.records, len(done.requests)) == (22_000, 10_000)
    assert steps.names.count("forget") == 1
    assert manager.status().requests.counts[State.COMPLETED] == 10_000
    manager.close()
