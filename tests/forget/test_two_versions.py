"""Two files of a model, from before and after a forget: nothing in them gives the record away by counting.

Means and counts of all records less those of the retained records are the forgotten record. Here both files are read
without the library's own loaders, and the subtraction is tried on every number that is there.
"""

import json
from types import SimpleNamespace

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

from eupg import EUPG, SISA, Retrain, Seeded
from eupg.forget import CertifiedSP
from eupg.learn import MLP, LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.noisy_finetuning import GradientClipping
from eupg.protect import DPSynthesis, LocalDP, ProbabilisticKAnonymity
from people import SCHEMA, people

ROWS, GONE = 200, 5
NUMBERS = [0, 1, 2, 5]
NETWORK = TorchLearner(MLP((8,)), batch_size=32)
NOISE = GradientClipping(start=1.0, gradient=0.1, decay=0.5, step_size=0.1, steps=3)
SCALED = {
    f"{name}-{kind}": method
    for kind, learner in (("sklearn", SklearnLearner()), ("torch", NETWORK))
    for name, method in {
        "local DP": EUPG(LocalDP(1.0), learner, pretrain=2, finetune=1),
        "synthesis": EUPG(DPSynthesis(1.0), learner, pretrain=2, finetune=1),
        "k-anonymity": EUPG(ProbabilisticKAnonymity(10), learner, pretrain=2, finetune=1),
        "retrain": Retrain(learner, effort=2),
        "SISA": SISA(learner, effort=2, shards=1, slices=2, jobs=1),
    }.items()
}
SCALED["Certified-SP-torch"] = CertifiedSP(NETWORK, effort=2, finetune=2, noise=NOISE)


@pytest.fixture(autouse=True)
def _no_salt(monkeypatch):
    monkeypatch.setattr("eupg.learn.envelope.secrets", SimpleNamespace(token_hex=lambda size: "00" * size))


def read(path):
    """Return the description of a model file, without what follows from all of it, and the framework's bytes."""
    line, payload = path.read_bytes().split(b"\n", maxsplit=1)
    about = json.loads(line)
    return {word: value for word, value in about.items() if word not in ("sha256", "schema", "sizes")}, payload


def served(method, model, path):
    parts = getattr(model, "models", (model,))
    for number, part in enumerate(parts):
        method.learner.save(part, path.with_suffix(f".{number}"))
    return [read(path.with_suffix(f".{number}")) for number in range(len(parts))]


def versions(method, tmp_path):
    """Return the served model's files before and after record 5 is forgotten, and the record."""
    data = people(ROWS)
    trained = method.train(data, Seeded(1))
    before = served(method, trained.model, tmp_path / "before")
    after = method.forget(trained, data.without([f"r{GONE}"]), Seeded(1))
    return before, served(method, after.model, tmp_path / "after"), data.X[GONE]


def numbers(value, at=()):
    """Yield every number of a JSON value with its place."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in items:
            yield from numbers(one, (*at, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at, float(value)


def recovered(before, after, record, rows=ROWS):
    """Return the numeric values of the record that one subtraction of two changed numbers gives."""
    then = dict(numbers(after))
    found = [rows * value - (rows - 1) * then[at] for at, value in numbers(before) if then.get(at, value) != value]
    return [j for j in NUMBERS if np.isclose(found, record[j], rtol=1e-9, atol=1e-6).any()]


def test_the_subtraction_is_an_attack():
    data = people(ROWS)
    means = [np.nanmean(d.X[:, :3], axis=0).tolist() for d in (data, data.without([f"r{GONE}"]))]
    assert recovered({"centre": means[0]}, {"centre": means[1]}, data.X[GONE]) == [0, 1, 2]


@pytest.mark.parametrize("method", SCALED.values(), ids=SCALED.keys())
def test_descriptions_of_two_versions_say_the_same(method, tmp_path):
    before, after, record = versions(method, tmp_path)
    for (old, _), (new, _) in zip(before, after, strict=True):
        assert recovered(old, new, record) == []
        # Certified-SP counts the effort of the last training alone.
        assert old | {"effort": 0} == new | {"effort": 0}


@pytest.mark.parametrize("learner", [SklearnLearner(), NETWORK], ids=["sklearn", "torch"])
def test_second_release_does_not_give_away_who_left_before_it(learner, tmp_path):
    """Permuted columns have the sums of the records: the bases of two releases must not hold them."""
    data, method = people(ROWS), EUPG(ProbabilisticKAnonymity(10), learner, pretrain=2, finetune=0)
    tables = (data, data.without([f"r{GONE}"]))
    files = [
        served(method, method.base(table, Seeded(seed)).model, tmp_path / str(seed))[0][0]
        for seed, table in enumerate(tables)
    ]
    assert recovered(*files, data.X[GONE]) == []
    centres = [np.array(file["encoder"]["centre"]) for file in files]
    rebuilt = ROWS * centres[0] - (ROWS - 1) * centres[1]
    # Nor does a difference come near it: it is the scale itself, or off by as many steps as there are records.
    away = np.abs(rebuilt - data.X[GONE])[NUMBERS]
    step = np.array(files[0]["encoder"]["spread"])[NUMBERS] / 2
    assert (centres[0] == centres[1]).all() or (away > step).any()


TREES = [
    (method, learner)
    for learner in (
        LightGBMLearner(threads=1),
        XGBoostLearner(threads=1),
        XGBoostLearner(threads=1, refresh_leaves=True),
    )
    for method in (
        EUPG(LocalDP(1.0), learner, pretrain=2, finetune=2),
        EUPG(ProbabilisticKAnonymity(10), learner, pretrain=2, finetune=2),
        Retrain(learner, effort=3),
    )
]
# What LightGBM needs to predict, in the head of its text and in a tree's.
HEAD = {
    *("tree", "version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective"),
    *("feature_names", "feature_infos", "tree_sizes"),
}
TREE = {
    *("Tree", "num_leaves", "num_cat", "split_feature", "threshold", "decision_type", "left_child", "right_child"),
    *("leaf_value", "cat_boundaries", "cat_threshold", "is_linear", "shrinkage"),
}


@pytest.mark.parametrize("method", [m for m, learner in TREES if isinstance(learner, LightGBMLearner)])
def test_lightgbm_files_hold_nothing_but_what_they_predict_with(method, tmp_path):
    for (_, payload), *_ in versions(method, tmp_path)[:2]:
        text = payload.decode()
        words = {line.split("=")[0] for line in text.splitlines() if line}
        assert words - HEAD - TREE == {"end of trees"}
        (ranges,) = (line for line in text.splitlines() if line.startswith("feature_infos="))
        assert set(ranges.removeprefix("feature_infos=").split(" ")) == {"none"}


@pytest.mark.parametrize("method", [m for m, learner in TREES if isinstance(learner, XGBoostLearner)])
def test_xgboost_files_hold_nothing_but_what_they_predict_with(method, tmp_path):
    for (_, payload), *_ in versions(method, tmp_path)[:2]:
        trees = 0
        for booster in boosters(payload):
            learner = json.loads(booster.save_raw("json"))["learner"]
            guess = float(learner["learner_model_param"]["base_score"].strip("[]"))
            assert 2 * np.log(guess / (1 - guess)) == pytest.approx(0, abs=1e-5)
            for tree in learner["gradient_booster"]["model"]["trees"]:
                trees += 1
                for word in ("base_weights", "loss_changes", "sum_hessian"):
                    assert not np.any(tree[word]), word
        assert trees >= 3


def boosters(payload: bytes):
    """Read ensembles that lie one behind the other; each begins as all of them do."""
    begin = payload[:24]
    places = [at for at in range(len(payload)) if payload.startswith(begin, at)]
    for at, end in zip(places, [*places[1:], len(payload)], strict=True):
        yield xgb.Booster(model_file=bytearray(payload[at:end]))


def test_frameworks_write_counts_of_their_own():
    """Were nothing taken away, one split would tell which side the forgotten record was on."""
    data = people(ROWS)
    rng = np.random.default_rng(0)
    text = LightGBMLearner(threads=1).fit(data, effort=1, rng=rng).booster.model_to_string()
    assert f"internal_count={ROWS} " in text
    tree = XGBoostLearner(threads=1).fit(data, effort=1, rng=rng).boosters[0].save_raw("json")
    hessians = json.loads(tree)["learner"]["gradient_booster"]["model"]["trees"][0]["sum_hessian"]
    assert hessians[0] == ROWS / 4


@pytest.mark.parametrize("classes", [2, 3])
def test_xgboost_begins_at_a_coarse_share_of_classes(classes):
    """The first guess of all records less that of the retained ones would be the label of the forgotten one."""
    data = people(ROWS, classes=classes)
    data = data.select((data.y == 0) | (np.arange(ROWS) % 3 == 0))
    guesses = []
    for table in (data, data.without([data.ids[0]])):
        model = XGBoostLearner(threads=1).fit(table, effort=1, rng=np.random.default_rng(0))
        guess = json.loads(model.boosters[0].save_raw("json"))["learner"]["learner_model_param"]["base_score"]
        guesses.append([float(share) for share in guess.strip("[]").split(",")])
    assert guesses[0] == guesses[1]
    if classes == 2:
        share = data.y.mean()
        assert guesses[0][0] != pytest.approx(share, rel=1e-4)
        odds = [np.log(p / (1 - p)) for p in (guesses[0][0], share)]
        assert odds[0] == pytest.approx(odds[1], abs=0.26)


@pytest.mark.parametrize("classes", [2, 3])
def test_lightgbm_begins_at_a_coarse_share_of_classes(classes, tmp_path):
    """Where nothing can be split a model is its first guess alone: it must be the same with one record less."""
    data, learner = people(ROWS, classes=classes), LightGBMLearner(threads=1)
    data = data.select((data.y == 0) | (np.arange(ROWS) % 3 == 0))
    alike = [SimpleNamespace(schema=d.schema, X=np.zeros_like(d.X), y=d.y) for d in (data, data.without([data.ids[0]]))]
    said = []
    for number, table in enumerate(alike):
        learner.save(learner.fit(table, effort=1, rng=np.random.default_rng(0)), tmp_path / str(number))
        said.append(learner.load(tmp_path / str(number)).predict_proba(np.zeros((1, 6)))[0])
    np.testing.assert_array_equal(said[0], said[1])
    shares = np.bincount(data.y) / len(data)
    assert (said[0] != shares).all()
    odds = np.log(said[0] / said[0][0]) - np.log(shares / shares[0])
    assert (np.abs(odds) < 0.51).all()


def test_lightgbm_learns_from_examples_that_say_little():
    """From a guess far off the first tree would split nothing, and training would stop there."""
    data = people(2000)
    rng = np.random.default_rng(0)
    noise = SimpleNamespace(schema=data.schema, X=rng.permutation(data.X), y=(rng.random(2000) < 0.05).astype(int))
    model = LightGBMLearner(threads=1).fit(noise, effort=5, rng=rng)
    assert model.booster.num_trees() == 5
    assert model.predict_proba(data.X)[:, 1].mean() == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "learner",
    [
        LightGBMLearner(threads=1, least_records=5),
        XGBoostLearner(threads=1),
        XGBoostLearner(threads=1, refresh_leaves=True),
    ],
    ids=["lightgbm", "xgboost", "xgboost-refresh"],
)
def test_predictions_and_further_training_need_nothing_that_was_taken_away(learner, classes, tmp_path):
    data, asked = people(300, classes=classes), people(500, 8).X
    rng = np.random.default_rng
    first = learner.fit(data, effort=4, rng=rng(0))
    served = learner.fit(people(300, 2, classes=classes), effort=3, rng=rng(1), start=first)
    for model in (first, served):
        learner.save(model, tmp_path / "model")
        again = learner.load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict_proba(asked), model.predict_proba(asked))
        further = [learner.fit(people(300, 4, classes=classes), effort=3, rng=rng(2), start=m) for m in (model, again)]
        np.testing.assert_array_equal(further[0].predict_proba(asked), further[1].predict_proba(asked))
        if isinstance(learner, LightGBMLearner):
            # The framework alone reads the file as it is, and says the same.
            alone = lgb.Booster(model_str=read(tmp_path / "model")[1].decode()).predict(asked)
            np.testing.assert_array_equal(alone, model.booster.predict(asked))


def test_xgboost_layout_that_is_not_known_is_refused(monkeypatch, tmp_path):
    from eupg.errors import ModelFileError

    learner = XGBoostLearner(threads=1)
    model = learner.fit(people(100), effort=2, rng=np.random.default_rng(0))
    monkeypatch.setattr("eupg.learn.xgboost._STATISTICS", (b"sum_hessian", b"node_counts"))
    with pytest.raises(ModelFileError, match=r"'node_counts' of 2 trees.*install a version"):
        learner.save(model, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_schema_of_the_numbers_is_the_one_attacked():
    assert [SCHEMA.features[j].name for j in NUMBERS] == ["age", "income", "health", "score"]
