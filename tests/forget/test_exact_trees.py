"""Exact trees: erasing by subtraction leaves the model of a table that never held the person."""

import dataclasses
from collections.abc import Set

import numpy as np
import pytest

from eupg import Dataset, Retrain, Schema, Seeded
from eupg.checks import check_unlearner, names_reachable_from
from eupg.data.score import auc
from eupg.errors import DataError, NothingRetained, ParameterError, UnknownRecord
from eupg.forget.durable import KeptState
from eupg.forget.exact_trees import CountedModel, ExactTrees
from eupg.forget.storage import storage
from eupg.forget.unlearner import Trained
from eupg.guarantees import Exact
from eupg.learn import SklearnLearner
from eupg.learn.leaves.learner import LeafModel
from eupg.learn.leaves.statistics import RidgeStatistics
from people import SCHEMA, learnable, people

RNG = Seeded(3)
SMALL = ExactTrees(most_cells=150)


def part(data: Dataset, ids: list[str]) -> Dataset:
    return data.select(data.where(ids))


def state(trained: Trained) -> tuple[bytes, RidgeStatistics, Set[str]]:
    model, memory = trained.model, trained.memory
    assert isinstance(model, LeafModel)
    assert isinstance(memory, CountedModel)
    assert memory.model is model
    return model.scores.tobytes(), memory.statistics, trained.ids


class TestErasing:
    @pytest.mark.parametrize("classes", [2, 3])
    def test_contract_of_unlearners_is_kept(self, classes):
        check_unlearner(SMALL, people(120, classes=classes))

    @pytest.mark.parametrize("classes", [2, 3])
    def test_any_sequence_of_erasures_and_additions_equals_never_having_been_there(self, classes):
        data, rng = people(40, classes=classes), np.random.default_rng(classes)
        for _ in range(20):
            present = sorted(rng.choice(data.ids, 20, replace=False).tolist())
            trained = SMALL.train(part(data, present), RNG)
            for _ in range(6):
                some = rng.choice(data.ids, rng.integers(1, 5), replace=False).tolist()
                leaving, coming = sorted(set(some) & set(present)), sorted(set(some) - set(present))
                if leaving and len(leaving) < len(present):
                    trained = SMALL.erase(trained, part(data, leaving))
                    present = sorted(set(present) - set(leaving))
                if coming:
                    trained = SMALL.add(trained, part(data, coming))
                    present = sorted({*present, *coming})
            never_there = SMALL.train(part(data, present), Seeded(99))
            assert state(trained) == state(never_there)

    def test_with_all_cells_subtraction_equals_recomputation(self):
        data, method = people(300), ExactTrees()
        trained = method.train(data, RNG)
        gone = data.ids[10:40].tolist()
        erased = method.erase(trained, part(data, gone))
        assert state(erased) == state(method.forget(trained, data.without(gone), RNG))
        assert state(erased) != state(trained)

    def test_order_of_the_records_makes_no_difference(self):
        data = people(120)
        turned = Dataset(data.schema, *(getattr(data, name)[::-1] for name in ("X", "y", "ids", "subjects")))
        assert state(SMALL.train(data, RNG)) == state(SMALL.train(turned, RNG))

    @pytest.mark.parametrize("column", [None, 0, 5])
    def test_what_the_forgotten_records_said_makes_no_difference(self, column):
        """Changed before training, in the label or in one attribute, they are erased without a trace all the same."""
        data = people(120)
        gone = data.ids[:9].tolist()
        X, y, rows = data.X.copy(), data.y.copy(), data.where(gone)
        if column is None:
            y[rows] = 1 - y[rows]
        else:
            X[rows, column] = data.X[~rows][:9, column][::-1]
        other = dataclasses.replace(data, X=X, y=y)
        erased, otherwise = (SMALL.erase(SMALL.train(d, RNG), part(d, gone)) for d in (data, other))
        assert state(erased) == state(otherwise)
        assert state(SMALL.train(data, RNG)) != state(SMALL.train(other, RNG))

    def test_nothing_is_kept_per_person(self):
        data = people(120)
        trained = SMALL.erase(SMALL.train(data, RNG), part(data, ["r3"]))
        assert isinstance(trained.memory, CountedModel)
        assert not names_reachable_from(trained.memory) & set(data.ids.tolist())
        sizes = [array.shape for array in (trained.memory.statistics.pairs, trained.memory.statistics.labels)]
        assert all(119 not in shape and 120 not in shape for shape in sizes)

    def test_subtraction_without_ids_is_the_same_subtraction(self):
        data = people(120)
        trained, gone = SMALL.train(data, RNG), part(data, ["r3", "r8"])
        assert isinstance(trained.memory, CountedModel)
        less = SMALL.subtract(trained.memory, gone)
        erased = SMALL.erase(trained, gone)
        assert (less.model.scores.tobytes(), less.statistics) == state(erased)[:2]
        more = SMALL.include(less, gone)
        assert (more.model.scores.tobytes(), more.statistics) == state(trained)[:2]


class TestClaims:
    def test_the_claim_is_exact_and_carries_what_the_schema_read_from_the_data(self):
        data = people(60)
        assert SMALL.train(data, RNG).claim == Exact()
        town = dataclasses.replace(SCHEMA["town"], inferred=("categories",))
        schema = Schema(tuple(town if a.name == "town" else a for a in SCHEMA.attributes))
        data = Dataset(schema, data.X, data.y, data.ids, data.subjects)
        for trained in (
            SMALL.train(data, RNG),
            SMALL.erase(SMALL.train(data, RNG), part(data, ["r1"])),
            SMALL.add(SMALL.train(data.without(["r0"]), RNG), part(data, ["r0"])),
        ):
            assert "ategories of 'town' read from the data" in trained.claim_for(part(data, ["r7"])).sentence()


class TestRefusals:
    def test_records_that_are_not_there(self):
        data = people(60)
        trained = SMALL.train(data.without(["r5"]), RNG)
        with pytest.raises(UnknownRecord, match="1 of 2 records to erase are not known"):
            SMALL.erase(trained, part(data, ["r4", "r5"]))

    def test_records_erased_before(self):
        data = people(60)
        once = SMALL.erase(SMALL.train(data, RNG), part(data, ["r5"]))
        with pytest.raises(UnknownRecord, match="already erased"):
            SMALL.erase(once, part(data, ["r5"]))

    def test_a_record_with_other_values(self):
        data = people(60)
        X = data.X.copy()
        X[5] = [99.0, 4999.0, 0, 0, 0, -1.0]
        with pytest.raises(DataError, match="with the values they were added with"):
            SMALL.erase(SMALL.train(data, RNG), part(dataclasses.replace(data, X=X), ["r5"]))

    def test_new_records_with_ids_that_are_taken(self):
        data = people(60)
        with pytest.raises(DataError, match="ids that are taken"):
            SMALL.add(SMALL.train(data, RNG), part(data, ["r5"]))

    def test_everyone(self):
        data = people(60)
        with pytest.raises(NothingRetained):
            SMALL.erase(SMALL.train(data, RNG), data)

    def test_records_under_another_schema(self):
        with pytest.raises(DataError, match="another schema"):
            SMALL.erase(SMALL.train(people(60), RNG), people(5, classes=3))

    def test_a_model_of_another_method(self):
        data = people(60)
        trained = Retrain(SklearnLearner(), 1).train(data, RNG)
        with pytest.raises(ParameterError, match="not trained by ExactTrees"):
            SMALL.erase(trained, part(data, ["r1"]))

    @pytest.mark.parametrize("wrong", [{"penalty": 0}, {"penalty": "1"}, {"most_cells": 1}], ids=str)
    def test_settings_that_mean_nothing(self, wrong):
        with pytest.raises(ParameterError):
            ExactTrees(**wrong)


class TestFiles:
    @pytest.mark.parametrize("classes", [2, 3])
    def test_erasing_goes_on_from_files_as_if_it_had_not_stopped(self, classes, tmp_path):
        data = people(120, classes=classes)
        trained = SMALL.train(data, RNG)
        assert isinstance(trained.memory, CountedModel)
        SMALL.save(trained.model, tmp_path / "model")
        SMALL.parts(trained)["counts"].write(tmp_path / "counts")
        kept = KeptState(data, data.id_set, trained.claim)
        restored = SMALL.restore(tmp_path / "model", {"counts": tmp_path / "counts"}, kept)
        gone = part(data, ["r3", "r8"])
        assert state(SMALL.erase(restored, gone)) == state(SMALL.erase(trained, gone))
        assert storage(trained).size_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())

    def test_counts_of_another_table_are_refused(self, tmp_path):
        data = people(120)
        trained, other = SMALL.train(data, RNG), SMALL.train(data.without(["r1"]), RNG)
        SMALL.save(trained.model, tmp_path / "model")
        SMALL.parts(other)["counts"].write(tmp_path / "counts")
        kept = KeptState(data, data.id_set, trained.claim)
        with pytest.raises(ParameterError, match="counts of 120 records"):
            SMALL.restore(tmp_path / "model", {"counts": tmp_path / "counts"}, kept)


def test_it_learns_and_its_probabilities_can_be_used():
    data, others = learnable()
    probabilities = ExactTrees().train(data, RNG).model.predict_proba(others.X)
    assert auc(probabilities, others.y) > 95
    loss = -np.log(probabilities[np.arange(len(others)), others.y]).mean()
    share = others.y.mean()
    guess = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    assert loss < 0.6 * guess


def test_more_classes_are_told_apart():
    data = people(2000, classes=4)
    first, second = (data.select(np.arange(2000) % 2 == half) for half in (0, 1))
    probabilities = ExactTrees().train(first, RNG).model.predict_proba(second.X)
    assert np.mean(probabilities.argmax(axis=1) == second.y) > 0.55
    assert -np.log(probabilities[np.arange(1000), second.y]).mean() < 0.8 * np.log(4)
