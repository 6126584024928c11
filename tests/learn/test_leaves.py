"""Models of leaves: their cells, and their files."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from eupg.data.attribute import Categorical, Missing, Numeric, Role
from eupg.data.schema import Schema
from eupg.errors import DataError, ModelFileError, ParameterError
from eupg.learn import LeafLearner, SklearnLearner
from eupg.learn.leaves.cells import Grid, LeafCells, Question, Tree
from eupg.learn.leaves.grids import consistent, histogram_grids, private_cells, quantile_cuts
from eupg.learn.leaves.learner import LeafModel
from people import SCHEMA, people

LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
FEATURES = Schema(SCHEMA.attributes[1:])


def even(schema: Schema) -> dict[int, np.ndarray]:
    return {column: np.ones(grid.size) / grid.size for column, grid in histogram_grids(schema).items()}


def model(classes: int = 2, seed: int = 1) -> LeafModel:
    schema = Schema(people(9, classes=classes).schema.attributes[1:])
    cells = private_cells(schema, even(schema))[0]
    scores = np.random.default_rng(seed).normal(size=(cells.count, 1 if classes == 2 else classes))
    return LeafModel(cells, scores, schema, 3)


class TestCells:
    def test_every_record_lies_in_one_cell_of_each_group(self):
        X = people(200).X
        cells = private_cells(FEATURES, even(FEATURES))[0]
        codes = cells.codes(X)
        assert ((codes >= cells.offsets) & (codes < cells.offsets + cells.sizes)).all()

    def test_a_value_on_an_edge_belongs_above_and_a_missing_one_apart(self):
        X = np.array([[1.0], [1.5], [9.0], [np.nan]])
        assert Grid(0, (1.5, 3.0)).codes(X).tolist() == [0, 1, 2, -1]
        assert Grid(0, (1.5, 3.0), missing=True).codes(X).tolist() == [0, 1, 2, 3]

    def test_a_tree_asks_every_question(self):
        X = np.array([[0.0, 5.0], [0.0, 4.0], [2.0, 5.0], [np.nan, np.nan]])
        tree = Tree((Question(0, categories=(0, 1)), Question(1, cut=5.0)))
        assert tree.codes(X).tolist() == [3, 2, 1, 0]
        assert Tree().codes(X).tolist() == [0] * 4

    def test_grids_follow_from_the_schema_alone(self):
        fine = histogram_grids(FEATURES)
        assert {FEATURES.features[c].name: g.size for c, g in fine.items()} == {"age": 101, "income": 611, "score": 21}
        first, second = (private_cells(FEATURES, even(FEATURES)) for _ in range(2))
        assert first[0] == second[0]

    def test_grids_cut_between_points_of_the_public_resolution(self):
        for grid in histogram_grids(FEATURES).values():
            attribute = FEATURES.features[grid.column]
            steps = (np.array(grid.edges) - attribute.lower) / attribute.resolution
            assert np.allclose(steps % 1, 0.5)

    @pytest.mark.parametrize(
        "features",
        [
            (Numeric(name="a", lower=3, upper=3),),
            (Numeric(name="a", lower=0, upper=0.3),),
            (Categorical(name="a", categories=("x",)),),
            (Numeric(name="a", lower=3, upper=3, missing=Missing.KEEP),),
            (Categorical(name="a", categories=("x",), missing=Missing.KEEP),),
            (Numeric(name="a", lower=-1e300, upper=1e300, resolution=1e285),),
        ],
        ids=lambda features: f"{features[0].kind} {features[0].missing} {features[0]!r:.0}",
    )
    def test_an_attribute_that_hardly_varies_has_no_useless_cells(self, features):
        schema = Schema((*features, LABEL))
        cells, weights = private_cells(schema, even(schema))
        assert len(weights) == len(cells.groups)
        assert all(group.size > 1 for group in cells.groups if group != Tree())

    def test_weights_are_those_of_the_recipe(self):
        cells, weights = private_cells(FEATURES, even(FEATURES))
        of: dict[str, list[Any]] = {a.name: [] for a in FEATURES.features} | {"all": [], "trees": []}
        for group, weight in zip(cells.groups, weights, strict=True):
            where = "all" if group == Tree() else "trees" if isinstance(group, Tree) else None
            of[where or FEATURES.features[group.column].name].append(weight**2)
        assert {name: round(sum(squares), 9) for name, squares in of.items()} == {
            "age": 2.25,
            "income": 2.25,
            "score": 2.25,
            "health": 1,
            "town": 1,
            "job": 1,
            "all": 1,
            "trees": 4,
        }


class TestHistograms:
    def test_masses_are_not_negative_and_add_up_to_one(self):
        noisy = np.random.default_rng(1).normal(0, 50, 300)
        mass = consistent(noisy)
        assert mass.min() >= 0
        assert mass.sum() == pytest.approx(1)

    def test_without_noise_masses_are_shares(self):
        counts = np.array([5.0, 0, 0, 10, 85])
        assert consistent(counts) == pytest.approx(counts / 100, abs=1e-6)

    def test_a_heavy_cell_stands_alone(self):
        mass = np.array([0.01, 0.01, 0.9, 0.01, 0.01, 0.03, 0.03])
        assert quantile_cuts(mass, 8) == (2, 3)

    def test_bins_have_equal_mass(self):
        assert quantile_cuts(np.full(64, 1 / 64), 8) == tuple(range(8, 64, 8))


class TestFiles:
    @pytest.mark.parametrize("classes", [2, 4])
    def test_a_loaded_model_says_the_same(self, classes, tmp_path):
        made, X = model(classes), people(50).X
        LeafLearner().save(made, tmp_path / "model")
        again = LeafLearner().load(tmp_path / "model")
        assert (again.cells, again.schema, again.effort) == (made.cells, made.schema, 3)
        assert (again.predict_proba(X) == made.predict_proba(X)).all()
        assert (again.margins(X) == made.margins(X)).all()
        assert made.predict_proba(X).shape == (50, classes)
        assert made.predict_proba(X).sum(axis=1) == pytest.approx(1)
        assert made.predict_proba(X[:0]).shape == (0, classes)

    @pytest.mark.parametrize(
        "change",
        [
            {"cells": []},
            {"cells": [{"questions": "x"}]},
            {"cells": [{"column": 99, "edges": [1.0], "missing": False}]},
            {"cells": [{"column": 0, "edges": [2.0, 1.0], "missing": False}]},
            {"cells": [{"column": 0, "edges": [1e999], "missing": False}]},
            {"cells": [{"questions": [{"column": 0, "cut": "x", "categories": []}]}]},
            {"cells": [{"questions": [{"column": 0, "cut": None, "categories": [[]]}]}]},
            {"cells": [{"questions": []}]},
        ],
        ids=str,
    )
    def test_a_file_that_describes_other_cells_is_refused(self, change, tmp_path, monkeypatch):
        monkeypatch.setattr("eupg.learn.envelope._digest", lambda about, payload: "same")
        LeafLearner().save(model(), tmp_path / "model")
        line, payload = (tmp_path / "model").read_bytes().split(b"\n", 1)
        (tmp_path / "model").write_bytes(json.dumps(json.loads(line) | change).encode() + b"\n" + payload)
        with pytest.raises(ModelFileError, match="save the model again"):
            LeafLearner().load(tmp_path / "model")

    def test_scores_that_are_not_numbers_are_refused(self, tmp_path):
        made = model()
        made.scores[3] = np.nan
        LeafLearner().save(made, tmp_path / "model")
        with pytest.raises(ModelFileError, match="not finite"):
            LeafLearner().load(tmp_path / "model")

    def test_a_model_of_another_learner_is_refused(self, tmp_path):
        SklearnLearner().save(
            SklearnLearner().fit(people(60), effort=1, rng=np.random.default_rng(1)), tmp_path / "model"
        )
        with pytest.raises(ModelFileError, match="load it with the learner that saved it"):
            LeafLearner().load(tmp_path / "model")
        with pytest.raises(ParameterError, match="expected a LeafModel"):
            LeafLearner().save(SimpleNamespace(), tmp_path / "other")

    def test_it_fits_nothing_itself_and_says_what_does(self):
        with pytest.raises(ParameterError, match=r"train with EUPG\(PrivateTrees"):
            LeafLearner().fit(people(60), effort=1, rng=np.random.default_rng(1))


def test_rows_of_another_width_are_refused():
    with pytest.raises(DataError):
        model().predict_proba(np.zeros((3, 2)))


def test_rows_are_read_in_parts(monkeypatch):
    made, X = model(), people(50).X
    whole = made.predict_proba(X)
    monkeypatch.setattr("eupg.learn.leaves.learner._ROWS", 7)
    assert (made.predict_proba(X) == whole).all()


def test_cells_round_trip():
    cells = model().cells
    assert LeafCells.from_json(json.loads(json.dumps(cells.to_json())), 6) == cells
