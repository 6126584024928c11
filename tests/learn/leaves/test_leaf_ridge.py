"""Fine-tuning the leaves of a base model: which leaves are used, what their values are, and the file."""

import json
from dataclasses import replace

import numpy as np
import pytest

from eupg.data.score import auc
from eupg.errors import ModelFileError, NothingRetained, ParameterError
from eupg.learn import LightGBMLearner, SklearnLearner, XGBoostLearner
from eupg.learn.learner import Learner, Model, Summing, TreeModel
from eupg.learn.leaves.leaf_ridge import LeafRidge, LeafRidgeModel
from eupg.learn.leaves.learner import LeafLearner, LeafModel
from eupg.learn.leaves.public_cells import MOST_CELLS, public_cells
from eupg.learn.leaves.statistics import RidgeStatistics
from people import SCHEMA, learnable, people

XGBOOST, LIGHTGBM = XGBoostLearner(max_depth=3, threads=1), LightGBMLearner(threads=1, leaves=7, least_records=5)
LEARNERS = pytest.mark.parametrize("learner", [XGBOOST, LIGHTGBM], ids=["xgboost", "lightgbm"])
CLASSES = pytest.mark.parametrize("classes", [2, 3])


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


def base_of(learner: Learner, classes: int = 2, trees: int = 6) -> TreeModel:
    model = learner.fit(people(300, seed=5, classes=classes), effort=trees, rng=rng())
    assert isinstance(model, TreeModel)
    return model


def leaf_model() -> LeafModel:
    cells = public_cells(SCHEMA, most=300)
    return LeafModel(cells, np.zeros((cells.count, 1)), SCHEMA, 1)


class TestLeaves:
    @LEARNERS
    @CLASSES
    def test_a_tree_gives_equal_scores_to_the_records_of_one_leaf(self, learner, classes):
        """The margins of the first round are those of its leaves: one number per leaf."""
        base, data = base_of(learner, classes), people(400, seed=8, classes=classes)
        trees = 1 if classes == 2 else classes
        first = learner.first(base, 1)
        leaves, outputs = base.leaves(data.X, trees=trees), first.predict_proba(data.X)
        places = np.unique(leaves, axis=0, return_inverse=True)[1].ravel()
        for place in range(places.max() + 1):
            assert len(np.unique(outputs[places == place].round(6), axis=0)) == 1
        assert len(np.unique(outputs.round(6), axis=0)) > 2

    @LEARNERS
    @CLASSES
    def test_leaves_are_numbered_from_zero_to_their_count(self, learner, classes):
        base, data = base_of(learner, classes), people(2000, seed=8, classes=classes)
        assert len(base.leaf_counts) == 6 * (1 if classes == 2 else classes)
        leaves = base.leaves(data.X, trees=len(base.leaf_counts))
        assert leaves.min() == 0
        assert (leaves.max(axis=0) < base.leaf_counts).all()
        assert np.mean(leaves.max(axis=0) + 1 == base.leaf_counts) > 0.5

    @LEARNERS
    def test_the_first_trees_are_the_same_however_many_are_asked_for(self, learner):
        base, data = base_of(learner, 3), people(50, classes=3)
        whole = base.leaves(data.X, trees=18)
        for trees in (0, 1, 4, 17):
            np.testing.assert_array_equal(base.leaves(data.X, trees=trees), whole[:, :trees])
        assert base.leaves(data.X[:0], trees=4).shape == (0, 4)

    def test_an_ensemble_that_went_on_has_the_leaves_of_all_its_trees(self):
        base, data = base_of(XGBOOST), people(200, seed=3)
        later = XGBOOST.fit(data, effort=3, rng=rng(), start=base)
        assert later.leaf_counts[:6] == base.leaf_counts
        assert len(later.leaf_counts) == 9
        np.testing.assert_array_equal(later.leaves(data.X, trees=8)[:, :6], base.leaves(data.X, trees=6))

    def test_a_model_of_leaves_gives_those_of_its_trees(self):
        model, data = leaf_model(), people(100)
        leaves = model.leaves(data.X, trees=3)
        trees = [group for group in model.cells.groups if hasattr(group, "questions")][1:4]
        np.testing.assert_array_equal(leaves, np.column_stack([tree.codes(data.X) for tree in trees]))
        assert set(model.leaf_counts) == {16}


class TestFitting:
    @LEARNERS
    @CLASSES
    def test_the_base_is_left_alone_and_the_model_fits_better(self, learner, classes):
        base, data = base_of(learner, classes, trees=2), people(900, seed=2, classes=classes)
        before = base.predict_proba(data.X)
        model = LeafRidge(learner).fit(data, effort=1, rng=rng(), start=base)
        np.testing.assert_array_equal(base.predict_proba(data.X), before)
        own = np.arange(len(data)), data.y
        after = model.predict_proba(data.X)
        assert after.sum(axis=1) == pytest.approx(1)
        assert np.log(after[own]).mean() > np.log(before[own]).mean()
        assert model.effort == 3

    @LEARNERS
    def test_going_on_from_sums_is_fitting(self, learner):
        base, data, ridge = base_of(learner), people(300), LeafRidge(learner)
        assert isinstance(ridge, Summing)
        whole = ridge.fit(data, effort=1, rng=rng(), start=base)
        halves = [ridge.sums(data.select(np.arange(300) % 2 == half), start=base) for half in (0, 1)]
        summed = ridge.fit_sums(halves[0].plus(halves[1]), effort=1, start=base)
        assert summed.scores.tobytes() == whole.scores.tobytes()

    def test_a_leaf_has_the_score_that_the_records_in_it_ask_for(self):
        """Without a penalty on leaves and with a large one on public cells, each leaf has its own mean label."""
        data, learner = people(500), XGBoostLearner(max_depth=2, threads=1)
        base = learner.fit(people(300, seed=5), effort=1, rng=rng())
        ridge = LeafRidge(learner, penalty=1e12, leaf_penalty=1e-9)
        model = ridge.fit(data, effort=1, rng=rng(), start=base)
        leaves = base.leaves(data.X, trees=1)[:, 0]
        for leaf in np.unique(leaves):
            mean = (2 * data.y[leaves == leaf] - 1).mean()
            assert model.margins(data.X[leaves == leaf]) == pytest.approx(3 * mean, abs=1e-3)

    def test_trees_are_used_as_long_as_their_leaves_are_few(self):
        learner = XGBoostLearner(max_depth=6, threads=1, reg_lambda=0.0)
        base = learner.fit(people(3000, seed=5), effort=60, rng=rng())
        cells = LeafRidge(learner).fit(people(60), effort=1, rng=rng(), start=base).cells
        assert 0 < cells.trees < 60
        assert sum(base.leaf_counts[: cells.trees]) <= 300 < sum(base.leaf_counts[: cells.trees + 1])
        assert cells.count <= MOST_CELLS

    def test_it_learns_from_the_records(self):
        data, others = learnable()
        base = XGBOOST.fit(people(300, seed=5), effort=5, rng=rng())
        model = LeafRidge(XGBOOST).fit(data, effort=1, rng=rng(), start=base)
        assert auc(model.predict_proba(others.X), others.y) > 95 > auc(base.predict_proba(others.X), others.y)

    def test_leaves_of_a_private_model_can_be_used(self):
        data = people(300)
        model = LeafRidge(LeafLearner()).fit(data, effort=1, rng=rng(), start=leaf_model())
        assert model.cells.trees == len(leaf_model().leaf_counts) > 1


class TestRefusals:
    def test_without_a_base(self):
        with pytest.raises(ParameterError, match="pass it as start"):
            LeafRidge(XGBOOST).fit(people(60), effort=1, rng=rng())

    def test_a_base_without_leaves(self):
        base = SklearnLearner().fit(people(60), effort=1, rng=rng())
        with pytest.raises(ParameterError, match="expected a base model made of trees"):
            LeafRidge(SklearnLearner()).fit(people(60), effort=1, rng=rng(), start=base)

    def test_a_base_of_another_table(self):
        with pytest.raises(ParameterError, match="was fitted to another table"):
            LeafRidge(XGBOOST).fit(people(60, classes=3), effort=1, rng=rng(), start=base_of(XGBOOST))

    def test_trees_with_too_many_leaves(self, monkeypatch):
        monkeypatch.setattr("eupg.learn.leaves.leaf_ridge._MOST_LEAVES", 3)
        with pytest.raises(ParameterError, match="pretrain a base model of smaller trees"):
            LeafRidge(XGBOOST).fit(people(60), effort=1, rng=rng(), start=base_of(XGBOOST))

    def test_nobody_and_no_effort(self):
        nobody = people(60).select(np.zeros(60, dtype=bool))
        with pytest.raises(NothingRetained):
            LeafRidge(XGBOOST).fit(nobody, effort=1, rng=rng(), start=base_of(XGBOOST))
        with pytest.raises(ParameterError, match="effort"):
            LeafRidge(XGBOOST).fit(people(60), effort=0, rng=rng(), start=base_of(XGBOOST))

    @pytest.mark.parametrize("wrong", [{"penalty": 0}, {"leaf_penalty": -1}, {"base": "xgboost"}], ids=str)
    def test_settings_that_mean_nothing(self, wrong):
        with pytest.raises(ParameterError):
            LeafRidge(**({"base": XGBOOST} | wrong))


class TestFiles:
    @LEARNERS
    @CLASSES
    def test_a_loaded_model_says_the_same(self, learner, classes, tmp_path):
        data, ridge = people(200, classes=classes), LeafRidge(learner)
        model = ridge.fit(data, effort=1, rng=rng(), start=base_of(learner, classes))
        ridge.save(model, tmp_path / "model")
        again = ridge.load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict_proba(data.X), model.predict_proba(data.X))
        np.testing.assert_array_equal(again.margins(data.X), model.margins(data.X))
        assert (again.effort, again.schema, again.cells.trees) == (model.effort, model.schema, model.cells.trees)

    @pytest.mark.parametrize(
        "change", [{"trees": 0}, {"trees": 99}, {"trees": "2"}, {"trees": 2}, {"public": []}, {"sizes": None}], ids=str
    )
    def test_a_file_that_describes_something_else_is_refused(self, change, tmp_path, monkeypatch):
        path = self._saved(tmp_path)
        monkeypatch.setattr("eupg.learn.envelope._digest", lambda about, payload: about.get("sha256"))
        line, payload = path.read_bytes().split(b"\n", 1)
        path.write_bytes(json.dumps(json.loads(line) | change).encode() + b"\n" + payload)
        with pytest.raises(ModelFileError):
            LeafRidge(XGBOOST).load(path)

    def test_damage_is_recognised(self, tmp_path):
        path = self._saved(tmp_path)
        content = path.read_bytes()
        for damaged in (content[:-8], content[: len(content) // 2], b"\x80\x04" + content, b""):
            path.write_bytes(damaged)
            with pytest.raises(ModelFileError):
                LeafRidge(XGBOOST).load(path)

    def test_scores_that_are_not_numbers_are_refused(self, tmp_path):
        ridge = LeafRidge(XGBOOST)
        model = ridge.fit(people(60), effort=1, rng=rng(), start=base_of(XGBOOST))
        ridge.save(replace(model, scores=np.full_like(model.scores, np.nan)), tmp_path / "model")
        with pytest.raises(ModelFileError, match="not finite"):
            ridge.load(tmp_path / "model")

    def test_no_count_of_records_is_in_the_file(self, tmp_path):
        """Statistics stay with the owner: the file has the base model and one score per cell."""
        path = self._saved(tmp_path)
        about = json.loads(path.read_bytes().split(b"\n", 1)[0])
        assert set(about) == {"format", "schema", "salt", "effort", "sizes", "public", "trees", "sha256"}
        assert about["sizes"][1] == 8 * LeafRidge(XGBOOST).load(path).cells.count

    def _saved(self, folder):
        ridge = LeafRidge(XGBOOST)
        ridge.save(ridge.fit(people(60), effort=1, rng=rng(), start=base_of(XGBOOST)), folder / "model")
        return folder / "model"


def test_sums_are_whole_numbers_and_the_model_is_one():
    ridge, base = LeafRidge(XGBOOST), base_of(XGBOOST)
    sums = ridge.sums(people(60), start=base)
    assert isinstance(sums, RidgeStatistics)
    assert sums.count == 60
    model: Model = ridge.fit_sums(sums, effort=1, start=base)
    assert isinstance(model, LeafRidgeModel)
