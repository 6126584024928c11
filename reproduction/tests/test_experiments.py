"""The declarations: every word means something, the paper's grids are whole, controls are always in."""

from collections import defaultdict

import numpy as np
import pytest

from eupg import EUPG, Seeded
from eupg.errors import ParameterError
from eupg.learn import SklearnLearner, recipes
from eupg.protect import MDAV, LocalDP, ProbabilisticKAnonymity
from eupg_reproduction import exposure, methods, picture_methods
from eupg_reproduction.cell import Cell
from eupg_reproduction.experiments import EXPERIMENTS, cells_of, experiment, minutes_of_all
from eupg_reproduction.exposure import CONTROLS, exposed_people
from eupg_reproduction.kinds import KINDS
from people import people

ALL = cells_of(["all", "smoke", "images"], 1)


def test_every_kind_is_there_and_loads():
    assert {cell.kind for cell in ALL} == set(KINDS)
    for kind in KINDS.values():
        assert callable(kind.measure)


@pytest.mark.parametrize("model", recipes.MODELS)
def test_the_short_retrain_of_tuned_recipes_is_that_of_the_rule(model):
    rule = recipes.careful_recipe(model)
    (cell,) = (c for c in cells_of(["tuned"], 1) if (c.set, c.model, c.method) == ("adult", model, "Short retrain"))
    made = methods.method(cell)
    assert (repr(made.learner), made.effort) == (repr(rule.short), rule.short_effort)
    assert model != "mlp" or rule.short_effort < rule.finetune


def test_the_short_retrain_beside_exposure_is_that_of_the_rule():
    where = {"kind": "exposure", "set": "rand_hie", "model": "mlp", "method": "Short retrain", "exposure": 1.0}
    ((_, found),) = exposure.measure([Cell.of({**where, "repetition": 0})])
    rule, source = recipes.careful_recipe("mlp"), methods.source("rand_hie")
    model = rule.short.fit(source.train, effort=rule.short_effort, rng=np.random.default_rng(0))
    assert found.metrics["utility"] == source.utility(model.predict_proba(source.test.X), source.test.y)


def test_names_are_told_apart():
    names = [e.name for e in EXPERIMENTS]
    assert len(set(names)) == len(names)
    with pytest.raises(ParameterError, match="no experiment 'nonsense': choose one of smoke"):
        experiment("nonsense")


def test_all_is_what_needs_no_gpu_and_images_is_the_rest():
    tables, images = ({cell.key for cell in cells_of([name], 1)} for name in ("all", "images"))
    assert not tables & images
    assert images == {cell.key for e in EXPERIMENTS if e.gpu for cell in e.cells(1)}
    assert {cell.kind for cell in ALL if cell.key in images} == {"pictures"}
    assert tables | images == {cell.key for e in EXPERIMENTS if e.name != "smoke" for cell in e.cells(1)}


def test_pictures_are_repeated_no_more_often_than_said():
    counts = {e.name: len(e.cells(5)) / len(e.cells(1)) for e in EXPERIMENTS if e.gpu}
    assert counts["quality_resnet18"] == 3
    assert counts["sisa_resnet18"] == 1
    assert set(counts.values()) == {1, 3}


def test_every_method_of_every_cell_can_be_built():
    built = set()
    for cell in ALL:
        mark = (cell.kind, cell.set, cell.model, cell.method, cell.settings)
        if cell.kind in ("quality", "runtime"):
            built.add(mark)
            methods.method(cell)
        elif cell.kind == "pictures":
            built.add(mark)
            picture_methods.method(cell)
        elif cell.method not in (*CONTROLS, "Unprotected"):
            built.add(mark)
            methods.mechanism(cell.method)
    assert len(built) > 300


@pytest.mark.parametrize("words", ["k=", "ε=x", "EUPG", "synthesis", "k=30 "])
def test_words_that_mean_nothing_are_refused(words):
    with pytest.raises(ParameterError, match="no protection"):
        methods.mechanism(words)


def test_words_say_what_they_mean():
    assert methods.mechanism("k=7") == ProbabilisticKAnonymity(7, MDAV())
    assert methods.mechanism("ε=0.5, label ε=2") == LocalDP(0.5, label_epsilon=2.0)
    cell = Cell.of(
        {"kind": "quality", "set": "credit", "model": "xgboost", "method": "EUPG k=30, leaves refreshed"}
        | {"repetition": 0, "recipe": "paper", "effort": 100, "finetune": 5}
    )
    built = methods.method(cell)
    assert (built.pretrain, built.finetune) == (100, 5)
    assert built.finetuner.refresh_leaves
    assert not built.learner.refresh_leaves


def test_a_table_never_lacks_the_control_of_equal_cost():
    short = defaultdict(set)
    for cell in ALL:
        if cell.kind in ("quality", "runtime", "pictures"):
            # The short retrain has no base, so that for how long one is trained is nothing to it.
            settings = (s for s in cell.settings if s[0] not in ("references", "pretrain"))
            where = (cell.kind, cell.set, cell.model, *settings)
            short[where].add(cell.method)
    for where, found in short.items():
        eupg = any(method.startswith("EUPG") for method in found)
        assert not eupg or "Short retrain" in found or ("finetune", 0) in where, where


def test_experiments_that_ask_the_same_share_the_cell():
    five = {cell.key for cell in experiment("forget_ratio").cells(1) if cell.get("forget") == 0.05}
    assert five < {cell.key for cell in experiment("quality_mlp").cells(1)}


def test_repetitions_add_cells_and_change_none():
    one, five = ({c.key for c in experiment("k_sweep").cells(n)} for n in (1, 5))
    assert one < five
    assert len(five) == 5 * len(one)


def test_every_estimate_is_given():
    assert all(e.core_minutes > 0 for e in EXPERIMENTS)


def test_the_whole_suite_fits_three_hours_on_two_cores_and_time_is_measured_on_one():
    tables = [e for e in EXPERIMENTS if e.name != "smoke" and not e.gpu]
    apart = sum(e.core_minutes for e in tables if e.name.startswith("runtime"))
    assert minutes_of_all(1) == sum(e.core_minutes for e in tables)
    assert minutes_of_all(2) == apart + (minutes_of_all(1) - apart) / 2 < 180


def test_from_scratch_learns_from_the_very_people_that_eupg_exposes():
    data = people(900)
    sizes = set()
    for seed in range(5):
        method = EUPG(LocalDP(1.0), SklearnLearner(), 1, 1, exposure=0.1)
        trained = method.train(data, Seeded(seed))
        assert trained.ids == exposed_people(data, 0.1, Seeded(seed)).id_set
        sizes.add(len(np.unique(exposed_people(data, 0.1, Seeded(seed)).subjects)))
    # Each person is drawn alone: 30 of 300 on average, and another number each time.
    assert len(sizes) > 1
    assert all(15 < size < 50 for size in sizes)
