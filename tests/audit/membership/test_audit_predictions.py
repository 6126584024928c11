"""An audit from arrays is the audit from models; queries and signals reach the attack, and bad arrays are named."""

from dataclasses import dataclass

import numpy as np
import pytest

from eupg import Retrain, Seeded
from eupg.audit import LiRA, LossAttack, ReferenceStore, audit
from eupg.audit.membership.audit import Tuning, audit_predictions, measure_queries, references_for
from eupg.audit.membership.queries import PictureQueries, predictions
from eupg.audit.membership.rmia import RMIA
from eupg.audit.membership.signals import SignalKind
from eupg.errors import DataError, ParameterError
from eupg.executor import InProcess
from eupg.learn import SklearnLearner
from people import people
from pictures import pictures


def drawn(seed, *, models=8, members=200, others=200, apart=300, queries=1, remembers=1.5):
    """Make up predictions of three classes; models are surer of what they saw, on every query."""
    rng = np.random.default_rng(seed)
    scored, total = members + others, members + others + apart
    ease = rng.normal(0.5, 1.0, (total, 1))
    mask, labels = np.arange(scored) < members, rng.integers(0, 3, total)
    halves = rng.random((models // 2, total)) < 0.5
    inside = np.stack([halves, ~halves], axis=1).reshape(models, total)
    inside[:, :scored] = False

    def said(saw):
        logits = np.zeros((total, queries, 3))
        own = ease + rng.normal(0, 0.8, (total, queries)) + remembers * saw[:, None]
        logits[np.arange(total), :, labels] = own
        p = np.exp(logits)
        return p / p.sum(axis=2, keepdims=True)

    each = np.stack([said(row) for row in inside])
    saw = np.arange(total) < members
    target, stranger = said(saw)[:scored], said(np.zeros(total, bool))[:scored]
    tuning = Tuning(each[:, scored:], labels[scored:], inside[:, scored:])
    return target, labels[:scored], mask, each[:, :scored], tuning, stranger


@pytest.mark.parametrize("attack", [RMIA(), RMIA(a=0.3), LiRA(), LossAttack()], ids=repr)
def test_model_that_remembers_is_told_from_one_that_does_not(attack):
    target, labels, mask, references, tuning, stranger = drawn(1)
    found = audit_predictions(target, labels, mask, references, tuning=tuning, attack=attack, baseline=stranger)
    assert found.auc > 65
    assert found.exposed
    assert found.baseline.low < 50 < found.baseline.high
    clean = audit_predictions(stranger, labels, mask, references, tuning=tuning, attack=attack)
    assert not clean.exposed


@pytest.mark.parametrize("attack", [RMIA(), LiRA(), LossAttack()], ids=repr)
def test_more_queries_find_more(attack):
    """Each query sees what was learnt through noise of its own, so ten together see it better than one."""
    target, labels, mask, references, tuning, _ = drawn(2, queries=10, remembers=0.7)
    one = Tuning(tuning.probabilities[:, :, :1], tuning.labels, tuning.inside)
    alone = audit_predictions(target[:, :1], labels, mask, references[:, :, :1], tuning=one, attack=attack)
    together = audit_predictions(target, labels, mask, references, tuning=tuning, attack=attack)
    assert together.auc > alone.auc + 4
    assert together.parameters["queries"] == 10
    assert "queries 10" in together.sentence()
    assert "queries" not in alone.parameters


def test_signal_is_measured_as_asked_and_named_in_the_report():
    target, labels, mask, references, tuning, _ = drawn(3)
    plain, taylor = (
        audit_predictions(target, labels, mask, references, tuning=tuning, signal=signal)
        for signal in (None, SignalKind.TAYLOR)
    )
    assert "signal" not in plain.parameters
    assert taylor.parameters["signal"] == "soft-margin Taylor softmax"
    assert not np.array_equal(plain.scores, taylor.scores)
    assert taylor.exposed
    assert type(taylor).from_json(taylor.to_json()) == taylor


def test_axis_of_the_queries_may_be_left_out():
    target, labels, mask, references, tuning, stranger = drawn(4)
    flat = Tuning(tuning.probabilities[:, :, 0], tuning.labels, tuning.inside)
    with_axis = audit_predictions(target, labels, mask, references, tuning=tuning, baseline=stranger)
    without = audit_predictions(target[:, 0], labels, mask, references[:, :, 0], tuning=flat, baseline=stranger[:, 0])
    assert with_axis == without
    np.testing.assert_array_equal(with_axis.scores, without.scores)


def test_single_precision_is_as_good():
    target, labels, mask, references, _, _ = drawn(5)
    options = {"attack": RMIA(a=0.3, by_ratio=True), "signal": SignalKind.TAYLOR}
    small = (a.astype(np.float32) for a in (target, references))
    found = audit_predictions(next(small), labels, mask, next(small), **options)
    assert found.auc == pytest.approx(audit_predictions(target, labels, mask, references, **options).auc, abs=0.01)


def test_a_is_tuned_on_the_references_and_never_on_the_target():
    target, labels, mask, references, tuning, stranger = drawn(6)
    chosen = {audit_predictions(t, labels, mask, references, tuning=tuning).parameters["a"] for t in (target, stranger)}
    assert len(chosen) == 1
    with pytest.raises(DataError, match="pass tuning, the reference models' predictions on such records, or a value"):
        audit_predictions(target, labels, mask, references)


def test_scored_records_tune_a_where_references_saw_half_of_them():
    target, labels, mask, references, _, _ = drawn(7)
    halves = np.random.default_rng(0).random((4, len(mask))) < 0.5
    inside = np.stack([halves, ~halves], axis=1).reshape(8, len(mask))
    found = audit_predictions(target, labels, mask, references, inside)
    assert found.parameters["a"] is not None


def test_bad_arrays_are_named():
    target, labels, mask, references, tuning, _ = drawn(8, queries=2)
    with pytest.raises(DataError, match="RMIA needs reference models' predictions: pass references"):
        audit_predictions(target, labels, mask)
    with pytest.raises(DataError, match="predict both with the same queries"):
        audit_predictions(target, labels, mask, references[:, :, :1], tuning=tuning)
    with pytest.raises(DataError, match=r"probabilities must be \(records, queries, classes\)"):
        audit_predictions(target[0, 0], labels, mask, references)
    with pytest.raises(DataError, match="400 records need as many labels"):
        audit_predictions(target, labels[:-1], mask, references)
    with pytest.raises(DataError, match=r"members must be a boolean array of shape \(400,\)"):
        audit_predictions(target, labels, mask[:-1], references)
    with pytest.raises(ParameterError, match=r"LiRA takes SignalKind\.MARGIN as signal"):
        audit_predictions(target, labels, mask, references, attack=LiRA(), signal=SignalKind.TAYLOR)
    lopsided = np.zeros(references.shape[:2], bool)
    lopsided[0, :200] = True
    with pytest.raises(DataError, match="left out by the same number of reference models"):
        audit_predictions(target, labels, mask, references, lopsided, tuning=tuning)


def test_every_query_is_measured_with_its_records_label():
    p = np.array([[[0.7, 0.3], [0.6, 0.4]], [[0.1, 0.9], [0.2, 0.8]]])
    found = measure_queries(p, np.array([0, 1]), kind=SignalKind.PROBABILITY)
    np.testing.assert_allclose(found, [[0.7, 0.6], [0.9, 0.8]])


@dataclass(frozen=True)
class Remembering:
    """A recipe whose models know the pictures they saw, and their mirror images, and guess otherwise."""

    def train(self, data, rng):
        return Remembered(data)


class Remembered:
    def __init__(self, data):
        images = data.schema.picture.images(data.X)
        self.seen = {i.tobytes() for i in images} | {i[:, :, ::-1].tobytes() for i in images}
        self.labels = {i.tobytes(): c for i, c in zip(images, data.y, strict=True)}
        self.labels |= {i[:, :, ::-1].tobytes(): c for i, c in zip(images, data.y, strict=True)}
        self.picture, self.model = data.schema.picture, self

    def predict_proba(self, X):
        keys = [i.tobytes() for i in self.picture.images(X)]
        sure = np.array([0.5 if k not in self.seen else 0.1 + 0.8 * self.labels[k] for k in keys])
        return np.column_stack([1 - sure, sure])


def test_pictures_are_audited_with_queries_from_end_to_end(tmp_path):
    members, nonmembers, others = (pictures(40, i, word=word) for i, word in enumerate("mno"))
    model = Remembering().train(members.plus(others), Seeded(0)).model
    queries, store = PictureQueries(shift=1), ReferenceStore(tmp_path)
    ready = references_for(
        Remembering(), members, nonmembers, others, models=4, queries=queries, jobs=1, store=store, step=print
    )
    assert ready.probabilities.shape == (4, 120, 10, 2)
    np.testing.assert_array_equal(
        ready.probabilities[0], predictions(Remembered(ready.pool.select(ready.inside[0])), ready.pool, queries)
    )
    found = audit(
        model, members, nonmembers, references=ready, signal=SignalKind.TAYLOR, others=others, recipe=Remembering()
    )
    assert found.parameters["queries"] == 10
    assert found.baseline.auc == 50
    again = audit(
        model,
        members,
        nonmembers,
        references=4,
        queries=queries,
        signal=SignalKind.TAYLOR,
        others=others,
        recipe=Remembering(),
        jobs=1,
        store=store,
        step=print,
    )
    assert again == found
    assert len(store) == 4
    with pytest.raises(ParameterError, match="train them with the same queries, or leave queries out"):
        audit(model, members, nonmembers, references=ready, queries=PictureQueries())


def test_predictions_of_other_queries_are_not_taken_from_the_store(tmp_path):
    parts, store = [pictures(20, i, word=word) for i, word in enumerate("mno")], ReferenceStore(tmp_path)
    for queries in (None, PictureQueries(), PictureQueries(shift=1), None):
        references_for(Remembering(), *parts, models=2, queries=queries, jobs=1, store=store, step=print)
    assert len(store) == 6


def test_recipe_that_must_stay_in_one_process_does():
    asked = []

    class Noted:
        def map(self, work, tasks):
            asked.append(len(tasks))
            return InProcess().map(work, tasks)

    class OnGpu(SklearnLearner):
        in_process = True

    for learner, seen in ((OnGpu(), []), (SklearnLearner(), [2])):
        parts = [people(60, i) for i in range(3)]
        parts = [
            p.__class__(p.schema, p.X, p.y, np.char.add(w, p.ids), p.subjects)
            for p, w in zip(parts, "mno", strict=True)
        ]
        references_for(Retrain(learner, 1), *parts, models=2, executor=Noted(), step=print)
        assert asked == seen
