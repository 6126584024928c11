"""What the manager, and a model from an exported file, make of a table: columns by name, values by the schema."""

import numpy as np
import pandas as pd
import pytest

from eupg import EUPG, SISA, Dataset, Manager, Retrain, Schema, Seeded
from eupg.data.rows import AdjustedRows
from eupg.errors import DataError, WrongState
from eupg.learn import LightGBMLearner, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.manage.integrations.evidence_folder import export
from eupg.protect import LocalDP
from managed import LOOK, METHOD, RECORDS, RNG, trained

TABLE = RECORDS.to_pandas().drop(columns="ill")[::5].reset_index(drop=True)


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    with trained(tmp_path_factory.mktemp("declared") / "ws") as made:
        yield made


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    """A manager whose schema was read from its records."""
    table = RECORDS.to_pandas().assign(person=RECORDS.subjects)
    schema = Schema.infer(table, label="ill", subject="person")
    made = Manager(tmp_path_factory.mktemp("inferred") / "ws", METHOD, rng=RNG)
    made.train(Dataset.from_table(table, schema))
    yield made
    made.close()


def test_columns_are_matched_by_name_whatever_their_order(manager):
    expected = manager.predict(LOOK)
    np.testing.assert_array_equal(manager.predict(TABLE), expected)
    np.testing.assert_array_equal(manager.predict(TABLE[TABLE.columns[::-1]]), expected)
    np.testing.assert_array_equal(manager.predict(TABLE.assign(person="p", ill="yes")), expected)
    np.testing.assert_array_equal(manager.predict(TABLE[:1]), expected[:1])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (TABLE.drop(columns="age").assign(person="p1"), "lacks 'age'"),
        (TABLE.assign(ID=1), "has 'ID', which the model does not know"),
        (TABLE.assign(age=-5), "column 'age', row 0: -5 lies outside the declared bounds 0 to 100"),
        (TABLE.assign(town="Z"), "column 'town', row 0: 'Z' is not one of the declared categories"),
        (TABLE.assign(age="young"), "column 'age', row 0: 'young' is not a finite number"),
        (LOOK[:, ::-1], "column 'age', row 10: the value is missing"),
        (LOOK[:, 1:], "expected a matrix with 6 columns"),
        (np.where(LOOK > 99, np.nan, LOOK), "column 'income', row 0: the value is missing"),
        (TABLE.to_dict("records"), "make it a table"),
    ],
)
def test_rows_that_do_not_fit_are_refused_in_words(manager, rows, message):
    with pytest.raises(DataError, match=message):
        manager.predict(rows)


def test_values_beyond_inferred_bounds_are_adjusted_with_a_warning(looked):
    odd = TABLE.astype({"age": float}).copy()
    odd.loc[3, "age"], odd.loc[4, "town"] = 950, "Z"
    with pytest.warns(AdjustedRows, match="'age' clipped to .*'town' with an unseen category") as caught:
        answers = looked.predict(odd)
    assert caught[0].filename == __file__
    assert np.isfinite(answers).all()
    rows = looked.rows(odd)
    assert {i: note for i, note in enumerate(rows.notes()) if note} == {3: "age: clipped", 4: "town: unseen category"}
    np.testing.assert_array_equal(looked.predict(rows), answers)  # who has seen the marks is not warned
    with pytest.raises(DataError, match="row 3: 950 lies outside the inferred bounds"):
        looked.predict(odd, strict=True)
    with pytest.raises(DataError, match="read under another schema"):
        looked.predict(replace_schema(rows))


def replace_schema(rows):
    return type(rows)(RECORDS.schema, rows.X)


def test_no_rows_give_no_predictions(manager, looked):
    for each in (manager, looked):
        assert each.predict(TABLE[:0]).shape == (0, 2)


def test_predicting_before_training_says_so(tmp_path):
    manager = Manager(tmp_path / "ws", METHOD)
    with pytest.raises(WrongState, match="train"):
        manager.predict(TABLE)
    manager.close()


LEARNERS = (
    SklearnLearner(),
    XGBoostLearner(threads=1),
    LightGBMLearner(threads=1),
    TorchLearner(),
)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_a_model_from_a_file_matches_a_table_by_name(learner, tmp_path):
    learner.save(learner.fit(RECORDS, effort=2, rng=np.random.default_rng(0)), tmp_path / "model")
    model = learner.load(tmp_path / "model")
    expected = model.predict_proba(LOOK)
    np.testing.assert_array_equal(model.predict_proba(TABLE[TABLE.columns[::-1]].assign(person="p")), expected)
    for rows, message in (
        (TABLE.drop(columns="age"), "lacks 'age'"),
        (TABLE.assign(age=-5), "row 0: -5 lies outside"),
        (LOOK[:, 1:], "6 columns"),
        (TABLE.to_numpy(), "make it a table"),
    ):
        with pytest.raises(DataError, match=message):
            model.predict_proba(rows)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
def test_every_learner_answers_for_unseen_and_missing_values(learner):
    data = RECORDS.to_pandas()
    inferred = Dataset.from_table(data, Schema.infer(data, label="ill"))
    model = learner.fit(inferred, effort=2, rng=np.random.default_rng(0))
    odd = TABLE.astype(object).assign(town="Z", health=None, age=None, income=1e9)
    with pytest.warns(AdjustedRows):
        answers = model.predict_proba(odd)
    assert np.isfinite(answers).all()
    np.testing.assert_allclose(answers.sum(axis=1), 1)


def test_the_exported_model_does_what_its_readme_says(manager, tmp_path):
    export(manager.space, tmp_path / "out")
    assert "matched by name" in (tmp_path / "out" / "README.txt").read_text()
    model = METHOD.learner.load(tmp_path / "out" / "served.model")
    np.testing.assert_array_equal(model.predict_proba(TABLE[TABLE.columns[::-1]]), manager.predict(LOOK))


@pytest.mark.parametrize("what", [pd.DataFrame({"a": [1]}), np.zeros((2, 2)), None], ids=["table", "array", "none"])
def test_a_table_in_place_of_records_is_refused_with_the_next_step(tmp_path, what):
    said = r"expects a Dataset, got \w+: describe a table with schema = Schema.infer\(table, label=…\), then pass"
    manager = Manager(tmp_path / "ws", METHOD, rng=RNG)
    with pytest.raises(DataError, match="Manager.train " + said):
        manager.train(what)
    with pytest.raises(DataError, match="hold_out of Manager.train, unless it is a share of people, " + said):
        manager.train(RECORDS, hold_out=what)
    assert not manager.space.trained
    manager.train(RECORDS)
    with pytest.raises(DataError, match="Manager.add " + said):
        manager.add(what)
    manager.close()


@pytest.mark.parametrize(
    "method", [METHOD, EUPG(LocalDP(1.0), SklearnLearner()), Retrain(SklearnLearner()), SISA(SklearnLearner())]
)
def test_a_table_in_place_of_records_is_refused_without_a_manager_too(method):
    with pytest.raises(DataError, match="training expects a Dataset, got DataFrame"):
        method.train(TABLE, Seeded(1))
