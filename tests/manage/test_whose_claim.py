"""Whose claim it is: a person's, a record's, or a record's whose person is not known; and nobody else's figures."""

import dataclasses
import json

import numpy as np
import pytest

from eupg import EUPG, Manager
from eupg.certify.measured import MeasurementKind
from eupg.certify.render import page
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.guarantees.wording import NO_PERSON
from eupg.learn import SklearnLearner
from eupg.protect import DPSynthesis, LocalDP
from managed import GROUPED, HELD_OUT, METHOD, NEWCOMERS, RECORDS, RNG, named, person, record, trained
from people import people

UNKNOWN = "other records of the same person are not known here"
SYNTHETIC = EUPG(DPSynthesis(1.0, max_records=3), SklearnLearner(), pretrain=2, finetune=1)


def nameless(data: Dataset = RECORDS) -> Dataset:
    """The same records without the column that names people."""
    schema = Schema(tuple(a for a in data.schema.attributes if a is not data.schema.subject))
    return Dataset(schema, data.X, data.y, data.ids, data.ids)


def forgotten(manager, *asked):
    """Honour requests in one run and return their certificates."""
    requests = [manager.request_erasure(**who) for who in asked]
    manager.forget()
    papers = [manager.certify(r.id) for r in requests]
    for paper in papers:
        manager.verify(paper)
    return papers


def shown(paper) -> list[str]:
    """Return all that a person reads: the file, the text and the page."""
    return [json.dumps(paper.to_json(), ensure_ascii=False), " ".join(str(paper).split()), page(paper)]


@pytest.mark.parametrize("method", [METHOD, GROUPED, SYNTHETIC], ids=["local DP", "k-anonymity", "synthesis"])
class TestNoPersonColumn:
    @pytest.fixture
    def manager(self, tmp_path, method):
        manager = Manager(tmp_path, method, rng=RNG)
        manager.train(nameless(), hold_out=nameless(HELD_OUT))
        yield manager
        manager.close()

    def test_everything_says_that_it_is_about_records(self, manager):
        assert "record-level" in manager.status().claim
        assert UNKNOWN in manager.status().claim
        papers = forgotten(manager, {"record": record(9)}, {"record": record(10)}, {"record": record(11)})
        for paper in papers:
            assert UNKNOWN in paper.body.claimed.sentence
            for text in shown(paper):
                assert UNKNOWN in text
                assert "record-level" in text
                assert "person-level" not in text
                assert "for this person" not in text

    def test_record_asked_for_as_if_it_were_a_person_is_still_a_record(self, manager):
        (paper,) = forgotten(manager, {"subject": record(9)})
        assert paper.body.request.unit == "record"
        assert not paper.body.request.people_known
        assert "all records of one person" not in page(paper)
        assert "person-level" not in str(paper)

    def test_record_that_came_back_changes_nothing(self, manager):
        forgotten(manager, {"record": record(9)})
        manager.add(nameless().select(np.arange(150) == 9))
        assert UNKNOWN in forgotten(manager, {"record": record(10)})[0].body.claimed.sentence

    def test_exact_claims_say_so_too(self, manager):
        manager.add(nameless(NEWCOMERS))
        (paper,) = forgotten(manager, {"record": record(2, "birch")})
        assert paper.body.claimed.claim.notion == "exact"
        assert UNKNOWN in paper.body.claimed.sentence


def test_three_records_of_one_person_are_one_claim_where_the_person_is_named(tmp_path):
    with trained(tmp_path) as manager:
        (paper,) = forgotten(manager, {"subject": person(3)})
        assert "person-level ε = 12 (3 records together)" in " ".join(str(paper).split())
        assert "(ε = 12 for this person)" in page(paper)
        assert "record-level" not in page(paper)
        assert paper.body.request.people_known


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (METHOD, "record-level ε = 4 (1 record)"),
        (SYNTHETIC, "record-level ε = 2 (the erased records of a person who keeps"),
    ],
    ids=["local DP", "synthesis"],
)
def test_single_record_of_a_named_person_is_claimed_for_as_a_record(tmp_path, method, said):
    with trained(tmp_path, method) as manager:
        (paper,) = forgotten(manager, {"record": record(9)})
        kept = "about the forgotten records, while 2 other records of the same person are kept"
        for text in shown(paper):
            assert kept in text
            assert "person-level" not in text
        assert said in " ".join(str(paper).split())
        assert UNKNOWN not in page(paper)
        (paper,) = forgotten(manager, {"record": record(10)})
        assert "while 1 other record of the same person is kept" in paper.body.claimed.sentence


def test_records_that_were_added_later_are_among_the_others(tmp_path):
    """They leave no trace in the release, and the person still is not forgotten."""
    with trained(tmp_path) as manager:
        manager.add(dataclasses.replace(NEWCOMERS, subjects=np.where(np.arange(30) < 1, person(3), NEWCOMERS.subjects)))
        for i in (9, 10):
            forgotten(manager, {"record": record(i)})
        (paper,) = forgotten(manager, {"record": record(11)})
        assert "while 1 other record of the same person is kept" in paper.body.claimed.sentence


class TestOwnFigures:
    @pytest.fixture
    def manager(self, tmp_path):
        """Record 9, of person 3, stands in the table a second time; nobody else's does."""
        twin = dataclasses.replace(
            RECORDS.select(RECORDS.where([record(9)])), ids=NEWCOMERS.ids[:1], subjects=NEWCOMERS.subjects[:1]
        )
        with trained(tmp_path, GROUPED, records=RECORDS.plus(twin)) as manager:
            yield manager

    def test_twins_are_those_of_the_persons_own_records(self, manager):
        mine, other = forgotten(manager, {"subject": person(3)}, {"subject": person(4)})
        counts = [p.body.measurement(MeasurementKind.NEAR_DUPLICATES).numbers for p in (mine, other)]
        assert [(n["forgotten"], n["same_label"]) for n in counts] == [(3, 1), (3, 0)]
        assert "0 of 3 erased records have an identical twin among the 145 retained" in " ".join(str(other).split())
        assert "of 6 " not in json.dumps([m.to_json() for m in other.body.measured])

    def test_single_record_reads_as_one(self, manager):
        mine, other = forgotten(manager, {"record": record(9)}, {"record": record(12)})
        assert mine.body.measurement(MeasurementKind.NEAR_DUPLICATES).result.startswith(
            "the erased record has an identical twin"
        )
        assert other.body.measurement(MeasurementKind.NEAR_DUPLICATES).result.startswith(
            "the erased record has no identical or near"
        )

    def test_number_forgotten_together_is_printed(self, manager):
        papers = forgotten(manager, {"subject": person(3)}, {"subject": person(4)}, {"record": record(30)})
        for paper in papers:
            assert paper.body.request.together == 3
            for text in shown(paper)[1:]:
                assert "3 people were forgotten together; the fewer, the more a comparison of the models" in text
        (alone,) = forgotten(manager, {"subject": person(5)})
        assert "No other person was forgotten at the same time;" in page(alone)

    def test_held_out_people_do_not_hide_those_whom_the_model_knew(self, manager):
        mine, held = forgotten(manager, {"subject": person(3)}, {"subject": person(1, "cedar")})
        assert (mine.body.request.together, held.body.request.together) == (1, 2)
        assert "the fewer" not in page(held)

    def test_measurements_of_a_batch_say_so(self, tmp_path):
        manager = Manager(tmp_path / "batch", METHOD, rng=RNG)
        manager.train(RECORDS, hold_out=named(people(30, seed=9), "cedar"))
        papers = forgotten(manager, *({"subject": person(i)} for i in range(20)))
        manager.close()
        found = papers[0].body.measurement(MeasurementKind.MEMBERSHIP)
        assert "for the batch of 60 records" in found.result
        assert found.sentence.startswith("For the batch of 60 records forgotten together, not for one person: ")
        assert papers[0].body.measurement(MeasurementKind.NEAR_DUPLICATES).numbers["forgotten"] == 3

    def test_reason_of_a_gap_is_read_where_the_gap_is(self, manager):
        (paper,) = forgotten(manager, {"subject": person(3)})
        for text in shown(paper):
            assert "Not measured: a figure about fewer than 20 people would be about each of them" in text

    def test_reason_of_a_gap_is_the_true_one(self, manager):
        papers = forgotten(manager, *({"subject": person(i)} for i in range(20)))
        found = papers[0].body.measurement(MeasurementKind.MEMBERSHIP).sentence
        assert found == "Not measured: the attack needs at least 20 held-out records, and there are 12."

    def test_effective_k_is_about_these_records(self, manager):
        groups = GROUPED.mechanism.groups(manager.space.read(manager.space.state())[0])
        mates = sorted(set(RECORDS.subjects[np.flatnonzero(groups == groups[9])[:6]].tolist()) | {person(3)})
        papers = forgotten(manager, *({"subject": name} for name in mates))
        for paper in papers:
            assert "of these erased records stand alone" in paper.body.measurement(MeasurementKind.EFFECTIVE_K).result


def test_share_of_records_whose_group_shares_a_value_is_in_claim_and_certificate(tmp_path):
    groups = GROUPED.mechanism.groups(RECORDS)
    alike = [len(set(RECORDS.y[groups == g].tolist())) == 1 for g in groups]
    share = round(float(np.mean(alike)), 4)
    assert 0 < share < 1
    with trained(tmp_path, GROUPED) as manager:
        told = f"ill {100 * share:.0f} %"
        assert told in manager.status().claim
        (paper,) = forgotten(manager, {"subject": person(3)})
        assert dict(paper.body.claimed.claim.shared) == {"ill": share}
        assert paper.body.measurement(MeasurementKind.SHARED_VALUES).numbers == {"ill": share}
        assert "not of this person's group" in paper.body.measurement(MeasurementKind.SHARED_VALUES).sentence
        for text in shown(paper)[1:]:
            assert told in text


def test_claim_of_an_earlier_version_is_certified_as_noted_and_what_it_left_unsaid_is_added(tmp_path, monkeypatch):
    """Before, a claim without a person column did not say that it is about records."""
    from eupg.manage import forgetting

    manager = Manager(tmp_path, EUPG(LocalDP(4.0), SklearnLearner(), pretrain=2, finetune=1), rng=RNG)
    with monkeypatch.context() as patch:
        patch.setattr(Dataset, "names_people", property(lambda _: True))
        patch.setattr(forgetting, "NO_PERSON", "left unsaid")
        manager.train(nameless(), hold_out=nameless(HELD_OUT))
        request = manager.request_erasure(record=record(9))
        manager.forget()
    assert UNKNOWN in manager.status().claim
    paper = manager.certify(request.id)
    manager.verify(paper)
    manager.close()
    assert NO_PERSON not in paper.body.claimed.claim.caveats
    assert UNKNOWN in paper.body.claimed.sentence
    assert any(said.startswith("Other records of the same person") for said in paper.body.not_covered)
    assert "record-level ε = 4" in str(paper)
