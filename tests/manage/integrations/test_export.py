"""The served model outside the workspace: it predicts as the manager does, needs no EUPG, and says what it is."""

import contextlib
import importlib.util
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from commands import TRAIN, eupg, words
from eupg import EUPG, Manager, Retrain, Seeded, sources
from eupg.data import Dataset, Date, Schema
from eupg.data.attribute import Categorical, Missing, Numeric, Outside, Role
from eupg.errors import DataError, MissingFramework, ParameterError
from eupg.forget import SISA, Durable, ExactTrees, PrivateTrees
from eupg.learn import LeafLearner, LeafRidge, LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.learn.learner import Learner
from eupg.learn.leaves.learner import LeafModel
from eupg.manage.integrations.export import predict
from eupg.manage.integrations.export.copies import NOTICE
from eupg.manage.integrations.export.graph import onnx_bytes
from eupg.manage.integrations.export.sklearn_trees import sklearn_forest_of
from eupg.manage.integrations.export.trees import branches, forest_of
from eupg.protect import LocalDP
from people import people

INSTALLED = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
needs_onnx = pytest.mark.skipif(not INSTALLED, reason="ONNX is not installed: pip install 'eupg[onnx]' onnxruntime")
LEARNERS: dict[str, Learner | None] = {
    "xgboost": XGBoostLearner(),
    "lightgbm": LightGBMLearner(least_records=5),
    "sgd": SklearnLearner(),
    "logistic": SklearnLearner(LogisticRegression(warm_start=True)),
    "sklearn-mlp": SklearnLearner(MLPClassifier((8,), activation="tanh")),
    "torch-mlp": TorchLearner(),
    "leaves": None,
    "forest": SklearnLearner(RandomForestClassifier(max_depth=5, warm_start=True)),
    "extra-trees": SklearnLearner(ExtraTreesClassifier(max_depth=5, warm_start=True)),
    "boosting": SklearnLearner(GradientBoostingClassifier(warm_start=True)),
    "histograms": SklearnLearner(HistGradientBoostingClassifier(warm_start=True)),
}
# Models that are made otherwise than by one learner.
SMALL_TREES: dict[str, Learner] = {
    "xgboost": XGBoostLearner(max_depth=3),
    "lightgbm": LightGBMLearner(leaves=8, least_records=5),
}
COMBINED: dict[str, Durable] = {
    **{
        f"leaf ridge on {name}": EUPG(LocalDP(5.0), learner, pretrain=5, finetuner=LeafRidge(learner))
        for name, learner in SMALL_TREES.items()
    },
    **{
        f"leaves corrected by {name}": EUPG(PrivateTrees(5.0), LeafLearner(learner), 1, 5)  # type: ignore[arg-type]
        for name, learner in SMALL_TREES.items()
    },
    "sisa": SISA(XGBoostLearner(max_depth=3), effort=4, shards=2, slices=2, jobs=1),
    "sisa of estimators": SISA(SklearnLearner(), effort=2, shards=2, slices=2, jobs=1),
    "exact trees": ExactTrees(most_cells=200),
    "a single tree": Retrain(SklearnLearner(DecisionTreeClassifier(max_depth=5)), 1),
    "exponential loss": Retrain(SklearnLearner(GradientBoostingClassifier(loss="exponential")), 5),
}


def method(name: str) -> Durable:
    if name in COMBINED:
        return COMBINED[name]
    learner = LEARNERS[name]
    if learner is None:
        return EUPG(PrivateTrees(5.0), LeafLearner(), exposure=0)
    return EUPG(LocalDP(5.0), learner, pretrain=5, finetune=5)


def trained(folder: Path, how: Durable, data: Dataset) -> Manager:
    manager = Manager(folder / "ws", how, rng=Seeded(1))
    manager.train(data)
    return manager


def table_of(data: Dataset) -> pd.DataFrame:
    """Return records as the raw table that a caller has."""
    return pd.DataFrame({a.name: a.decode(data.X[:, j]) for j, a in enumerate(data.schema.features)})


def run_onnx(content: bytes, raw: pd.DataFrame) -> np.ndarray:
    """Predict with ONNX Runtime alone: columns of numbers as they are, others as text."""
    session = importlib.import_module("onnxruntime").InferenceSession(content)
    feeds = {}
    for one in session.get_inputs():
        if one.type == "tensor(double)":
            feeds[one.name] = raw[[one.name]].to_numpy(dtype=np.float64)
        else:
            feeds[one.name] = raw[[one.name]].astype(object).where(raw[[one.name]].notna(), "").to_numpy()
    (answer,) = session.run(["probabilities"], feeds)
    return np.asarray(answer)


# Run each exported program in turn, where this library can be neither imported nor found.
PROGRAM = """
import os, runpy, sys
sys.modules["eupg"] = None
for folder in sys.argv[1:]:
    os.chdir(folder)
    sys.argv = ["predict.py", "rows.csv", "out.csv"]
    runpy.run_path("predict.py", run_name="__main__")
"""


def run_elsewhere(programs: Mapping[Path, pd.DataFrame]) -> list[np.ndarray]:
    """Run exported programs in a process that cannot import this library."""
    for folder, raw in programs.items():
        raw.to_csv(folder / "rows.csv", index=False)
    # Not installed either: this process found the library through a path that the other one does not get.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, *map(str, programs)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [pd.read_csv(folder / "out.csv").to_numpy() for folder in programs]


def run_native(folder: Path, raw: pd.DataFrame) -> np.ndarray:
    """Run the exported program here, with this library out of its reach: no framework is loaded a second time."""
    raw.to_csv(folder / "rows.csv", index=False)
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "eupg"}
    arguments = ["predict.py", "rows.csv", "out.csv"]
    with contextlib.chdir(folder), mock.patch.object(sys, "argv", arguments), mock.patch.dict(sys.modules):
        for name in ours:
            sys.modules[name] = None  # type: ignore[assignment]
        runpy.run_path("predict.py", run_name="__main__")
    return pd.read_csv(folder / "out.csv").to_numpy()


@needs_onnx
@pytest.mark.parametrize(
    ("name", "classes"),
    [*((name, 2) for name in (*LEARNERS, *COMBINED)), *((name, 3) for name in (*LEARNERS, "leaf ridge on xgboost"))],
)
def test_one_onnx_file_predicts_raw_rows_as_the_manager_does(tmp_path, name, classes):
    manager = trained(tmp_path, method(name), people(300, classes=classes))
    raw = table_of(people(200, seed=4, classes=classes))
    assert raw.isna().any().any()
    file, statement = manager.export(tmp_path / "model.onnx", format="onnx")
    expected = manager.predict(raw)
    assert expected.std() > 0.05
    assert np.abs(run_onnx(file.read_bytes(), raw) - expected).max() <= 1e-6
    assert statement.name == "model.statement.json"
    manager.close()


FOLDERS = [*LEARNERS, "leaf ridge on xgboost", "leaf ridge on lightgbm", "exact trees"]


def test_the_folders_predict_raw_rows_without_this_library(tmp_path):
    cases = [*((name, 2) for name in FOLDERS), ("xgboost", 3), ("leaves", 3), ("leaf ridge on xgboost", 3)]
    programs, expected = {}, []
    for name, classes in cases:
        folder = tmp_path / f"{name}-{classes}"
        manager = trained(folder, method(name), people(300, classes=classes))
        raw = table_of(people(200, seed=4, classes=classes))
        files = manager.export(folder / "out")
        assert [file.name for file in files[1:]] == ["preprocessing.json", "predict.py", "README.md", "statement.json"]
        programs[folder / "out"] = raw
        expected.append(manager.predict(raw))
        manager.close()
    for case, answer, wanted in zip(cases, run_elsewhere(programs), expected, strict=True):
        assert np.abs(answer - wanted).max() <= 1e-6, case


def test_the_files_are_those_of_the_frameworks(tmp_path):
    import lightgbm as lgb
    import xgboost as xgb

    manager = trained(tmp_path, method("xgboost"), people(300))
    booster = xgb.Booster(model_file=manager.export(tmp_path / "out")[0])
    # One file, although fine-tuning added trees to those of the base model.
    assert booster.num_boosted_rounds() == 10
    manager.close()
    other = trained(tmp_path / "other", method("lightgbm"), people(300))
    assert lgb.Booster(model_file=other.export(tmp_path / "text")[0]).num_trees() == 10
    other.close()


# Every rule about values beyond the training records: bounds and categories that were inferred, and that were declared.
GUESSED = Schema(
    (
        Numeric(name="age", lower=0, upper=80, inferred=("lower", "upper")),
        Numeric(name="clipped", lower=0, upper=10, outside=Outside.CLIP, missing=Missing.FILL, fill=3.0),
        Numeric(name="strict", lower=0, upper=10),
        Categorical(name="town", categories=("A", "B", "1"), inferred=("categories",)),
        Categorical(name="job", categories=("x", "y", "z"), other="z", missing=Missing.FILL, fill="y"),
        Categorical(name="sex", categories=("f", "m")),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


def guessed(rows: int = 200) -> Dataset:
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, size, rows) for size in (81, 11, 11, 3, 3, 2)]).astype(float)
    y = ((X[:, 0] > 40) ^ (X[:, 3] == 1)).astype(int)
    names = np.array([f"r{i}" for i in range(rows)])
    return Dataset(GUESSED, X, y, names, names)


ADJUSTED = pd.DataFrame(
    {
        "age": [150.0, -3.0, None, 44.0, 44.5],
        "clipped": [99.0, -9.0, None, 1.0, 2.0],
        "strict": [1.0, 2.0, 3.0, 4.0, 5.0],
        "town": ["Z", None, "A", "1", "B"],
        "job": ["other", "x", None, "y", "z"],
        "sex": ["f", "m", "f", "m", "f"],
    }
)
REFUSED: list[dict[str, object]] = [{"strict": 11.0}, {"strict": -0.5}, {"strict": None}, {"sex": "d"}, {"sex": None}]


def beyond(wrong: dict[str, object]) -> pd.DataFrame:
    """Return rows of which the last holds a value that the schema refuses."""
    last = ADJUSTED.iloc[3].to_dict() | wrong
    return pd.DataFrame([*ADJUSTED.to_dict("records"), last], columns=list(ADJUSTED))


@needs_onnx
@pytest.mark.filterwarnings("ignore::eupg.data.rows.AdjustedRows")
@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "sgd", "torch-mlp", "leaves"])
def test_values_that_no_training_record_showed_are_adjusted_in_the_same_way(tmp_path, name):
    manager = trained(tmp_path, method(name), guessed())
    expected = manager.predict(ADJUSTED)
    file = manager.export(tmp_path / "model.onnx", format="onnx")[0]
    manager.export(tmp_path / "out")
    assert np.abs(run_onnx(file.read_bytes(), ADJUSTED) - expected).max() <= 1e-6
    assert np.abs(run_native(tmp_path / "out", ADJUSTED) - expected).max() <= 1e-6
    for wrong in REFUSED:
        rows = beyond(wrong)
        with pytest.raises(DataError):
            manager.predict(rows)
        answers = run_onnx(file.read_bytes(), rows)
        assert np.isnan(answers[-1]).all()
        assert np.abs(answers[:-1] - expected).max() <= 1e-6
    manager.close()


DATED = Schema(
    (
        Date(name="born", lower="1930-01-01", upper="2010-01-01", format="%d.%m.%Y", missing=Missing.KEEP),
        Date(name="seen", lower="2020-01-01", upper="2024-01-01", outside=Outside.CLIP),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


@needs_onnx
@pytest.mark.parametrize("name", ["xgboost", "sgd"])
def test_dates_are_read_as_the_manager_reads_them(tmp_path, name):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(-14_610, 14_610, 200), rng.integers(18_262, 19_723, 200)]).astype(float)
    X[::7, 0] = np.nan
    names = np.array([f"r{i}" for i in range(200)])
    manager = trained(tmp_path, method(name), Dataset(DATED, X, (X[:, 1] > 19_000).astype(int), names, names))
    born = ["31.12.1999", None, "01.02.1955"]
    raw = pd.DataFrame({"born": born, "seen": ["2021-05-06", "2021-05-06T12:00:00", "2023-01-01"]})
    expected = manager.predict(raw)
    manager.export(tmp_path / "out")
    assert np.abs(run_native(tmp_path / "out", raw) - expected).max() <= 1e-6
    moments = raw.assign(seen=pd.to_datetime(raw["seen"], format="ISO8601"))
    assert np.abs(predict.predict_proba(moments, tmp_path / "out").to_numpy() - expected).max() <= 1e-6
    with pytest.raises(ValueError, match="column 'born': 1 of 3 rows"):
        predict.predict_proba(raw.assign(born=pd.Series(["31.12.1999", "soon", None])), tmp_path / "out")
    file = manager.export(tmp_path / "model.onnx", format="onnx")[0]
    days = pd.DataFrame(manager.rows(raw).X, columns=["born", "seen"])
    assert np.abs(run_onnx(file.read_bytes(), days) - expected).max() <= 1e-6
    manager.close()


def test_the_program_refuses_what_the_manager_refuses(tmp_path):
    manager = trained(tmp_path, method("sgd"), guessed())
    folder = tmp_path / "out"
    manager.export(folder)
    manager.close()
    for wrong in REFUSED:
        with pytest.raises(ValueError, match=r"1 of 6 rows hold values out of range"):
            predict.predict_proba(beyond(wrong), folder)


OF_TREES = ["xgboost", "lightgbm", "leaves", "forest", "extra-trees", "boosting", "histograms", *COMBINED]


@needs_onnx
@pytest.mark.parametrize("name", [name for name in OF_TREES if name != "sisa of estimators"])
def test_values_at_a_threshold_and_right_beside_it_fall_on_the_same_side(tmp_path, name):
    manager = trained(tmp_path, method(name), people(300))
    raw = at_thresholds(manager.served_model)
    assert len(raw) > 50
    expected = manager.predict(raw)
    file = manager.export(tmp_path / "model.onnx", format="onnx")[0]
    assert np.abs(run_onnx(file.read_bytes(), raw) - expected).max() <= 1e-6
    if name in (*FOLDERS, "a single tree"):
        manager.export(tmp_path / "out")
        answers = predict.predict_proba(raw, tmp_path / "out").to_numpy()
        assert np.abs(answers - expected).max() <= 1e-6
    manager.close()


def at_thresholds(model: Any) -> pd.DataFrame:
    """Return rows with each number at a threshold of the model, and at its neighbours in both precisions."""
    schema, rng = model.schema, np.random.default_rng(5)
    columns = {j: a for j, a in enumerate(schema.features) if isinstance(a, Numeric)}
    rows = []
    for j, attribute in columns.items():
        exact = np.array(sorted(set(thresholds(model, j))), dtype=np.float64)
        single = exact.astype(np.float32)
        near = [exact, single.astype(np.float64)]
        near += [np.nextafter(exact, side) for side in (-np.inf, np.inf)]
        near += [np.nextafter(single, np.float32(side)).astype(np.float64) for side in (-np.inf, np.inf)]
        # Closer than the numbers of single precision lie together.
        near += [exact + step * np.spacing(single).astype(np.float64) for step in (-0.4, 0.4)]
        values = np.concatenate(near)
        values = values[(values >= attribute.lower) & (values <= attribute.upper)]
        if not len(values):
            continue
        X = people(len(values), seed=int(rng.integers(1000))).X.copy()
        X[:, j] = values
        rows.append(X)
    X = np.concatenate(rows)
    return pd.DataFrame({a.name: a.decode(X[:, j]) for j, a in enumerate(schema.features)})


def thresholds(model: Any, column: int) -> Iterator[float]:
    """Yield the numbers with which a model compares a column, in the column's own units."""
    for part in getattr(model, "models", ()):
        yield from thresholds(part, column)
    estimator = sklearn_forest_of(model)
    forest = forest_of(model) if estimator is None else estimator.forest
    for tree in () if forest is None else (*forest.trees, *forest.rounded):
        for branch in branches(tree):
            if branch.column == column and isinstance(branch.test, float) and abs(branch.test) < 1e300:
                yield branch.test


@needs_onnx
@pytest.mark.slow
@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "logistic", "torch-mlp", "leaves"])
def test_real_people_get_the_same_answers(tmp_path, name):
    people_asked = sources.rand_hie()
    manager = trained(tmp_path, method(name), people_asked.train)
    raw = table_of(people_asked.test)
    file = manager.export(tmp_path / "model.onnx", format="onnx")[0]
    manager.export(tmp_path / "out")
    expected = manager.predict(raw)
    assert np.abs(run_onnx(file.read_bytes(), raw) - expected).max() <= 1e-6
    assert np.abs(run_native(tmp_path / "out", raw) - expected).max() <= 1e-6
    manager.close()


def test_the_statement_says_what_the_copy_is_and_the_ledger_notes_it(tmp_path):
    manager = trained(tmp_path, method("sgd"), people(90))
    status = manager.status()
    statement = json.loads(manager.export(tmp_path / "out")[-1].read_text())
    assert (statement["model"], statement["claim"], statement["notice"]) == (status.served, status.claim, NOTICE)
    assert "after the next forget, replace it" in NOTICE
    assert set(statement["files"]) | {"statement.json"} == {path.name for path in (tmp_path / "out").iterdir()}
    (entry,) = manager.space.ledger.entries(kinds=["export"])
    assert (entry.body["digest"], entry.body["format"]) == (status.served, "native")
    manager.verify()
    manager.close()


def test_forget_counts_copies_of_the_model_that_it_replaces(tmp_path):
    manager = trained(tmp_path, method("sgd"), people(90))
    manager.export(tmp_path / "one")
    manager.export(tmp_path / "two")
    counts = []
    for person in ("p3", "p4"):
        manager.request_erasure(subject=person)
        counts.append(manager.forget().copies)
    assert counts == [2, 0]
    manager.close()


def test_an_export_replaces_an_earlier_one_and_nothing_else(tmp_path):
    manager = trained(tmp_path, method("sgd"), people(90))
    manager.export(tmp_path / "out")
    earlier = (tmp_path / "out" / "model.skops").read_bytes()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    manager.request_erasure(subject="p3")
    manager.forget()
    manager.export(tmp_path / "out")
    assert (tmp_path / "out" / "model.skops").read_bytes() != earlier
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    places = [tmp_path / "full", tmp_path / "full" / "mine.txt", tmp_path / "ws" / "out"]
    for place in places:
        with pytest.raises(ParameterError, match=r"must be empty|is a file|part of the workspace"):
            manager.export(place)
    for place in (tmp_path / "no" / "m.onnx", tmp_path / "model", tmp_path / "full"):
        with pytest.raises(ParameterError, match=r"with a name in \.onnx"):
            manager.export(place, format="onnx")
    with pytest.raises(ParameterError, match="format must be one of"):
        manager.export(tmp_path / "new", format="pmml")
    manager.close()


def test_a_statement_cannot_name_files_elsewhere(tmp_path):
    manager = trained(tmp_path, method("sgd"), people(90))
    (tmp_path / "precious.txt").write_text("precious")
    (tmp_path / "out").mkdir()
    statement = {"format": "eupg-export-1", "files": ["../precious.txt"]}
    (tmp_path / "out" / "statement.json").write_text(json.dumps(statement))
    manager.export(tmp_path / "out")
    assert (tmp_path / "precious.txt").exists()
    manager.close()


@needs_onnx
def test_a_model_that_does_not_fit_is_refused_with_what_works(tmp_path):
    bayes = SklearnLearner(GaussianNB())
    manager = trained(tmp_path, EUPG(LocalDP(5.0), bayes, pretrain=3, finetune=2), people(90))
    with pytest.raises(ParameterError, match=r"expected models of XGBoost.*got a GaussianNB.*'native'"):
        manager.export(tmp_path / "model.onnx", format="onnx")
    assert not list(manager.space.ledger.entries(kinds=["export"]))
    raw = table_of(people(50, seed=4))
    manager.export(tmp_path / "out")
    assert np.abs(run_native(tmp_path / "out", raw) - manager.predict(raw)).max() <= 1e-6
    manager.close()


@needs_onnx
def test_an_estimator_whose_probabilities_have_another_form_is_refused(tmp_path):
    learner = SklearnLearner(SGDClassifier(loss="modified_huber"))
    manager = trained(tmp_path, EUPG(LocalDP(5.0), learner, pretrain=1, finetune=1), people(90))
    with pytest.raises(ParameterError, match="got a SGDClassifier"):
        manager.export(tmp_path / "model.onnx", format="onnx")
    manager.close()


def test_a_network_of_ones_own_is_refused(tmp_path):
    from torch import nn

    def network(inputs, classes):
        return nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, classes))

    manager = trained(tmp_path, EUPG(LocalDP(5.0), TorchLearner(network), pretrain=1, finetune=1), people(90))
    for kind in ("native", *(["onnx"] if INSTALLED else [])):
        with pytest.raises(ParameterError, match="perceptron"):
            manager.export(tmp_path / "model.onnx", format=kind)
    manager.close()


def test_without_onnx_the_extra_is_named(tmp_path, monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="onnx")

    model = LeafModel.__new__(LeafModel)
    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(MissingFramework, match=r"needs onnx: pip install 'eupg\[onnx\]'"):
        onnx_bytes(model, {})


def test_on_the_command_line(tmp_path):
    data = people(90)
    table = table_of(data).assign(
        who=data.subjects, record=data.ids, ill=data.schema.label.decode(data.y.astype(float))
    )
    table.to_csv(tmp_path / "people.csv", index=False)
    assert eupg(*TRAIN, "--guarantee", "dp", cwd=tmp_path).returncode == 0
    done = eupg("export", "--workspace", "ws", "--format", "native", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert NOTICE in words(done)
    assert (tmp_path / "out" / "predict.py").is_file()
    assert eupg("request", "--workspace", "ws", "--subject", "p3", cwd=tmp_path).returncode == 0
    assert "Exported copies of the earlier model exist: 1." in words(eupg("forget", "--workspace", "ws", cwd=tmp_path))
