import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from eupg import EUPGClassifier, LocalDP, ProbabilisticKAnonymity, SklearnLearner, XGBoostLearner
from eupg.errors import DataError, ParameterError, UnknownRecord
from people import SCHEMA, people


def estimators():
    yield EUPGClassifier(ProbabilisticKAnonymity(k=2), SklearnLearner(), pretrain=20, finetune=20)
    yield EUPGClassifier(LocalDP(epsilon=200.0), XGBoostLearner(threads=1), pretrain=10, finetune=10)


@pytest.mark.parametrize(
    ("estimator", "check"), [pair for e in estimators() for pair in estimator_checks_generator(e, mark="skip")]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture
def table():
    data = people(200)
    frame = data.to_pandas()
    return frame.drop(columns="ill"), frame["ill"].to_numpy(), data.subjects


def quick(**options):
    return EUPGClassifier(
        ProbabilisticKAnonymity(k=5), SklearnLearner(), pretrain=5, finetune=2, **({"random_state": 7} | options)
    )


def test_data_frame_with_text_and_missing_values(table):
    X, y, _ = table
    model = quick().fit(X, y)
    assert list(model.feature_names_in_) == list(X.columns)
    assert model.score(X, y) > 0.7
    assert model.predict_proba(X).shape == (200, 2)
    assert set(model.predict(X)) <= {"no", "yes"}


def test_polars_frame_gives_the_same_model(table):
    X, y, _ = table
    same = quick().fit(pl.from_pandas(X), y).predict_proba(pl.from_pandas(X))
    np.testing.assert_array_equal(same, quick().fit(X, y).predict_proba(X))


def test_unseen_category_and_number_are_accepted_when_predicting(table):
    X, y, _ = table
    model = quick().fit(X, y)
    odd = X.iloc[:2].assign(town="Z", age=150)
    assert np.isfinite(model.predict_proba(odd)).all()


def test_declared_schema_makes_the_bounds_public(table):
    X, y, _ = table
    assert quick(schema=SCHEMA).fit(X, y).claim_.caveats == ()
    assert len(quick().fit(X, y).claim_.caveats) == 7
    with pytest.raises(DataError, match=r"'town'.*categories the schema does not list"):
        quick(schema=SCHEMA).fit(X.assign(town="Z"), y)
    with pytest.raises(ParameterError, match="not a column of X"):
        quick(schema=SCHEMA).fit(X.drop(columns="town"), y)


def test_forgetting_people_and_records(table):
    X, y, subjects = table
    model = quick().fit(X, y, subjects=subjects)
    before = model.predict_proba(X)
    assert model.claim_for(subjects=["p3"]).bound == pytest.approx(3 / 5)
    model.forget(subjects=["p3"])
    assert len(model.record_ids_) == 197
    assert not np.array_equal(before, model.predict_proba(X))
    model.forget(records=[0, 1])
    assert len(model.record_ids_) == 195
    with pytest.raises(UnknownRecord, match="already forgotten"):
        model.forget(subjects=["p3"])
    with pytest.raises(ParameterError, match="a list of names"):
        model.forget(records="12")
    with pytest.raises(ParameterError, match="either records"):
        model.forget()


def test_own_record_ids(table):
    X, y, _ = table
    ids = [f"id{i}" for i in range(200)]
    model = quick().fit(X, y, records=ids)
    assert model.forget(records=["id9"]).record_ids_[9] == "id10"
    with pytest.raises(ParameterError, match="record ids repeat"):
        quick().fit(X, y, records=["same"] * 200)
    with pytest.raises(ParameterError, match="one a row"):
        quick().fit(X, y, subjects=["p1"])


def test_real_randomness_unless_a_state_is_given(table):
    X, y, _ = table
    model = quick(random_state=None)
    assert not model.fit(X, y).claim_.seeded
    assert not np.array_equal(model.predict_proba(X), model.fit(X, y).predict_proba(X))
    assert quick().fit(X, y).claim_.seeded
    np.testing.assert_array_equal(quick().fit(X, y).predict_proba(X), quick().fit(X, y).predict_proba(X))


def test_pipeline_clone_cross_validation_and_grid_search(table):
    X, y, subjects = table
    numbers = X[["age", "income"]]
    pipeline = make_pipeline(StandardScaler(), quick())
    assert clone(pipeline).fit(numbers, y).score(numbers, y) > 0.6
    assert cross_val_score(quick(), X, y, groups=subjects, cv=GroupKFold(3)).mean() > 0.6
    grid = {"guarantee": [ProbabilisticKAnonymity(k=3), LocalDP(epsilon=5.0)], "finetune": [1, 3]}
    search = GridSearchCV(quick(), grid, cv=2).fit(X, y)
    assert search.best_params_["finetune"] in (1, 3)


def test_integer_column_names(table):
    _, y, _ = table
    model = quick().fit(pd.DataFrame(np.arange(400.0).reshape(200, 2)), y)
    assert model.n_features_in_ == 2


def test_fewer_rows_than_k_names_the_remedy(table):
    X, y, _ = table
    with pytest.raises(DataError, match="k=30 needs at least 30 records, got 20: lower k"):
        EUPGClassifier().fit(X[:20], y[:20])
