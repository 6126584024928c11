"""What is claimed for whom: several records, one by one or together, added, held out, released twice."""

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eupg import Manager, Secret
from eupg.errors import CertificateRefused, PrivacyError, WrongState
from eupg.guarantees import DifferentiallyPrivate, Exact, KAnonymous, guarantee_from_json
from eupg.guarantees.wording import REQUESTS_APART
from eupg.protect import ProbabilisticKAnonymity
from managed import GROUPED, HELD_OUT, METHOD, NEWCOMERS, RECORDS, RNG, in_memory, person, record, trained
from steps import Steps


def answers(manager):
    """Return what was noted for each answered request: by request id."""
    entries = manager.space.ledger.entries(kinds=["request.completed"])
    return {entry.body["request"]: entry.body["details"] for entry in entries}


def claim(manager, request):
    return guarantee_from_json(answers(manager)[request.id]["claim"])


def forgotten(manager, **who):
    request = manager.request_erasure(**who)
    manager.forget()
    return request


def test_records_of_one_person_count_together(tmp_path):
    with trained(tmp_path) as manager:
        found = claim(manager, forgotten(manager, subject=person(3)))
        expected = METHOD.train(RECORDS, RNG).claim_for(RECORDS.of_subjects([person(3)]))
        assert found == expected
        assert (found.epsilon, found.records) == (12.0, 3)


@pytest.mark.parametrize("method", [METHOD, GROUPED], ids=["local DP", "k-anonymity"])
def test_memory_and_workspace_claim_the_same_for_a_late_record_of_a_released_person(method, tmp_path):
    """Nothing of the late record is left behind, and both say that three others of the person are kept."""
    late = dataclasses.replace(NEWCOMERS.select(np.arange(30) < 1), subjects=np.array([person(3)]))
    grown = method.update(method.train(RECORDS, RNG), RECORDS.plus(late), RNG)
    with trained(tmp_path, method) as manager:
        manager.add(late)
        found = claim(manager, forgotten(manager, record=record(0, "birch")))
    assert isinstance(found, Exact)
    assert "3 other records of the same person are kept" in found.sentence()
    assert grown.claim_for(late) == found


@pytest.mark.parametrize("method", [METHOD, GROUPED], ids=["local DP", "k-anonymity"])
def test_memory_and_workspace_claim_the_same_for_one_record_of_a_person(method, tmp_path):
    with trained(tmp_path, method) as manager:
        found = claim(manager, forgotten(manager, record=record(9)))
    one = RECORDS.select(RECORDS.ids == record(9))
    assert method.train(RECORDS, RNG).claim_for(one) == found


@pytest.mark.parametrize("method", [METHOD, GROUPED], ids=["local DP", "k-anonymity"])
def test_state_that_a_workspace_trains_with_states_no_claim(method, tmp_path):
    """Its history is the index's: on its own it would call everyone a newcomer, of whom nothing remains."""
    with trained(tmp_path, method) as manager:
        live = manager.space.state()
        (data, _), index = manager.space.read(live), manager.space.index(live)
        state = manager._trainer._restored(live, data, index)
        theirs = RECORDS.of_subjects([person(3)])
        after = method.forget(state, data.without(theirs.ids), RNG)
        for known, asked in ((state, theirs), (after, RECORDS.of_subjects([person(4)]))):
            with pytest.raises(WrongState, match="workspace keeps that history: read the claim in the certificate"):
                known.claim_for(asked)


def test_records_forgotten_one_by_one_count_together(tmp_path):
    with trained(tmp_path) as manager:
        budgets = [claim(manager, forgotten(manager, record=record(i))).epsilon for i in (9, 10, 11)]
        assert budgets == [4.0, 8.0, 12.0]


def test_records_asked_for_at_once_count_together(tmp_path):
    """As two requests in one run or as one: the same two records stay behind."""
    with trained(tmp_path) as manager:
        asked = manager.request_many(records=[record(9), record(10), record(30)])
        manager.forget()
        assert [claim(manager, r).epsilon for r in asked] == [8.0, 8.0, 4.0]


def test_rest_of_a_person_counts_what_went_before(tmp_path):
    with trained(tmp_path, GROUPED) as manager:
        forgotten(manager, record=record(9))
        rest = forgotten(manager, subject=person(3))
        whole = GROUPED.train(RECORDS, RNG).claim_for(RECORDS.of_subjects([person(3)]))
        assert answers(manager)[rest.id]["records"] == 2
        assert claim(manager, rest) == whole


def test_added_records_are_forgotten_exactly(tmp_path):
    with trained(tmp_path) as manager:
        manager.add(NEWCOMERS)
        expected = Exact(caveats=(*RECORDS.schema.caveats, REQUESTS_APART))
        assert claim(manager, forgotten(manager, subject=person(2, "birch"))) == expected


def test_added_record_of_a_released_person_counts_with_the_others(tmp_path):
    """Six records of one person, three of them behind the release."""
    with trained(tmp_path) as manager:
        manager.add(dataclasses.replace(NEWCOMERS, subjects=np.where(np.arange(30) < 3, person(3), NEWCOMERS.subjects)))
        request = forgotten(manager, subject=person(3))
        assert answers(manager)[request.id]["records"] == 6
        assert claim(manager, request).epsilon == 12.0


@pytest.mark.parametrize("method", [METHOD, GROUPED], ids=["local DP", "k-anonymity"])
def test_last_added_record_of_a_person_can_be_certified(method, tmp_path):
    with trained(tmp_path, method) as manager:
        mine = np.where(np.arange(30) < 1, person(3), NEWCOMERS.subjects)
        manager.add(dataclasses.replace(NEWCOMERS, subjects=mine))
        for i in (9, 10, 11):
            forgotten(manager, record=record(i))
        last = forgotten(manager, record=record(0, "birch"))
        assert claim(manager, last).records == 3
        manager.verify(manager.certify(last.id))


def test_record_that_comes_back_is_not_new_to_the_base_model(tmp_path):
    with trained(tmp_path) as manager:
        forgotten(manager, subject=person(3))
        manager.add(RECORDS.of_subjects([person(3)]))
        assert claim(manager, forgotten(manager, subject=person(3))).epsilon == 12.0


def test_held_out_people_are_forgotten_exactly_and_were_never_seen(tmp_path):
    with trained(tmp_path) as manager:
        request = forgotten(manager, subject=person(1, "cedar"))
        assert claim(manager, request) == Exact(caveats=RECORDS.schema.caveats)
        assert manager.certify(request.id).body.claimed.never_seen_raw
        seen = forgotten(manager, subject=person(1))
        assert not manager.certify(seen.id).body.claimed.never_seen_raw


def test_record_that_went_with_its_person_is_answered_like_them(tmp_path):
    """The record's request was accepted while the person's was being processed, so the next run finds it gone."""
    with trained(tmp_path, GROUPED) as manager:
        late = []

        def during(step) -> None:
            if step == "forget" and not late:
                late.append(manager.request_erasure(record=record(10)))

        manager._progress = Steps(during)
        early = forgotten(manager, subject=person(3))
        before = manager.status().served
        done = manager.forget()
        assert (done.requests, done.records, done.trained) == ((late[0].id,), 0, False)
        assert manager.status().served == before
        assert claim(manager, late[0]) == claim(manager, early)
        paper = manager.certify(late[0].id)
        manager.verify(paper)
        assert not paper.body.claimed.never_seen_raw
        assert paper.body.request.records_erased == 1


@dataclasses.dataclass(frozen=True)
class Ungrouped:
    """Claims k-anonymity and keeps its groups to itself."""

    inner: ProbabilisticKAnonymity = ProbabilisticKAnonymity(k=8)

    def guarantee(self, schema):
        return self.inner.guarantee(schema)

    def protect(self, data, rng):
        return self.inner.protect(data, rng)


def test_k_anonymity_without_groups_is_refused(tmp_path):
    """Otherwise everybody would seem to hide among all who are forgotten."""
    method = dataclasses.replace(GROUPED, mechanism=Ungrouped())
    with pytest.raises(PrivacyError, match="does not tell the groups"), trained(tmp_path, method):
        pass


class TestSecondRelease:
    @pytest.fixture
    def manager(self, tmp_path):
        with trained(tmp_path) as manager:
            yield manager

    def test_budgets_add_up_for_those_in_both(self, manager):
        manager.renew()
        assert claim(manager, forgotten(manager, subject=person(3))).epsilon == 24.0

    def test_those_in_the_first_alone_keep_their_claim(self, manager):
        request = forgotten(manager, subject=person(3))
        manager.renew()
        assert claim(manager, request).epsilon == 12.0
        manager.verify(manager.certify(request.id))

    def test_those_in_the_second_alone_have_its_budget(self, manager):
        manager.add(NEWCOMERS)
        manager.renew()
        assert claim(manager, forgotten(manager, subject=person(2, "birch"))).epsilon == 12.0

    def test_fewer_records_in_one_of_them_cost_less(self, manager):
        """Three records in the first release, two of them in the second: 3·4 + 2·4."""
        forgotten(manager, record=record(9))
        manager.renew()
        request = forgotten(manager, subject=person(3))
        found = claim(manager, request)
        assert (found.epsilon, found.records) == (20.0, 3)
        manager.verify(manager.certify(request.id))

    def test_held_out_stay_exact(self, manager):
        manager.renew()
        assert isinstance(claim(manager, forgotten(manager, subject=person(1, "cedar"))), Exact)


def test_more_records_than_k_are_erased_and_not_certified(tmp_path):
    many = dataclasses.replace(RECORDS, subjects=np.where(np.arange(150) < 9, "family", RECORDS.subjects))
    with trained(tmp_path, GROUPED, records=many) as manager:
        request = forgotten(manager, subject="family")
        assert claim(manager, request).bound == 1
        with pytest.raises(CertificateRefused, match="says nothing"):
            manager.certify(request.id)


def test_seeded_run_says_so_and_a_secret_one_does_not(tmp_path):
    for folder, rng, seeded in ((tmp_path / "a", RNG, True), (tmp_path / "b", Secret(), False)):
        with trained(folder, rng=rng) as manager:
            request = forgotten(manager, subject=person(3))
            assert claim(manager, request).seeded is seeded
            assert manager.certify(request.id).body.seeded is seeded
            assert ("Reproducible run" in manager.status().claim) is seeded


def test_claims_are_those_of_the_mechanism(tmp_path):
    with trained(tmp_path / "a", GROUPED) as manager:
        assert isinstance(claim(manager, forgotten(manager, subject=person(3))), KAnonymous)
    with trained(tmp_path / "b") as manager:
        assert isinstance(claim(manager, forgotten(manager, subject=person(3))), DifferentiallyPrivate)


def by_brute_force(groups, people, gone, whom):
    """Count, for each gone record of these people, the distinct gone people in its group."""
    each = [
        len({people[j] for j in range(len(people)) if gone[j] and groups[j] == groups[i]})
        for i in range(len(people))
        if people[i] in whom and gone[i]
    ]
    return min(each), float(np.median(each)), each.count(1) / len(each)


_WHO = st.one_of(st.integers(0, 49).map(person), st.integers(0, 149).map(record))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(_WHO, min_size=1, max_size=6, unique=True), min_size=1, max_size=3))
def test_effective_k_is_what_a_brute_force_count_gives(tmp_path, rounds):
    """Over several runs of forgetting, people and records mixed."""
    groups, people = GROUPED.mechanism.groups(RECORDS), RECORDS.subjects.tolist()
    gone = np.zeros(len(RECORDS), dtype=bool)
    with in_memory(tmp_path) as folder:
        manager = Manager(folder, GROUPED, rng=RNG)
        manager.train(RECORDS, hold_out=HELD_OUT)
        for names in rounds:
            subjects = [n for n in names if n.startswith("person")]
            records = [n for n in names if n.startswith("record")]
            asked = dict(
                zip([*subjects, *records], manager.request_many(subjects=subjects, records=records), strict=True)
            )
            known = {n: r for n, r in asked.items() if r.state == "accepted"}
            manager.forget()
            gone |= np.isin(people, subjects) | np.isin(RECORDS.ids, records)
            noted = answers(manager)
            for name, request in known.items():
                whom = {name} if name in subjects else {people[RECORDS.ids.tolist().index(name)]}
                found = noted[request.id]["effective_k"]
                counted = by_brute_force(groups, people, gone, whom)
                assert (found["minimum"], found["median"], found["alone"]) == counted
                assert found["k"] == 8
                assert claim(manager, request).records == sum(gone[i] and people[i] in whom for i in range(150))
        manager.close()
