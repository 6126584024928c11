import struct
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from eupg import EUPGClassifier
from eupg.data.attribute import Categorical, Ordinal, Role
from eupg.data.schema import Schema
from eupg.errors import DataError, ParameterError, UnknownRecord
from eupg.guarantees.wording import NO_PERSON, REQUESTS_APART
from eupg.learn import MLP, SklearnLearner, TorchLearner, XGBoostLearner
from eupg.protect import LocalDP, ProbabilisticKAnonymity
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
    assert quick(schema=SCHEMA).fit(X, y).claim_.caveats == (NO_PERSON, REQUESTS_APART)
    said = " ".join(quick().fit(X, y).claim_.caveats)
    assert all(f"'{name}'" in said for name in (*X.columns, "label"))
    with pytest.raises(DataError, match=r"'town'.*categories the schema does not list"):
        quick(schema=SCHEMA).fit(X.assign(town="Z"), y)
    with pytest.raises(ParameterError, match="not a column of X"):
        quick(schema=SCHEMA).fit(X.drop(columns="town"), y)


def labelled(**changes):
    return Schema((*SCHEMA.attributes[:-1], replace(SCHEMA.label, **changes)))


def test_declared_label_keeps_its_own_caveat(table):
    X, y, _ = table
    claim = quick(schema=labelled(inferred=("categories",))).fit(X, y).claim_
    assert [c.split(" read")[0] for c in claim.caveats] == [NO_PERSON, "categories of 'ill'", REQUESTS_APART]


def test_class_that_the_declared_label_does_not_list_is_refused(table):
    X, y, _ = table
    odd = np.where(np.arange(200) < 3, "perhaps", y.astype("U7"))
    with pytest.raises(
        DataError, match="class 'perhaps' in 3 of 200 rows, which the label 'ill' does not list: add it"
    ):
        quick(schema=SCHEMA).fit(X, odd)


def test_declared_class_that_does_not_occur_makes_the_classes_inferred(table):
    X, y, _ = table
    model = quick(schema=labelled(categories=("never", "no", "yes"))).fit(X, y)
    assert list(model.classes_) == ["no", "yes"]
    assert model.predict_proba(X).shape == (200, 2)
    assert [c.split(" read")[0] for c in model.claim_.caveats] == [NO_PERSON, "categories of 'ill'", REQUESTS_APART]


@pytest.mark.parametrize("kind", [int, float, str, np.float32])
def test_classes_are_compared_with_the_declared_ones_as_text(table, kind):
    X, y, _ = table
    numbers = (y == "yes").astype(int).astype(kind)
    model = quick(schema=labelled(categories=("0", "1"))).fit(X, numbers)
    assert model.claim_.caveats == (NO_PERSON, REQUESTS_APART)
    assert model.classes_.tolist() == sorted({*numbers.tolist()})


@pytest.mark.parametrize(
    "label",
    [
        Ordinal(name="ill", role=Role.LABEL, categories=("yes", "no", "never"), other="never"),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes", "never"), hierarchy={"never": "none"}),
    ],
    ids=["ordinal", "hierarchy"],
)
def test_any_kind_of_declared_label_works_though_a_class_does_not_occur(table, label):
    X, y, _ = table
    assert quick(schema=Schema((*SCHEMA.attributes[:-1], label))).fit(X, y).score(X, y) > 0.7


def test_extreme_value_of_a_forgotten_record_stays_neither_in_the_schema_nor_in_a_file(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 100, (200, 2)), np.arange(200) % 2
    X[7] = (4242.5, -1313.25)
    model = quick().fit(X, y).forget(records=[7])
    for trained in (model._trained.model, model._trained.memory):
        model._method.learner.save(trained, tmp_path / "model")
        content = (tmp_path / "model").read_bytes() + repr((model._schema, trained.schema)).encode()
        for value in (4242.5, 1313.25, -1313.25):
            assert str(abs(value)).encode() not in content
            assert struct.pack("<d", value) not in content
            assert struct.pack("<f", value) not in content


def test_claim_says_whether_people_are_known(table):
    X, y, subjects = table
    unknown = "other records of the same person are not known here"
    alone = quick().fit(X, y)
    for claim in (alone.claim_, alone.claim_for(records=["3"])):
        assert "record-level" in claim.sentence()
        assert unknown in claim.sentence()
    named = quick().fit(X, y, subjects=subjects)
    for claim in (named.claim_, named.claim_for(subjects=["p3"])):
        assert "record-level" not in claim.sentence()
    part = named.claim_for(records=["9"]).sentence()
    assert "about the forgotten records, while 2 other records of the same person are kept" in part
    assert unknown not in part


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


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"records": "12"}, r"a list of names, such as records=\['12'\], not the single '12'"),
        ({"subjects": 12}, "a list of names, such as subjects=.*, not the single 12"),
        ({}, "either records"),
        ({"records": ["1"], "subjects": ["p1"]}, "either records"),
        ({"records": []}, "records=.* does not say whom to forget: the list is empty; pass one or more names"),
        ({"subjects": ()}, "subjects=.* does not say whom to forget: the list is empty"),
        ({"subjects": ["p1", None]}, "does not say whom to forget: 1 of 2 names are empty"),
    ],
)
@pytest.mark.parametrize("ask", [EUPGClassifier.forget, EUPGClassifier.claim_for], ids=["forget", "claim"])
def test_request_that_names_nobody_is_refused(table, ask, request_, said):
    X, y, subjects = table
    with pytest.raises(ParameterError, match=said):
        ask(quick().fit(X, y, subjects=subjects), **request_)


@pytest.mark.parametrize("kind", [int, float, str, np.float32])
@pytest.mark.parametrize("asked", [125024, 125024.0, "125024", np.int64(125024)], ids=repr)
def test_people_are_found_by_number_or_text(table, kind, asked):
    X, y, _ = table
    numbers = pd.Series(125000 + np.arange(200) // 4).astype(kind)
    model = quick().fit(X, y, subjects=numbers, records=(np.arange(200) + 900).astype(kind))
    assert model.claim_for(subjects=[asked]).bound == pytest.approx(4 / 5)
    assert len(model.forget(subjects=[asked]).record_ids_) == 196
    assert len(model.forget(records=[type(asked)(900)]).record_ids_) == 195


@pytest.mark.parametrize("missing", [None, np.nan])
@pytest.mark.parametrize("name", ["a", 7])
@pytest.mark.parametrize("what", ["subjects", "records"])
def test_row_without_a_name_is_refused_with_the_count(table, what, name, missing):
    X, y, _ = table
    with pytest.raises(ParameterError, match=f"2 of 200 rows have no name in {what}: fill them in, or drop"):
        quick().fit(X, y, **{what: [missing, *([name] * 198), missing]})


def test_names_in_a_column_of_a_table_are_taken(table):
    X, y, subjects = table
    assert len(quick().fit(X, y, subjects=pd.DataFrame({"p": subjects})).forget(subjects=["p3"]).record_ids_) == 197


def test_column_that_occurs_twice_is_refused(table):
    X, y, _ = table
    twice = pd.concat([X, X[["age"]]], axis=1)
    with pytest.raises(DataError, match="column 'age' occurs more than once: rename or drop the others"):
        quick().fit(twice, y)


def test_own_record_ids(table):
    X, y, _ = table
    ids = [f"id{i}" for i in range(200)]
    model = quick().fit(X, y, records=ids)
    assert model.forget(records=["id9"]).record_ids_[9] == "id10"
    with pytest.raises(ParameterError, match="record ids repeat"):
        quick().fit(X, y, records=["same"] * 200)
    with pytest.raises(ParameterError, match="one per row"):
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


def test_target_with_hundreds_of_values_is_refused_unless_it_is_declared():
    # Two rows per value: scikit-learn's own warning stays silent here.
    X, y = people(400).to_pandas().drop(columns="ill"), np.arange(400) // 2
    with pytest.raises(ValueError, match="y has 200 distinct values in 400 rows, and only classification is supported"):
        quick().fit(X, y)
    declared = labelled(categories=tuple(map(str, range(200))))
    assert len(quick(schema=declared).fit(X, y).classes_) == 200


def test_columns_of_X_are_features_though_all_their_numbers_differ():
    X = pd.DataFrame({"income": np.arange(100), "age": np.arange(100) // 2})
    assert quick().fit(X, np.arange(100) % 2).predict_proba(X).shape == (100, 2)


def test_marks_tell_which_rows_were_adjusted(table):
    X, y, _ = table
    model = quick().fit(X, y)
    odd = X.iloc[:3].copy()
    odd.iloc[1, odd.columns.get_loc("age")], odd.iloc[2, odd.columns.get_loc("town")] = 150, "Z"
    assert model.rows(odd).notes() == ["", "age: clipped", "town: unseen category"]
    np.testing.assert_array_equal(model.predict_proba(odd)[:1], model.predict_proba(X)[:1])


def test_a_value_beyond_declared_bounds_is_refused_with_its_row(table):
    X, y, _ = table
    model = quick(schema=SCHEMA).fit(X, y)
    with pytest.raises(DataError, match="column 'age', row r0: -5 lies outside the declared bounds 0 to 100"):
        model.predict(X.assign(age=-5))


def test_columns_in_another_order_are_refused_as_scikit_learn_asks(table):
    X, y, _ = table
    with pytest.raises(ValueError, match="same order as they were in fit"):
        quick().fit(X, y).predict(X[X.columns[::-1]])


def test_an_array_after_a_table_is_read_in_the_order_of_that_table(table):
    X, y, _ = table
    model = quick(schema=Schema((*SCHEMA.attributes[2:3], *SCHEMA.attributes[1:2], SCHEMA.label)))
    numbers = X[["age", "income"]]
    expected = model.fit(numbers, y).predict_proba(numbers)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(model.predict_proba(numbers.to_numpy()), expected)


def nested():
    yield XGBoostLearner(threads=1, max_depth=2), {"learner__max_depth": [1, 3]}
    yield TorchLearner(MLP(hidden=(4,))), {"learner__network__hidden": [(2,), (3,)], "learner__batch_size": [64]}
    yield SklearnLearner(), {"learner__estimator__alpha": [1e-3, 1e-2]}
    yield SklearnLearner(), {"guarantee__k": [4, 6]}


@pytest.mark.parametrize(
    ("learner", "grid"), list(nested()), ids=lambda value: next(iter(value)) if isinstance(value, dict) else ""
)
def test_grid_search_over_settings_of_the_learner_and_the_guarantee(table, learner, grid):
    X, y, _ = table
    model = EUPGClassifier(ProbabilisticKAnonymity(k=5), learner, pretrain=2, finetune=1, random_state=7)
    before = repr(learner)
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    for name, choices in grid.items():
        assert search.best_params_[name] in choices
        assert search.best_estimator_.get_params()[name] == search.best_params_[name]
    assert repr(learner) == before, "the learner that was passed stays as it is"
    assert model.learner is learner


def test_nested_parameters_are_listed_set_and_cloned():
    model = EUPGClassifier(ProbabilisticKAnonymity(k=5), XGBoostLearner(max_depth=2))
    assert {"guarantee__k": 5, "learner__max_depth": 2}.items() <= model.get_params().items()
    assert "learner__max_depth" not in model.get_params(deep=False)
    copy = clone(model).set_params(learner__max_depth=4, guarantee__k=9, finetune=3)
    assert (copy.learner, copy.guarantee) == (XGBoostLearner(max_depth=4), ProbabilisticKAnonymity(k=9))
    assert (copy.finetune, model.learner, model.guarantee.k) == (3, XGBoostLearner(max_depth=2), 5)
    other = copy.set_params(learner=SklearnLearner(), learner__estimator__alpha=0.5)
    assert other.learner.estimator.alpha == 0.5
    pipeline = make_pipeline(StandardScaler(), model).set_params(eupgclassifier__learner__max_depth=6)
    assert pipeline.get_params()["eupgclassifier__learner__max_depth"] == 6
    assert "EUPGClassifier" in repr(model)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("learner__depth", r"no parameter learner__depth: XGBoostLearner has \['max_depth', .*name one of these"),
        (
            "guarantee__k",
            "no parameter guarantee__k: guarantee is None, which has no settings; .*pass another guarantee",
        ),
        ("learner__max_depth__x", "no parameter learner__max_depth__x: learner__max_depth is 2, which has no settings"),
        ("depth", "Invalid parameter 'depth'"),
    ],
)
def test_an_unknown_nested_parameter_is_named(name, said):
    with pytest.raises(ValueError, match=said):
        EUPGClassifier(learner=XGBoostLearner(max_depth=2)).set_params(**{name: 3})


def test_a_nested_value_that_cannot_be_is_refused_by_its_owner():
    with pytest.raises(ParameterError, match="max_depth must be a whole number"):
        EUPGClassifier(learner=XGBoostLearner()).set_params(learner__max_depth=0)
