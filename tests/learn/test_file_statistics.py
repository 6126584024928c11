"""What scikit-learn and PyTorch note about their examples and do not predict with is in no model, or in no file."""

import json
import zipfile
from io import BytesIO

import numpy as np
import pytest
import safetensors.torch
import torch
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from torch import nn

from eupg import SISA, Seeded
from eupg.learn import SklearnLearner, TorchLearner, best_of
from eupg.learn import sklearn as sklearn_learner
from eupg.learn.best_of import BestOf
from eupg.protect import ProbabilisticKAnonymity
from people import people

ESTIMATORS = [
    SGDClassifier(loss="log_loss"),
    SGDClassifier(loss="log_loss", average=True),
    MLPClassifier((8,)),
    LogisticRegression(),
    GradientBoostingClassifier(subsample=0.8),
    RandomForestClassifier(oob_score=False),
    HistGradientBoostingClassifier(scoring="loss", early_stopping=True),
    AdaBoostClassifier(),
]
# Attributes of fitted estimators that count, or score, the examples.
COUNTS = {
    *("_n_samples", "_n_samples_bootstrap", "_optimizer", "_sample_weight", "oob_decision_function_", "oob_score_"),
}
SCORES = {
    *("loss_", "loss_curve_", "train_score_", "validation_score_", "estimator_errors_", "oob_improvement_"),
    "oob_scores_",
}


def fit(estimator, data, start=None):
    return fit_with(SklearnLearner(estimator), data, start)


def fit_with(learner, data, start=None):
    return learner.fit(data, effort=3, rng=np.random.default_rng(0), start=start)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_estimators_predict_and_go_on_as_before_without_their_statistics(estimator, monkeypatch):
    data, asked = people(300), people(200, 5).X
    learner = SklearnLearner(estimator)
    bare = fit_with(learner, data)
    with monkeypatch.context() as patch:
        patch.setattr(sklearn_learner, "erase_statistics", lambda estimator: None)
        whole = fit_with(learner, data)
    np.testing.assert_array_equal(bare.predict_proba(asked), whole.predict_proba(asked))
    state = vars(bare.estimator)
    assert not COUNTS & set(state)
    assert not any(np.any(state[name]) for name in SCORES & set(state))
    if learner.warm_starts:
        further = fit_with(learner, people(300, 2), start=bare)
        assert np.isfinite(further.predict_proba(asked)).all()


def test_number_of_examples_seen_is_coarse():
    """SGD needs it to set its step size when it goes on; with one record less it is the same."""
    seen = [fit(SGDClassifier(loss="log_loss"), people(rows)).estimator.t_ for rows in (300, 299)]
    assert seen == [1024.0, 1024.0]


@pytest.mark.parametrize("estimator", [RandomForestClassifier(), GradientBoostingClassifier(), AdaBoostClassifier()])
def test_trees_of_scikit_learn_hold_no_counts(estimator):
    trees = [one.tree_ for one in np.ravel(fit(estimator, people(300)).estimator.estimators_)]
    assert len(trees) >= 3
    for tree in trees:
        assert not tree.n_node_samples.any()
        assert not tree.weighted_n_node_samples.any()
        assert not tree.impurity.any()
        assert not tree.value[tree.children_left >= 0].any()
        assert tree.value.any()


def test_histogram_trees_hold_no_counts():
    stages = fit(HistGradientBoostingClassifier(), people(300)).estimator._predictors
    nodes = np.concatenate([one.nodes for stage in stages for one in stage])
    assert not nodes["count"].any()
    assert not nodes["gain"].any()
    assert not nodes["value"][nodes["is_leaf"] == 0].any()
    assert nodes["value"].any()


def test_file_of_a_forest_tells_no_count_of_its_examples(tmp_path):
    """Read without the library: every array of the file that could hold a count of examples is zero."""
    learner = SklearnLearner(RandomForestClassifier())
    learner.save(fit(RandomForestClassifier(), people(300)), tmp_path / "model")
    payload = (tmp_path / "model").read_bytes().split(b"\n", maxsplit=1)[1]
    with zipfile.ZipFile(BytesIO(payload)) as archive:
        arrays = [
            np.load(BytesIO(archive.read(n)), allow_pickle=False) for n in archive.namelist() if n.endswith("npy")
        ]
        words = archive.read("schema.json").decode()
    nodes = [array for array in arrays if array.dtype.names and "n_node_samples" in array.dtype.names]
    assert len(nodes) == 3
    assert not any(array["n_node_samples"].any() or array["weighted_n_node_samples"].any() for array in nodes)
    assert "_n_samples" not in json.dumps(json.loads(words))


class Normalised(nn.Sequential):
    def __init__(self, inputs: int, classes: int, momentum: float | None = 0.1) -> None:
        super().__init__(nn.Linear(inputs, 8), nn.BatchNorm1d(8, momentum=momentum), nn.ReLU(), nn.Linear(8, classes))


def plain_means(inputs: int, classes: int) -> nn.Module:
    return Normalised(inputs, classes, momentum=None)


@pytest.mark.parametrize("network", [Normalised, plain_means])
def test_files_of_networks_count_no_batches(network, tmp_path):
    learner, data = TorchLearner(network, batch_size=32), people(300)
    model = learner.fit(data, effort=2, rng=np.random.default_rng(0))
    learner.save(model, tmp_path / "model")
    tensors = safetensors.torch.load((tmp_path / "model").read_bytes().split(b"\n", maxsplit=1)[1])
    # A plain mean needs its count to go on.
    assert bool(tensors["1.num_batches_tracked"] == 0) is (network is Normalised)
    assert model.network[1].num_batches_tracked > 0
    again = learner.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(data.X), model.predict_proba(data.X))
    further = [learner.fit(data, effort=1, rng=np.random.default_rng(1), start=m).network for m in (model, again)]
    for (name, one), other in zip(further[0].state_dict().items(), further[1].state_dict().values(), strict=True):
        assert name.endswith("num_batches_tracked") or torch.equal(one, other)


def test_models_that_are_served_hold_no_moments_of_the_optimiser():
    trained = SISA(TorchLearner(batch_size=32), effort=4, shards=2, slices=2, jobs=1).train(people(200), Seeded(1))
    assert [model.moments for model in trained.model.models] == [None, None]


def test_recipes_are_tried_with_the_scales_of_the_whole_release(monkeypatch):
    """Otherwise what is chosen on a part of a release would be read by other scales than what is fitted in the end."""
    release = ProbabilisticKAnonymity(10).protect(people(400), Seeded(1))
    seen = []
    judge = best_of._judge
    monkeypatch.setattr(best_of, "_judge", lambda models, *rest: seen.extend(models) or judge(models, *rest))
    final = BestOf((SklearnLearner(),)).fit(release, effort=8, rng=np.random.default_rng(0))
    assert len(seen) > 1
    assert all(model.encoder is final.encoder is release.scales for model in seen)
