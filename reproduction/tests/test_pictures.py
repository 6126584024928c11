"""The experiments on pictures, at a size that a test can afford: every method runs, and what is shared is shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eupg.data.pictures.files import image_dataset
from eupg.data.score import accuracy
from eupg.data.sources import Source, cache_folder
from eupg.errors import ParameterError
from eupg.forget.eupg import EUPG
from eupg.learn.torch.augment import Augment
from eupg.learn.torch.learner import TorchLearner
from eupg.learn.torch.networks import ResNet18
from eupg.protect.pictures.pixel_dp import PixelDP
from eupg.protect.pictures.pixel_permutation import PixelPermutation
from eupg.protect.pictures.public_features import EfficientNetLite0, PixelFeatures
from eupg_reproduction import methods, picture_methods, pictures
from eupg_reproduction.cell import Cell
from eupg_reproduction.experiments import cells_of
from eupg_reproduction.version import code_version

pytest.importorskip("torch")


def test_recipes_are_those_of_the_paper():
    base, gentle = picture_methods.resnet18_learner(), picture_methods.resnet18_finetuner()
    assert (base.learning_rate, base.schedule, base.weight_decay, base.batch_size) == (0.1, "cosine", 5e-4, 256)
    assert (base.optimiser, base.momentum, base.augment, base.precision) == ("sgd", 0.9, Augment(4), "bfloat16")
    assert gentle == replace(base, learning_rate=0.05, schedule="one-cycle")
    assert picture_methods.resnet18_learner(device="cpu").precision == "float32"


def _source() -> Source:
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 2
    images = rng.integers(0, 200, (300, 3, 8, 8)).astype(np.uint8)
    images[labels == 1, 0] += 55
    data = image_dataset(images, labels, classes=("dull", "red"))
    test = np.arange(300) >= 240
    return Source("cifar10", data.select(~test), data.select(test), accuracy)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Make the set tiny, the features plain pixels, and the cache a folder of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    source = _source()
    monkeypatch.setattr(methods, "source", lambda name: source)
    plain = picture_methods.mechanism
    monkeypatch.setattr(
        picture_methods,
        "mechanism",
        lambda words, **_: (
            replace(made, features=PixelFeatures()) if isinstance(made := plain(words), PixelPermutation) else made
        ),
    )


def _cell(method: str, **settings: object) -> Cell:
    config = {"kind": "pictures", "set": "cifar10", "model": "resnet18", "method": method, "repetition": 0}
    common = {"recipe": "paper", "effort": 2, "finetune": 1, "forget": 0.1, "references": 4, "width": 4}
    return Cell.of({**config, **common, **settings})


@pytest.mark.usefixtures("tiny")
def test_every_method_is_measured_before_and_after() -> None:
    words = ("Retrain", "Short retrain", "Certified-SP", "EUPG k=30", "EUPG k=30, blocks 4×4", "EUPG ε=1")
    found = dict(pictures.measure([_cell(m, finetune=21 if m == "Certified-SP" else 1) for m in words]))
    assert {cell.method for cell in found} == set(words)
    for cell, one in found.items():
        for phase in ("before", "after") if cell.method != "Certified-SP" else ("after",):
            assert 0 <= one.metrics[phase]["utility"] <= 100
            assert one.metrics[phase]["audit"]["low"] <= one.metrics[phase]["audit"]["auc"]
        assert one.seconds["forget"] > 0


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("method", ["Short retrain", "EUPG ε=1"])
def test_a_sweep_measures_what_is_left_after_alone_and_as_if_all_had_been_trained(method: str) -> None:
    longer = _cell(method, finetune=6, references=0)
    ((_, found),) = pictures.measure([longer])
    assert "before" not in found.metrics
    assert set(found.seconds) == {"forget"}
    case = pictures._Case(pictures._Suite(methods.source("cifar10"), 0.1), 0)
    whole = picture_methods.method(longer)
    trained, _, _ = case.trainings.train(whole)
    after = whole.forget(trained, case.retained, case.rng)
    assert found.metrics["after"] == case._measured(longer, after.model)


@pytest.mark.usefixtures("tiny")
def test_sisa_runs_without_a_collapse_of_its_shards() -> None:
    (_, found), = pictures.measure([_cell("SISA", references=0)])  # fmt: skip
    assert found.metrics["storage"]["models"] == 5


@pytest.mark.usefixtures("tiny")
def test_references_are_trained_once_and_taken_from_the_cache_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    ((_, first),) = pictures.measure([_cell("Short retrain")])
    ((_, second),) = pictures.measure([_cell("Short retrain")])
    assert (first.metrics["references_reused"], second.metrics["references_reused"]) == (0, 4)
    assert first.metrics["references_made_by"] == second.metrics["references_made_by"] == {code_version(): 4}
    assert first.metrics["after"]["audit"] == second.metrics["after"]["audit"]
    monkeypatch.setenv("EUPG_BENCH_FRESH", "1")
    ((_, third),) = pictures.measure([_cell("Short retrain")])
    assert third.metrics["references_reused"] == 0


@pytest.mark.usefixtures("tiny")
def test_references_of_other_code_are_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(pictures, "code_version", lambda: "0.0.1+older")
        list(pictures.measure([_cell("Short retrain")]))
    ((_, found),) = pictures.measure([_cell("Short retrain")])
    assert found.metrics["references_made_by"] == {"0.0.1+older": 4}
    for file in (cache_folder() / "references").glob("*.npz"):
        with np.load(file) as content:
            np.savez(file, probabilities=content["probabilities"])
    ((_, found),) = pictures.measure([_cell("Short retrain")])
    assert found.metrics["references_made_by"] == {"code that left no name": 4}


@pytest.mark.usefixtures("tiny")
def test_every_scored_picture_is_outside_of_half_of_the_references() -> None:
    suite = pictures._Suite(methods.source("cifar10"), 0.1)
    assert (suite.halves(4).sum(axis=0) == 2).all()


def test_main_tables_are_measured_before_sweeps_and_sisa() -> None:
    order = sorted(cells_of(["images"], 3), key=pictures._turn)
    late = [cell.method == "SISA" or cell.get("finetune") > 5 for cell in order]
    assert late == sorted(late)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("k=30", PixelPermutation(30, device=picture_methods.device())),
        ("k=30, blocks 8×8", PixelPermutation(30, block=8, device=picture_methods.device())),
        (
            "k=10, blocks 4×4, within classes",
            PixelPermutation(10, block=4, within_labels=True, device=picture_methods.device()),
        ),
        ("ε=1", PixelDP(1.0)),
        ("ε=4, whole picture", PixelDP(4.0, unit="picture")),
    ],
)
def test_words_name_protections_of_pictures(words: str, expected: object) -> None:
    assert picture_methods.mechanism(words) == expected


@pytest.mark.parametrize("words", ["k=30, blocks 8×4", "ε=1, label ε=1", "k=30 "])
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(ParameterError, match="no protection"):
        picture_methods.mechanism(words)


def test_the_short_retrain_gets_the_learner_and_effort_of_fine_tuning() -> None:
    for recipe in ("paper", "better"):
        given = picture_methods.recipe(_cell("Short retrain", recipe=recipe))
        assert given.short == given.finetuner


def test_the_better_recipe_changes_the_few_epochs_and_the_base_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_methods, "BETTER", {"learning_rate": 0.3, "padding": 2, "scale": 0.5})
    monkeypatch.setattr(picture_methods, "BASE", {"label_smoothing": 0.2})
    paper, better = _cell("EUPG ε=1", recipe="paper"), _cell("EUPG ε=1", recipe="better", pretrain=7)
    plain, given = picture_methods.recipe(paper), picture_methods.recipe(better)
    assert given.learner == plain.learner
    assert isinstance(given.short, TorchLearner)
    assert isinstance(plain.learner, TorchLearner)
    assert given.short.learning_rate == 0.3
    assert given.short.augment == Augment(padding=2)
    assert given.short.network == ResNet18(4, scale=0.5)
    made, other = picture_methods.method(paper), picture_methods.method(better)
    assert isinstance(made, EUPG)
    assert isinstance(other, EUPG)
    assert (made.learner, made.pretrain) == (plain.learner, plain.pretrain)
    assert (other.learner, other.pretrain) == (replace(plain.learner, label_smoothing=0.2), 7)


def test_a_base_without_epochs_of_its_own_is_trained_as_retrain_is() -> None:
    cell = _cell("EUPG ε=1", recipe="better")
    made, given = picture_methods.method(cell), picture_methods.recipe(cell)
    assert isinstance(made, EUPG)
    assert (made.learner, made.pretrain, made.finetuner) == (given.learner, given.pretrain, given.short)


def test_the_better_recipe_looks_closer_at_pictures_that_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture_methods, "FEATURES", {"size": 7})
    for recipe, look in (("paper", EfficientNetLite0()), ("better", EfficientNetLite0(size=7))):
        made = picture_methods.method(_cell("EUPG k=30", recipe=recipe))
        assert isinstance(made, EUPG)
        assert isinstance(made.mechanism, PixelPermutation)
        assert made.mechanism.features == look
