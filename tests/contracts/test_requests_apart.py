"""Which claims assume that nobody chose a request by looking at a model, and which hold whatever requests depend on."""

import dataclasses

import numpy as np
import pytest

from eupg import EUPG, Manager, Retrain, Seeded
from eupg.forget.certified_sp import CertifiedSP
from eupg.forget.exact_trees import ExactTrees
from eupg.forget.sisa.method import SISA
from eupg.guarantees.wording import REQUESTS_APART, as_sentence
from eupg.learn import SklearnLearner, TorchLearner, XGBoostLearner
from eupg.protect import DPSynthesis, LocalDP, ProbabilisticKAnonymity
from people import people

FAST = SklearnLearner()
RAW = {
    "EUPG": EUPG(ProbabilisticKAnonymity(10), FAST, 2, 1),
    "EUPG, boosted trees": EUPG(LocalDP(1.0), XGBoostLearner(threads=1), 2, 1),
    "SISA": SISA(XGBoostLearner(threads=1), 2, shards=2, slices=2),
    "SISA as in the paper": SISA(XGBoostLearner(threads=1), 2, shards=2, slices=2, redraw=None),
    "Certified-SP": CertifiedSP(TorchLearner(batch_size=8), 1, 2),
}
IMMUNE = {
    "base, nobody exposed": EUPG(DPSynthesis(1.0), FAST, 2, 1, exposure=0.0),
    "base, not fine-tuned": EUPG(ProbabilisticKAnonymity(10), FAST, 2, 0),
    "Retrain": Retrain(FAST, 2),
    "exact trees": ExactTrees(most_cells=150),
    "SISA drawn anew each time": SISA(XGBoostLearner(threads=1), 2, shards=2, slices=2, redraw=0.0),
}
SENTENCE = (
    "It is assumed that no erasure request was chosen by looking at a model fitted on these records: such a choice can "
    "carry what that model showed into the newest one."
)


def test_claims_and_certificates_use_the_same_words():
    assert as_sentence(REQUESTS_APART) == SENTENCE


@pytest.mark.parametrize(("name", "method"), [*RAW.items(), *IMMUNE.items()], ids=[*RAW, *IMMUNE])
def test_claim_says_what_it_assumes_about_requests(name, method):
    data = people(90)
    trained = method.train(data, Seeded(1))
    for claim in (trained.claim, trained.claim_for(data.of_subjects(["p1"]))):
        assert (SENTENCE in claim.sentence()) == (name in RAW)


def test_newcomer_who_is_seen_raw_is_forgotten_exactly_under_the_same_assumption():
    data = people(90)
    new = dataclasses.replace(people(3, seed=4), ids=np.array(["n1", "n2", "n3"]), subjects=np.array(["n"] * 3))
    for method, needed in ((RAW["EUPG"], True), (IMMUNE["base, not fine-tuned"], False)):
        grown = method.update(method.train(data, Seeded(1)), data.plus(new), Seeded(1))
        claim = grown.claim_for(new)
        assert claim.notion == "exact"
        assert (REQUESTS_APART in claim.caveats) == needed


def test_people_who_are_not_drawn_need_no_assumption():
    data, method = people(300), EUPG(ProbabilisticKAnonymity(10), FAST, 2, 1, exposure=0.3)
    trained = method.train(data, Seeded(1))
    drawn = trained.lottery.drawn(data)
    for rows, needed in ((drawn, True), (~drawn, False)):
        claim = trained.claim_for(data.of_subjects([str(data.subjects[rows][0])]))
        assert (REQUESTS_APART in claim.caveats) == needed


@pytest.mark.parametrize(("exposure", "finetune"), [(1.0, 1), (1.0, 0), (0.0, 1), (0.3, 1)])
def test_certificate_lists_the_assumption_exactly_where_a_model_had_seen_the_records(tmp_path, exposure, finetune):
    manager = Manager(
        tmp_path / "ws", EUPG(ProbabilisticKAnonymity(10), FAST, 2, finetune, exposure=exposure), rng=Seeded(3)
    )
    manager.train(people(300), hold_out=0.1)
    assert (SENTENCE in manager.status().claim) == (exposure > 0 and finetune > 0)
    state = manager.space.state()
    (data, held), index = manager.space.read(state), manager.space.index(state)
    seen = index.part(index.seen, held_out=False)
    people_of = [held.subjects, data.subjects[seen], data.subjects[~seen]]
    for names, needed in zip(people_of, (False, True, False), strict=True):
        if not len(names):
            continue
        request = manager.request_erasure(subject=str(names[0]))
        manager.forget()
        paper = manager.certify(request.id)
        manager.verify(paper)
        body = paper.body
        assert (SENTENCE in body.assumed) == (SENTENCE in body.claimed.sentence) == needed
        assert body.claimed.never_seen_raw != needed
        assert str(paper).count("It is assumed that no") <= 1
    manager.close()
