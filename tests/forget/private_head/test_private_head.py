"""The private head: exact contributions, an exact account, and a model that hardly depends on anyone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg import EUPG, Dataset, Manager, Seeded
from eupg.checks import check_unlearner
from eupg.data.score import accuracy
from eupg.data.vector import GRID, on_grid
from eupg.errors import DataError, ParameterError, PrivacyError
from eupg.forget import PrivateHead
from eupg.forget.private_head import descent
from eupg.forget.private_head.descent import HeadDescent
from eupg.forget.private_head.noisy_answers import GradientSums, HeadDesign, VectorAnswers
from eupg.forget.private_trees.budget import GaussianBudget
from eupg.guarantees import DifferentiallyPrivate
from eupg.guarantees.guarantee import Unit
from eupg.learn import HeadLearner, SklearnLearner
from eupg.learn.heads.model import HeadModel
from people import people
from vectors import vector_schema, vectors

RNG = Seeded(3)


def method(epsilon: float = 1.0, **settings: Any) -> EUPG:
    return EUPG(PrivateHead(epsilon, **settings), HeadLearner(), pretrain=1, finetune=0, exposure=0)


def design(dimension: int, classes: int, residual: float = 0.5) -> HeadDesign:
    return HeadDesign(np.full(dimension, 300), 1000, residual, classes)


def norm_squared(whole: Any) -> int:
    return sum(int(value) ** 2 for value in whole.ravel())


class TestContributions:
    @settings(max_examples=40, deadline=None)
    @given(st.integers(0, 10**6), st.sampled_from([2, 3, 7]), st.integers(1, 6), st.integers(20, 41))
    def test_no_person_contributes_more_than_the_bound_by_whole_numbers(self, seed, classes, records, bits):
        rng = np.random.default_rng(seed)
        # One direction and one class, which is the worst case of a cut, or several.
        X = on_grid(rng.normal(size=(1 if seed % 2 else records, 6)).repeat(records if seed % 2 else 1, axis=0))
        y = rng.integers(0, classes, records) if seed % 3 else np.zeros(records, dtype=np.int64)
        sums = GradientSums(design(6, classes), X, y, np.array([0, records]), 2**bits)
        weights = rng.normal(size=(7, 1 if classes == 2 else classes)) * 10.0 ** rng.integers(-2, 6)
        assert norm_squared(sums(weights)) <= (2**bits) ** 2

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10**6), st.sampled_from([2, 4]))
    def test_no_record_contributes_more_than_the_bound(self, seed, classes):
        rng = np.random.default_rng(seed)
        X, y = on_grid(rng.normal(size=(1, 9))), rng.integers(0, classes, 1)
        sums = GradientSums(design(9, classes), X, y, None, 2**35)
        value = norm_squared(sums(rng.normal(size=(10, 1 if classes == 2 else classes)) * 30))
        assert value <= 2**70

    @pytest.mark.parametrize("records", [1, 2, 5])
    def test_counts_and_sums_of_vectors_of_one_person_stay_within_the_bound(self, records, monkeypatch):
        """All records alike, which is the worst case; half of the weight or more shows that the bound is used."""
        asked: list[tuple[Any, int]] = []
        answers = VectorAnswers(
            on_grid(np.ones((records, 6))),
            np.zeros(records, dtype=np.int64),
            np.array([0, records]) if records > 1 else None,
            GaussianBudget(1.0),
            RNG,
        )

        def noisy(values: Any, bound: int) -> Any:
            asked.append((values, bound))
            return values.astype(np.float64)

        monkeypatch.setattr(answers.account, "noisy", noisy)
        answers.units(0.1)
        answers.total(0.1)
        for values, bound in asked:
            assert bound**2 / 4 <= norm_squared(values) <= bound**2

    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("each", [1, 4])
    def test_a_persons_contribution_does_not_depend_on_the_others(self, classes, each):
        """Summed with 1,999 others or alone, whatever the number of rows per block: the same whole numbers."""
        data = vectors(2000, 40, classes, each=each)
        weights = np.random.default_rng(1).normal(size=(41, 1 if classes == 2 else classes)) * 3
        people = np.arange(0, 2001, each) if each > 1 else None

        def total(rows: slice) -> Any:
            starts = None if people is None else np.arange(0, rows.stop - rows.start + 1, each)
            return GradientSums(design(40, classes), data.X[rows], data.y[rows], starts, 2**34)(weights)

        without = total(slice(0, 1000)) + total(slice(1000, 2000))
        assert (total(slice(0, 2000)) == without).all()
        one = total(slice(0, 4))
        assert (total(slice(0, 2000)) - total(slice(4, 2000)) == one).all()

    def test_gradient_is_that_of_the_loss(self):
        data = vectors(300, 6, 3, named=False)
        plain = HeadDesign(np.zeros(6, dtype=np.int64), 1000, 2.0, 3)
        sums = GradientSums(plain, data.X, data.y, None, 2**40)
        weights = np.random.default_rng(2).normal(size=(7, 3))
        X = np.column_stack([np.full(300, 1000 / GRID), on_grid(data.X) / GRID])

        def loss(w: Any) -> float:
            margins = X @ w
            return float((np.log(np.exp(margins).sum(axis=1)) - margins[np.arange(300), data.y]).sum())

        unit = plain.residual * plain.norm / GRID / 2**40
        for i, k in ((0, 0), (3, 2), (6, 1)):
            step = np.zeros((7, 3))
            step[i, k] = 1e-5
            assert sums(weights)[i, k] * unit == pytest.approx(
                (loss(weights + step) - loss(weights - step)) / 2e-5, rel=1e-4, abs=1e-3
            )


class TestAccount:
    @pytest.mark.parametrize("epsilon", [0.25, 1.0, 8.0])
    def test_budget_is_used_up_and_not_exceeded(self, epsilon):
        data, head = vectors(200, named=False), PrivateHead(epsilon)
        assert isinstance(head.budget, GaussianBudget)
        answers = VectorAnswers(data.X, data.y, None, head.budget, RNG)
        HeadDescent(vector_schema(named=False), head.budget).fit(answers, effort=1)
        assert 0.999 * head.budget.limit < answers.account.spent <= head.budget.limit

    def test_a_question_beyond_the_budget_is_refused(self):
        data = vectors(60, named=False)
        answers = VectorAnswers(data.X, data.y, None, GaussianBudget(0.3), RNG)
        answers.total(0.25)
        with pytest.raises(PrivacyError, match="beyond the budget"):
            answers.units(0.25)

    def test_noise_of_each_answer_is_that_of_its_ratio(self):
        data = vectors(60, 400, named=False)
        answers = VectorAnswers(data.X, data.y, None, GaussianBudget(1.0), RNG)
        exact = data.X.sum(axis=0) / GRID
        assert (answers.total(0.1) - exact).std() == pytest.approx(1 / 0.1, rel=0.15)
        plan = design(400, 2)
        noise = answers.gradients(plan, 0.1)(np.zeros((401, 1))) - answers.gradients(plan, 0.9)(np.zeros((401, 1)))
        expected = plan.residual * plan.norm / GRID * np.hypot(1 / 0.1, 1 / 0.9)
        assert noise.std() == pytest.approx(expected, rel=0.15)

    def test_training_sees_the_records_through_answers_alone(self):
        """Two tables that give the same answers give the same model: none is asked for anything else."""

        class Constant(VectorAnswers):
            def units(self, ratio: float) -> float:
                return 500.0

            def total(self, ratio: float) -> Any:
                return np.full(8, 20.0)

            def gradients(self, design: HeadDesign, ratio: float) -> Any:
                return lambda weights: weights + 1.0

        schema, budget = vector_schema(named=False), GaussianBudget(0.3)
        models = [
            HeadDescent(schema, budget).fit(Constant(d.X, d.y, None, budget, RNG), effort=1)
            for d in (vectors(40), vectors(400, seed=2))
        ]
        assert (models[0].weights == models[1].weights).all()
        assert descent._COUNTING + descent._CENTRE < 1


@pytest.mark.parametrize("classes", [2, 4])
class TestModel:
    def test_it_learns_and_survives_a_file(self, classes, tmp_path):
        train, test = vectors(6000, 16, classes, named=False), vectors(1000, 16, classes, seed=1, named=False)
        trained = method(2.0).train(train, RNG)
        assert accuracy(trained.model.predict_proba(test.X), test.y) > 85
        HeadLearner().save(trained.model, tmp_path / "model")
        again = HeadLearner().load(tmp_path / "model")
        assert isinstance(again, HeadModel)
        assert (again.predict_proba(test.X) == trained.model.predict_proba(test.X)).all()
        assert "p7" not in (tmp_path / "model").read_text(encoding="latin-1")

    def test_contract_of_unlearners_is_kept(self, classes):
        check_unlearner(method(max_records=2), vectors(120, classes=classes))


def test_erasing_changes_nothing_and_the_claim_covers_the_whole_record_and_its_label():
    data = vectors(240)
    head = method()
    trained = head.train(data, RNG)
    assert head.forget(trained, data.select(~data.where_subjects(["p7"])), RNG).model is trained.model
    claim = trained.claim
    assert isinstance(claim, DifferentiallyPrivate)
    assert claim.covers == ("text", "kind")
    assert (claim.unit, claim.epsilon, claim.delta) == (Unit.PERSON, 1.0, 1e-5)
    assert any("public features of toy" in caveat for caveat in claim.caveats)


def test_an_author_of_a_thousand_texts_counts_as_one():
    """With one record per person, the same texts by one author and by a thousand differ in one record."""
    data = vectors(1000, named=False)
    one = Dataset(vector_schema(), data.X, data.y, data.ids, np.full(1000, "ada"))
    used = PrivateHead(1.0).used_records(one, RNG)
    assert len(used[1]) == 1
    assert len(PrivateHead(1.0, max_records=5).used_records(one, RNG)[1]) == 5


def test_settings_that_weaken_the_claim_are_refused():
    with pytest.raises(ParameterError, match="delta must be a finite number above 0"):
        PrivateHead(1.0, delta=0)
    with pytest.raises(ParameterError, match="cannot reach delta"):
        PrivateHead(1.0, delta=1e-17)
    with pytest.raises(ParameterError, match="use HeadLearner"):
        EUPG(PrivateHead(1.0), SklearnLearner(), exposure=0)
    with pytest.raises(DataError, match="works on vectors of public features, and this schema describes tables"):
        method().train(people(30), RNG)
    with pytest.raises(ParameterError, match="cannot go on from a given model"):
        EUPG(PrivateHead(1.0), HeadLearner(), exposure=0.5)


def test_manager_honours_a_request_without_training(tmp_path):
    manager = Manager(tmp_path / "ws", method(max_records=3), rng=RNG)
    manager.train(vectors(240), hold_out=vectors(3, seed=2).select(np.zeros(3, dtype=bool)))
    before = manager.space.state().served
    manager.request_erasure(subject="p7")
    assert not manager.forget().trained
    assert manager.space.state().served == before
    assert "differential" in str(manager.certify().to_json())
    manager.close()
    again = Manager(tmp_path / "ws")
    assert again.predict(vectors(5).X).shape == (5, 2)
    again.close()
