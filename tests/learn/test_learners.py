"""What each learner does beyond the common contract."""

import dataclasses
import json
import math
import re

import numpy as np
import pytest
import torch
import xgboost as xgb
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from torch import nn

from eupg.data.attribute import Categorical, Missing, Numeric, Ordinal
from eupg.data.schema import Schema
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn import MLP, LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.envelope import _digest
from people import SCHEMA, people

ALL = [TorchLearner(), XGBoostLearner(threads=1), LightGBMLearner(threads=1), SklearnLearner()]


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def correct(model, data) -> float:
    return float((model.predict_proba(data.X).argmax(axis=1) == data.y).mean())


@pytest.mark.parametrize(
    ("learner", "effort"),
    [
        (TorchLearner(), 20),
        (XGBoostLearner(threads=1), 20),
        (LightGBMLearner(threads=1, least_records=5), 50),
        (SklearnLearner(), 20),
        (SklearnLearner(LogisticRegression()), 50),
    ],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_learner_learns(learner, effort, classes):
    train, test = people(1500, 1, classes), people(500, 2, classes)
    assert correct(learner.fit(train, effort=effort, rng=rng()), test) > (0.85 if classes == 2 else 0.75)


@pytest.mark.parametrize("learner", ALL)
def test_going_on_from_a_good_model_beats_starting_anew(learner):
    base = learner.fit(people(2000, 1), effort=30, rng=rng())
    few, test = people(60, 3), people(500, 2)
    further = learner.fit(few, effort=1, rng=rng(), start=base)
    assert correct(further, test) > correct(learner.fit(few, effort=1, rng=rng()), test)


def test_xgboost_adds_the_trees_it_was_asked_for():
    learner = XGBoostLearner(threads=1)
    base = learner.fit(people(), effort=7, rng=rng())
    further = learner.fit(people(seed=2), effort=5, rng=rng(), start=base)
    assert [booster.num_boosted_rounds() for booster in further.boosters] == [7, 5]
    assert further.effort == 12


def in_one_ensemble(learner, tables, efforts):
    """Go on as XGBoost does by itself: one ensemble, whose trees predict every row anew at each start."""
    whole = None
    for data, effort in zip(tables, efforts, strict=True):
        kinds = ["c" if isinstance(a, Categorical) else "q" for a in data.schema.features]
        matrix = xgb.DMatrix(data.X, label=data.y, feature_types=kinds, enable_categorical=True)
        parameters = learner._parameters(data, rng())
        if whole is not None and learner.refresh_leaves:
            update = {"process_type": "update", "updater": "refresh", "refresh_leaf": 1, "base_score": 0.5}
            whole = xgb.train(parameters | update, matrix, whole.num_boosted_rounds(), xgb_model=whole)
        whole = xgb.train(parameters, matrix, effort, xgb_model=whole)
    return whole, whole.predict(matrix)


@pytest.mark.parametrize("refresh", [False, True], ids=["add", "refresh"])
@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_grows_the_trees_of_one_ensemble_bit_for_bit(classes, refresh):
    learner = XGBoostLearner(threads=1, refresh_leaves=refresh)
    tables = [people(400, seed, classes) for seed in (1, 2, 3)]
    model = None
    for data, effort in zip(tables, (6, 3, 2), strict=True):
        model = learner.fit(data, effort=effort, rng=rng(), start=model)
    whole, predicted = in_one_ensemble(learner, tables, (6, 3, 2))
    assert [tree for booster in model.boosters for tree in booster.get_dump()] == whole.get_dump()
    out = predicted.astype(np.float64)
    expected = np.column_stack([1 - out, out]) if classes == 2 else out / out.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(model.predict_proba(tables[-1].X), expected)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("times", [1, 2])
def test_fit_with_known_scores_is_fit(classes, times, tmp_path):
    learner = XGBoostLearner(threads=1)
    data, base = people(400, 2, classes), None
    for seed in range(times):
        base = learner.fit(people(300, seed, classes), effort=4, rng=rng(), start=base)
    scored = learner.fit_scored(data, effort=3, rng=rng(), start=base, scores=learner.scores(base, data.X))
    asked = learner.fit(data, effort=3, rng=rng(), start=base)
    assert [b.save_raw("ubj") for b in scored.boosters] == [b.save_raw("ubj") for b in asked.boosters]
    assert scored.boosters[:-1] == base.boosters, "the trees of the base are shared, not copied"
    learner.save(scored, tmp_path / "m")
    again = learner.load(tmp_path / "m")
    assert (len(again.boosters), again.effort) == (times + 1, scored.effort)
    np.testing.assert_array_equal(again.predict_proba(data.X), asked.predict_proba(data.X))


def counted_labels(booster, reg_lambda: float) -> tuple[float, float, float]:
    """Return what a file tells of its examples: the first guess, and how many there were, and how many with label 1."""
    learner = json.loads(booster.save_raw("json"))["learner"]
    guess = float(learner["learner_model_param"]["base_score"].strip("[]"))
    tree = learner["gradient_booster"]["model"]["trees"][0]
    spread, weight = tree["sum_hessian"][0], tree["base_weights"][0]
    people = spread / (guess * (1 - guess))
    return guess, people, people * guess + weight * (spread + reg_lambda)


def test_refreshed_leaves_stand_beside_no_count_of_the_labels_before():
    """The statistics of new leaves tell how many labels are left; the first guess must not tell how many there were.

    This is about models in memory: files do not hold the statistics (``tests/forget/test_two_versions.py``).
    """
    learner, data = XGBoostLearner(threads=1, refresh_leaves=True), people(200)
    data = dataclasses.replace(data, y=np.where(np.arange(200) % 3 == 0, 0, data.y))
    base = learner.fit(data, effort=3, rng=rng())
    retained = data.select(np.arange(200) != 1)
    guess, count, _ = counted_labels(base.boosters[0], learner.reg_lambda)
    assert count == pytest.approx(200)
    # The first guess of the base is coarse.
    odds = [np.log(share / (1 - share)) for share in (guess, data.y.mean())]
    assert 2 * odds[0] == pytest.approx(-1, abs=1e-6)
    assert odds[0] == pytest.approx(odds[1], abs=0.26)
    served = learner.fit(retained, effort=2, rng=rng(), start=base)
    _, count, labels = counted_labels(served.boosters[0], learner.reg_lambda)
    assert (count, labels) == pytest.approx((199, retained.y.sum()), abs=1e-3)
    assert [counted_labels(b, learner.reg_lambda)[0] for b in served.boosters] == [0.5, 0.5]


def test_scores_decide_what_is_learnt():
    learner, data = XGBoostLearner(threads=1), people(400)
    base = learner.fit(people(seed=2), effort=4, rng=rng())
    right = learner.scores(base, data.X)
    fits = [learner.fit_scored(data, effort=1, rng=rng(), start=base, scores=s) for s in (right, right[::-1])]
    assert fits[0].boosters[-1].get_dump() != fits[1].boosters[-1].get_dump()


def test_added_trees_hold_no_share_of_classes_of_their_own():
    """A release that leaves labels alone, less the share among the retained, would be the labels of those who left."""
    learner, data = XGBoostLearner(threads=1), people(400)
    data = data.select((data.y == 0) | (np.arange(400) % 4 == 0))
    further = learner.fit(data, effort=1, rng=rng(), start=learner.fit(people(seed=2), effort=1, rng=rng()))
    guess = json.loads(further.boosters[-1].save_config())["learner"]["learner_model_param"]["base_score"]
    assert float(guess.strip("[]")) == 0.5


def test_scores_are_refused_where_leaves_are_refreshed_or_rows_are_missing():
    learner, data = XGBoostLearner(threads=1), people()
    base = learner.fit(data, effort=1, rng=rng())
    scores = learner.scores(base, data.X)
    with pytest.raises(ParameterError, match="refreshed with the trees, not with their margins: call fit"):
        XGBoostLearner(refresh_leaves=True).fit_scored(data, effort=1, rng=rng(), start=base, scores=scores)
    with pytest.raises(ParameterError, match=rf"{len(data)} examples need as many scores, got {len(data) - 1}"):
        learner.fit_scored(data, effort=1, rng=rng(), start=base, scores=scores[1:])


@pytest.mark.parametrize("sizes", [[], [1], "all", [0, 7], None, [True]])
def test_ensembles_of_sizes_that_the_file_does_not_have_are_refused(sizes, tmp_path):
    learner, path = XGBoostLearner(threads=1), tmp_path / "m"
    about, payload = saved(learner, path)
    rewrite(path, about | {"sizes": sizes}, payload)
    with pytest.raises(ModelFileError, match=r"does not describe its sizes in .*: save the model again"):
        learner.load(path)


def test_file_of_one_ensemble_needs_no_sizes(tmp_path):
    learner, path = XGBoostLearner(threads=1), tmp_path / "m"
    about, payload = saved(learner, path)
    rewrite(path, {word: value for word, value in about.items() if word != "sizes"}, payload)
    assert len(learner.load(path).boosters) == 1


def test_refreshed_leaves_follow_the_new_examples_on_the_old_trees():
    """Trees of a base that learnt nothing useful: their leaves, refreshed on real records, predict far better."""
    data, test = people(1500, 1), people(500, 2)
    shuffled = people(1500, 1)
    object.__setattr__(shuffled, "y", np.random.default_rng(0).permutation(data.y))
    plain, refresh = (XGBoostLearner(max_depth=4, threads=1, refresh_leaves=r) for r in (False, True))
    base = plain.fit(shuffled, effort=60, rng=rng())
    refreshed = refresh.fit(data, effort=1, rng=rng(), start=base)
    assert [booster.num_boosted_rounds() for booster in refreshed.boosters] == [60, 1]
    assert correct(refreshed, test) > correct(plain.fit(data, effort=1, rng=rng(), start=base), test) + 0.05


def test_lightgbm_adds_trees_and_leaves_the_base_alone():
    learner = LightGBMLearner(threads=1)
    base = learner.fit(people(), effort=4, rng=rng())
    further = learner.fit(people(seed=2), effort=3, rng=rng(), start=base)
    assert (base.booster.num_trees(), further.booster.num_trees()) == (4, 7)


def normed(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, classes))


def dropping(inputs: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, classes))


def test_any_module_factory_works_and_batch_norm_runs_in_evaluation_mode():
    model = TorchLearner(normed).fit(people(900), effort=5, rng=rng())
    one_by_one = np.concatenate([model.predict_proba(people().X[i : i + 1]) for i in range(5)])
    np.testing.assert_allclose(one_by_one, model.predict_proba(people().X[:5]), atol=1e-6)


def test_last_batch_of_one_row_never_reaches_batch_norm():
    model = TorchLearner(normed, batch_size=32).fit(people(97), effort=2, rng=rng())
    assert int(model.network[1].num_batches_tracked) == 2 * 3


def test_last_batch_of_one_row_never_reaches_batch_norm_in_networks_trained_together():
    tables = [people(97, seed) for seed in range(2)]
    models = TorchLearner(normed, batch_size=32).fit_many(tables, effort=2, rngs=[rng(1), rng(2)])
    assert [int(model.network[1].num_batches_tracked) for model in models] == [2 * 3] * 2


@pytest.mark.parametrize(("rows", "size"), [(1, 256), (60, 1)])
def test_batch_norm_with_single_rows_only_is_refused_with_the_remedy(rows, size):
    with pytest.raises(DataError, match=rf"{rows} records in batches of {size} .*keep more records, raise batch_size"):
        TorchLearner(normed, batch_size=size).fit(people(rows), effort=1, rng=rng())


def test_dropout_is_the_same_for_the_same_generator():
    data = people(90)
    once, again = (TorchLearner(dropping).fit(data, effort=2, rng=rng(4)).predict_proba(data.X) for _ in range(2))
    np.testing.assert_array_equal(once, again)


def test_dropout_is_the_same_for_the_same_generators_in_networks_trained_together():
    tables = [people(90, seed) for seed in range(2)]
    runs = [TorchLearner(dropping).fit_many(tables, effort=2, rngs=[rng(1), rng(2)]) for _ in range(2)]
    for table, once, again in zip(tables, *runs, strict=True):
        np.testing.assert_array_equal(once.predict_proba(table.X), again.predict_proba(table.X))


@pytest.mark.parametrize("device", ["gpu", "cuda:one", ""])
def test_device_that_torch_does_not_know_is_refused_when_built(device):
    with pytest.raises(ParameterError, match=f'such as "cpu" or "cuda", got {device!r}'):
        TorchLearner(device=device)


def test_network_of_another_shape_is_refused_as_a_start():
    base = TorchLearner(MLP((8,))).fit(people(), effort=1, rng=rng())
    with pytest.raises(ParameterError, match="another network: use the learner with the factory"):
        TorchLearner(MLP((9,))).fit(people(), effort=1, rng=rng(), start=base)


@pytest.mark.parametrize("network", [MLP(), dropping], ids=["plain", "dropout"])
def test_thread_setting_and_random_state_of_torch_are_left_alone(network, tmp_path):
    torch.manual_seed(3)
    before, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(3)
    learner = TorchLearner(network)
    learner.save(learner.fit(people(), effort=1, rng=rng()), tmp_path / "m")
    learner.load(tmp_path / "m")
    learner.fit_many([people()], effort=1, rngs=[rng()])
    assert torch.equal(torch.rand(1), before)
    assert torch.get_num_threads() == threads


def test_training_reaches_the_loss_of_a_plain_loop():
    """A slow, obvious loop with the same network, optimiser and schedule: equal loss within 5 %."""
    data = people(2000)
    model = TorchLearner(MLP((32, 32))).fit(data, effort=15, rng=rng())
    inputs, labels = torch.from_numpy(model.encoder(data.X)), torch.tensor(data.y)
    torch.manual_seed(0)
    network = MLP((32, 32))(inputs.shape[1], 2)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-2, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 15 * 8)
    for _ in range(15):
        for batch in torch.randperm(2000).split(256):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(inputs[batch]), labels[batch]).backward()
            optimiser.step()
            schedule.step()
    with torch.inference_mode():
        ours, plain = (float(nn.functional.cross_entropy(n(inputs), labels)) for n in (model.network, network))
    assert ours == pytest.approx(plain, rel=0.05, abs=0.01)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@needs_gpu
def test_dropout_on_a_gpu_is_repeatable_and_leaves_its_random_state_alone():
    data, state = people(90), torch.cuda.get_rng_state()
    learner = TorchLearner(dropping, device="cuda")
    once, again = (learner.fit(data, effort=2, rng=rng(4)).predict_proba(data.X) for _ in range(2))
    np.testing.assert_allclose(once, again, atol=1e-6)
    TorchLearner(dropping).fit(data, effort=1, rng=rng())
    assert torch.equal(torch.cuda.get_rng_state(), state)


@pytest.mark.gpu
@needs_gpu
def test_network_trains_on_a_gpu(tmp_path):
    learner = TorchLearner(device="cuda")
    model = learner.fit(people(1500, 1), effort=20, rng=rng())
    assert correct(model, people(500, 2)) > 0.85
    learner.save(model, tmp_path / "m")
    np.testing.assert_allclose(
        TorchLearner().load(tmp_path / "m").predict_proba(people().X), model.predict_proba(people().X), atol=1e-4
    )


def test_forest_grows_by_the_trees_it_was_asked_for():
    learner = SklearnLearner(RandomForestClassifier())
    base = learner.fit(people(), effort=5, rng=rng())
    assert len(learner.fit(people(seed=2), effort=3, rng=rng(), start=base).estimator.estimators_) == 8
    assert len(base.estimator.estimators_) == 5


@pytest.mark.parametrize("estimator", [HistGradientBoostingClassifier(), GradientBoostingClassifier()], ids=str)
def test_boosting_goes_on_by_the_iterations_it_was_asked_for(estimator):
    learner = SklearnLearner(estimator)
    base = learner.fit(people(), effort=20, rng=rng())
    further = learner.fit(people(seed=2), effort=5, rng=rng(), start=base)
    trees = [len(getattr(m.estimator, "_predictors", getattr(m.estimator, "estimators_", ()))) for m in (base, further)]
    assert trees == [20, 25]


@pytest.mark.parametrize("effort", [1, 3])
def test_estimator_that_cannot_take_negative_inputs_is_named_with_the_remedy(effort):
    with pytest.raises(
        DataError, match=r"MultinomialNB cannot be fitted .*Negative values.*use settings or an estimat"
    ):
        SklearnLearner(MultinomialNB()).fit(people(), effort=effort, rng=rng())


def test_estimator_that_was_passed_in_stays_unfitted():
    estimator = LogisticRegression()
    SklearnLearner(estimator).fit(people(), effort=2, rng=rng())
    assert not hasattr(estimator, "coef_")


def test_estimator_without_probabilities_is_refused():
    from sklearn.svm import LinearSVC

    with pytest.raises(ParameterError, match="with predict_proba"):
        SklearnLearner(LinearSVC())


def test_abilities_are_read_off_the_estimator():
    assert SklearnLearner().warm_starts
    assert SklearnLearner(RandomForestClassifier()).warm_starts
    assert not SklearnLearner(KNeighborsClassifier()).warm_starts


def test_class_that_is_not_left_is_named_where_an_estimator_needs_it():
    data = people()
    with pytest.raises(DataError, match=r"1 of 2 classes occur in .* LogisticRegression needs them all: keep more"):
        SklearnLearner(LogisticRegression()).fit(data.select(data.y == 0), effort=1, rng=rng())


@pytest.mark.parametrize("learner", [TorchLearner(), XGBoostLearner(threads=1), SklearnLearner()])
def test_boosting_networks_and_partial_fit_manage_with_one_class_left(learner):
    data = people()
    model = learner.fit(data.select(data.y == 0), effort=2, rng=rng())
    assert (model.predict_proba(data.X)[:, 0] > 0.5).mean() > 0.9


CALIBRATED = ("sklearn.calibration._CalibratedClassifier", "sklearn.calibration._SigmoidCalibration")


def test_untrusted_type_in_a_model_file_is_refused_with_the_remedy(tmp_path):
    calibrated = SklearnLearner(CalibratedClassifierCV(LogisticRegression()), trusted=CALIBRATED)
    calibrated.save(calibrated.fit(people(), effort=2, rng=rng()), tmp_path / "m")
    calibrated.load(tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"(?s)_CalibratedClassifier.*SklearnLearner\(trusted="):
        SklearnLearner().load(tmp_path / "m")


def test_estimator_whose_models_could_not_be_loaded_is_refused_when_the_learner_is_built():
    with pytest.raises(ParameterError, match=r"CalibratedClassifierCV holds .*_SigmoidCalibration.*trusted=\("):
        SklearnLearner(CalibratedClassifierCV(LogisticRegression()), trusted=CALIBRATED[:1])


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(),
        HistGradientBoostingClassifier(),
        KNeighborsClassifier(),
        KNeighborsClassifier(algorithm="ball_tree"),
        MLPClassifier((4,)),
    ],
    ids=str,
)
def test_common_estimators_are_saved_and_loaded_without_naming_their_types(estimator, tmp_path):
    data, learner = people(), SklearnLearner(estimator)
    model = learner.fit(data, effort=2, rng=rng())
    learner.save(model, tmp_path / "m")
    np.testing.assert_array_equal(learner.load(tmp_path / "m").predict_proba(data.X), model.predict_proba(data.X))


def saved(learner, path):
    learner.save(learner.fit(people(), effort=2, rng=rng()), path)
    line, payload = path.read_bytes().split(b"\n", 1)
    return json.loads(line), payload


def rewrite(path, about, payload):
    """Write a file whose digest is right, whatever it says."""
    path.write_bytes(json.dumps(about | {"sha256": _digest(about, payload)}).encode() + b"\n" + payload)


def test_file_of_another_learner_and_a_flipped_byte_are_named(tmp_path):
    path = tmp_path / "m"
    learner = XGBoostLearner(threads=1)
    saved(learner, path)
    with pytest.raises(ModelFileError, match="'eupg-xgboost-1', expected 'eupg-torch-1'"):
        TorchLearner().load(path)
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is damaged"):
        learner.load(path)


@pytest.mark.parametrize("learner", [TorchLearner(), SklearnLearner()])
def test_scale_changed_in_the_description_is_refused(learner, tmp_path):
    about, payload = saved(learner, tmp_path / "m")
    about["encoder"]["centre"][0] += 1.0
    (tmp_path / "m").write_bytes(json.dumps(about).encode() + b"\n" + payload)
    with pytest.raises(ModelFileError, match="is damaged: its content does not match its digest"):
        learner.load(tmp_path / "m")


def test_digest_does_not_depend_on_how_the_description_is_spelled(tmp_path):
    about, payload = saved(SklearnLearner(), tmp_path / "m")
    line = json.dumps(dict(reversed(about.items())), separators=(" , ", " : "))
    (tmp_path / "m").write_bytes(line.encode() + b"\n" + payload)
    SklearnLearner().load(tmp_path / "m")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("schema", None),
        ("schema", 3),
        ("schema", "attributes = 3"),
        ("effort", None),
        ("effort", "many"),
        ("encoder", None),
        ("encoder", [1.0]),
        ("encoder", {"centre": [0.0], "spread": [1.0], "pinned": False}),
        ("encoder", {"centre": ["x"] * 6, "spread": [1.0] * 6, "pinned": False}),
    ],
)
def test_description_without_a_readable_part_is_refused(word, value, tmp_path):
    path = tmp_path / "m"
    about, payload = saved(SklearnLearner(), path)
    for changed in (about | {word: value}, {w: v for w, v in about.items() if w != word}):
        rewrite(path, changed, payload)
        with pytest.raises(ModelFileError, match=f"does not describe its {word} in .*: save the model again"):
            SklearnLearner().load(path)


@pytest.mark.parametrize("learner", ALL, ids=lambda learner: type(learner).__name__)
def test_models_are_saved_and_loaded_under_a_path_in_text(learner, tmp_path):
    model = learner.fit(people(), effort=1, rng=rng())
    learner.save(model, str(tmp_path / "m"))
    again = learner.load(str(tmp_path / "m"))
    np.testing.assert_array_equal(again.predict_proba(people().X), model.predict_proba(people().X))


def test_network_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "m"
    TorchLearner(MLP((8,))).save(TorchLearner(MLP((8,))).fit(people(), effort=1, rng=rng()), path)
    with pytest.raises(ModelFileError, match="holds another network"):
        TorchLearner(MLP((9,))).load(path)


def test_model_of_another_learner_is_refused_as_a_start():
    model = SklearnLearner().fit(people(), effort=1, rng=rng())
    for learner in (TorchLearner(), XGBoostLearner(threads=1), LightGBMLearner(threads=1)):
        with pytest.raises(ParameterError, match="use one learner throughout"):
            learner.fit(people(), effort=1, rng=rng(), start=model)


def under(schema: Schema, rows: int = 60):
    """Return examples without a row of meaning under another schema."""
    data = people(rows)
    X = np.zeros((rows, len(schema.features)))
    return dataclasses.replace(data, schema=schema, X=X, y=np.arange(rows) % schema.classes)


def changed(name, **values):
    return Schema(tuple(dataclasses.replace(a, **values) if a.name == name else a for a in SCHEMA.attributes))


@pytest.mark.parametrize("learner", ALL, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize(
    ("schema", "difference"),
    [
        (Schema(SCHEMA.attributes[:2] + SCHEMA.attributes[3:]), "feature 2 is 'income' in the model and 'health' in"),
        (
            Schema((*SCHEMA.attributes, Numeric(name="more", lower=0, upper=1))),
            "feature 7 is nothing in the model and 'more' in the examples",
        ),
        (
            Schema((*SCHEMA.attributes[:3], Ordinal(name="health", categories=("1", "2")), *SCHEMA.attributes[4:])),
            "categories of 'health': ('poor', 'fair', 'good') in the model and ('1', '2') in",
        ),
        (
            Schema((*SCHEMA.attributes[:3], Numeric(name="health", lower=0, upper=2), *SCHEMA.attributes[4:])),
            "kind of 'health': ordinal in the model and numeric in the examples",
        ),
        (changed("age", missing=Missing.KEEP), "missing values of 'age': not kept in the model and kept in"),
        (changed("ill", categories=("a", "b", "c")), "classes ('no', 'yes') in the model and ('a', 'b', 'c') in"),
    ],
    ids=["fewer", "more", "categories", "kind", "missing", "classes"],
)
def test_start_from_another_table_is_refused_with_the_difference(learner, schema, difference):
    base = learner.fit(people(60), effort=1, rng=rng())
    with pytest.raises(ParameterError, match=re.escape(difference)):
        learner.fit(under(schema), effort=1, rng=rng(), start=base)


def test_the_digest_of_a_model_file_is_no_test_of_a_guess_at_the_records(tmp_path):
    """A deleted model's digest stays in the ledger; who trains again on the right guess must not get it again."""
    for learner in ALL:
        for name in ("deleted", "guess"):
            learner.save(learner.fit(people(), effort=1, rng=rng()), tmp_path / name)
        assert (tmp_path / "deleted").read_bytes() != (tmp_path / "guess").read_bytes()


def test_model_files_are_neither_pickles_nor_hold_row_values(tmp_path):
    for learner in ALL:
        path = tmp_path / type(learner).__name__
        learner.save(learner.fit(people(), effort=1, rng=rng()), path)
        about = json.loads(path.read_bytes().split(b"\n", 1)[0])
        assert {"format", "schema", "sha256"} <= set(about)
        assert b"\x80\x04\x95" not in path.read_bytes()[:4096]


@pytest.mark.parametrize(
    ("learner", "setting", "value"),
    [
        (TorchLearner, "learning_rate", 0),
        (TorchLearner, "learning_rate", math.nan),
        (TorchLearner, "learning_rate", math.inf),
        (TorchLearner, "learning_rate", "0.1"),
        (TorchLearner, "weight_decay", -1.0),
        (TorchLearner, "weight_decay", math.nan),
        (TorchLearner, "batch_size", 0),
        (TorchLearner, "batch_size", 2.5),
        (XGBoostLearner, "max_depth", 0),
        (XGBoostLearner, "learning_rate", math.nan),
        (XGBoostLearner, "reg_lambda", math.nan),
        (XGBoostLearner, "threads", -1),
        (LightGBMLearner, "leaves", 1),
        (LightGBMLearner, "least_records", math.nan),
        (LightGBMLearner, "learning_rate", math.nan),
        (LightGBMLearner, "reg_lambda", math.nan),
    ],
)
def test_meaningless_settings_are_refused_when_built(learner, setting, value):
    with pytest.raises(ParameterError, match=f"{setting} must be a .*number .*, got {value!r}"):
        learner(**{setting: value})


class Net(nn.Module):
    """A network as people write it."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.layer(x)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (
            Net(8, 2),
            r"got an instance of Net: each training starts with a new network, so pass .*TorchLearner\(Net\)",
        ),
        ("mlp", "a callable from .inputs, classes. to an nn.Module, got 'mlp': pass a class or a function"),
        (lambda: Net(8, 2), "must take two arguments, the numbers of inputs and of classes"),
    ],
    ids=["instance", "text", "no arguments"],
)
def test_a_network_that_cannot_be_built_anew_is_refused_at_once(network, message):
    with pytest.raises(ParameterError, match=message):
        TorchLearner(network)


def test_a_factory_that_builds_no_network_is_refused_in_words():
    with pytest.raises(ParameterError, match=r"must build a torch.nn.Module, and .* returned NoneType"):
        TorchLearner(lambda inputs, classes: None).fit(people(60), effort=1, rng=rng())


def test_a_class_of_ones_own_is_a_factory():
    assert TorchLearner(Net).fit(people(60), effort=1, rng=rng()).predict_proba(people(3).X).shape == (3, 2)
