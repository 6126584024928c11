"""Try to refute the claim of ``DPSynthesis`` from its answers, question by question, and from whole releases.

Every question is asked by the code that asks it in earnest. A table with 20,000 categories (or classes) gives as many
independent answers at once: all counts of the one table are c, all of the other c + m, as one person's m records change
one of them. Budgets are such that the question at hand has ε = 1: 100,000 answers must not refute it, must refute a
claim a tenth lower, and must refute 1 itself where the noise is cut by half. Everything is seeded.

Beside that, exact probabilities of all outcomes on all neighbours are compared where these are few.
"""

import dataclasses
import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from eupg import EUPG
from eupg.audit.epsilon import epsilon_lower_bound
from eupg.data.attribute import Categorical, Key, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.learn import SklearnLearner
from eupg.protect.synthesis import mechanism as synthesis
from eupg.protect.synthesis.budget import Budget, Noise
from eupg.protect.synthesis.mechanism import DPSynthesis
from eupg.protect.synthesis.questions import Binned, Feature, Shape, choose_tree, column_counts, measure, pair_score
from eupg.rng import Randomness, Seeded
from statistical.refuting import RARE, chi_square, refuted

CELLS, BATCHES = 20_000, 5


class Stream(Randomness):
    """One long seeded stream for many runs in a row; as with the operating system's, all stages draw from it."""

    seeded = True

    def __init__(self, seed):
        self.numbers = np.random.default_rng(seed)

    def stage(self, name):
        return self

    def words(self, count):
        return self.numbers.integers(0, 2**63, size=count, dtype=np.uint64)

    def generator(self):
        return self.numbers


def in_cells(records: int) -> np.ndarray:
    return np.repeat(np.arange(CELLS), records)


def counts_of(column: np.ndarray, y: np.ndarray) -> partial:
    return partial(column_counts, column, y)


def single(records: int, budget: Budget, rng) -> np.ndarray:
    attribute = Categorical(name="c", categories=tuple(map(str, range(CELLS))))
    column = in_cells(records)
    return Feature.ask(
        attribute, counts_of(column.astype(float), np.zeros_like(column)), Shape(1, 2, 2), budget, rng
    ).fine


def cut(records: int, budget: Budget, rng) -> np.ndarray:
    attribute, column = Numeric(name="v", lower=1, upper=CELLS), in_cells(records)
    shape = Shape(1, 2, CELLS)
    return Feature.ask(attribute, counts_of(column + 1.0, np.zeros_like(column)), shape, budget, rng).fine


def bins(records: int, budget: Budget, rng) -> np.ndarray:
    attribute, y = Numeric(name="v", lower=0, upper=9), in_cells(records)
    # The fine counts are those of all classes, and all in the first cell: the bins are the same whoever is there.
    found = Feature.ask(attribute, counts_of(np.zeros(len(y)), y), Shape(CELLS, 2, 10), budget, rng)
    return found.counts[found.bin_of[0]]


def pair(records: int, budget: Budget, rng) -> np.ndarray:
    y = in_cells(records)
    binned = Binned([np.zeros_like(y)] * 2, y, [np.ones((1, CELLS))] * 2)
    return measure(binned, (0, 1), budget, rng).ravel()


def answers(question, records: int, epsilon: float, most: int, seed: int) -> np.ndarray:
    budget = Budget.split(epsilon, 0.0, most, 2)
    return np.concatenate([question(records, budget, Seeded(seed).stage(str(i))) for i in range(BATCHES)]).astype(int)


# The question, and the ε of the whole at which this question has ε = 1, with two features.
QUESTIONS = [
    (single, 2 / 0.30),
    (cut, 2 / (0.30 * 0.25)),
    (bins, 2 / (0.30 * 0.75)),
    (pair, 1 / 0.63),
]


@pytest.mark.parametrize(("question", "epsilon"), QUESTIONS, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize(("least", "most"), [(0, 1), (2, 3)])
def test_count_withstands_and_a_claim_a_tenth_lower_is_refuted(question, epsilon, least, most):
    here, there = answers(question, least, epsilon, most, 1), answers(question, least + most, epsilon, most, 2)
    for first, second in ((here, there), (there, here)):
        assert not refuted(first, second, 1.0)
        assert refuted(first, second, 1 / 1.1)


def half_noise(monkeypatch):
    honest = Noise.draw

    def draw(noise, count, rng):
        return honest(dataclasses.replace(noise, scale=noise.scale / 2), count, rng)

    monkeypatch.setattr(Noise, "draw", draw)


@pytest.mark.parametrize(("question", "epsilon"), QUESTIONS, ids=lambda v: getattr(v, "__name__", ""))
def test_count_with_half_its_noise_is_refuted(question, epsilon, monkeypatch):
    half_noise(monkeypatch)
    assert refuted(answers(question, 2, epsilon, 1, 1), answers(question, 3, epsilon, 1, 2), 1.0)


def test_noise_meant_for_fewer_records_is_refuted():
    """Three records of a person, and noise as for one."""
    epsilon = QUESTIONS[0][1]
    assert refuted(answers(single, 2, epsilon, 1, 1), answers(single, 5, epsilon, 1, 2), 1.0)


LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
TINY = Schema(
    (
        Key(name="person", role=Role.SUBJECT),
        Categorical(name="a", categories=("x", "y")),
        Categorical(name="b", categories=("x", "y")),
        LABEL,
    )
)


def tiny(*persons: list[tuple[int, int, int]]) -> Dataset:
    """Return the records, each (a, b, ill), of some people."""
    rows = np.array([record for records in persons for record in records], dtype=float).reshape(-1, 3)
    names = [f"p{i}" for i, records in enumerate(persons) for _ in records]
    return Dataset(TINY, rows[:, :2], rows[:, 2].astype(int), np.arange(len(rows)).astype(str), np.array(names, str))


def lengths(mechanism: DPSynthesis, data: Dataset, seed: int, runs: int) -> np.ndarray:
    rng = Stream(seed)
    return np.array([len(mechanism.protect(data, rng)) for _ in range(runs)])


@pytest.mark.parametrize(("most", "records"), [(1, 1), (2, 4)])
def test_number_of_rows_withstands_and_is_refuted_at_half_the_claim(most, records, monkeypatch):
    """Of ε = 50 the number of rows has a fiftieth, 1; a person with four records counts for two at most."""
    monkeypatch.setattr(synthesis, "SynthesisModel", Blank)
    base, runs = [[(0, 0, 0)]] * 30, 2000
    here, there = tiny(*base), tiny(*base, [(1, 1, 1)] * records)
    mechanism = DPSynthesis(50.0, max_records=most)
    first, second = lengths(mechanism, here, 1, runs), lengths(mechanism, there, 2, runs)
    assert not refuted(first, second, 1.0)
    assert not refuted(second, first, 1.0)
    assert refuted(first, second, 0.5)
    monkeypatch.setattr(Noise, "draw", lambda noise, count, rng: np.zeros(count, dtype=np.int64))
    assert refuted(lengths(mechanism, here, 1, 300), lengths(mechanism, there, 2, 300), 1.0)


class Blank:
    """A model that asks nothing and draws empty rows: for the number of rows alone."""

    @classmethod
    def ask(cls, *_):
        return cls()

    def draw(self, rows, numbers):
        return np.zeros((rows, 2)), np.zeros(rows, dtype=np.int64)


def empty_but(records: int) -> Binned:
    """Return a table of no record, or one, in which the first pair gains by the record and both others lose by it."""
    code = np.zeros(records, dtype=np.int64)
    return Binned([code] * 3, code, [np.array([[0.7], [3.3]])] * 2 + [np.array([[4.0], [0.0]])])


def first_pairs(records: int, rate: Fraction, seed: int, runs: int = 3000) -> np.ndarray:
    budget = dataclasses.replace(Budget.split(1.0, 0.0, 1, 3), choice=rate)
    pairs = [(0, 1), (0, 2), (1, 2)]
    rng, binned = Stream(seed), empty_but(records)
    return np.array([pairs.index(choose_tree(binned, budget, rng)[0]) for _ in range(runs)])


def test_choice_of_pairs_follows_its_formula_withstands_and_at_twice_its_rate_is_refuted():
    scores = [[pair_score(empty_but(records), p, 0.0) for p in ((0, 1), (0, 2), (1, 2))] for records in (0, 1)]
    assert np.subtract(scores[1], scores[0]).tolist() == [1, -1, -1]
    half = Fraction(1, 2)  # of score, so ε = 1
    none, one = first_pairs(0, half, 1), first_pairs(1, half, 2)
    for seen, score in ((none, scores[0]), (one, scores[1])):
        assert chi_square(np.bincount(seen, minlength=3), np.exp(np.array(score) / 2)) > RARE
    assert not refuted(none, one, 1.0)
    assert not refuted(one, none, 1.0)
    assert refuted(first_pairs(0, 2 * half, 3), first_pairs(1, 2 * half, 4), 1.0)


@pytest.mark.parametrize("most", [1, 2, 5])
@pytest.mark.parametrize("name", ["count", "single", "cut", "bins", "pair"])
def test_all_outcomes_of_a_count_have_likelihoods_within_its_share(name, most):
    """Closed form of the discrete Laplace: exhaustive over outcomes and over changes by up to m, and reached by m."""
    scale = float(getattr(Budget.split(2.0, 0.0, most, 4), name).scale)
    share = {"count": 0.02, "single": 0.3 / 4, "cut": 0.075 / 4, "bins": 0.225 / 4, "pair": 0.63 / 3}[name] * 2.0
    outcomes = np.arange(-400, 401)
    loss = [np.abs(outcomes - change) / scale - np.abs(outcomes) / scale for change in range(-most, most + 1)]
    assert np.abs(loss).max() <= share * (1 + 1e-12)
    assert np.abs(loss).max() > 0.999 * share


def test_all_choices_have_likelihoods_within_their_share():
    """Exhaustive over all tables of up to two records, two classes and three binary features, and one record more."""
    rate = float(Budget.split(1.0, 0.0, 1, 3).choice)
    kinds = list(itertools.product((0, 1), repeat=4))
    rng = np.random.default_rng(0)
    singles = [rng.uniform(0, 3, (2, 2)) for _ in range(3)]

    def chances(records: tuple) -> np.ndarray:
        codes = np.array(records, dtype=np.int64).reshape(-1, 4)
        binned = Binned([codes[:, j] for j in range(3)], codes[:, 3], singles)
        weights = np.exp(rate * np.array([pair_score(binned, p, 2.0) for p in ((0, 1), (0, 2), (1, 2))]))
        return weights / weights.sum()

    worst = 0.0
    for size in range(3):
        for records in itertools.combinations_with_replacement(kinds, size):
            before = chances(records)
            for more in kinds:
                worst = max(worst, float(np.abs(np.log(chances((*records, more)) / before)).max()))
    assert 0 < worst <= 0.05 / 2 + 1e-12


def ones(mechanism: DPSynthesis, data: Dataset, seed: int, runs: int) -> np.ndarray:
    """Count, in each of many releases, the rows that are all ones."""
    found, rng = [], Stream(seed)
    for _ in range(runs):
        release = mechanism.protect(data, rng)
        found.append(int(((release.X == 1).all(axis=1) & (release.y == 1)).sum()))
    return np.array(found)


BASE = [[(0, 0, 0)]] * 10
NOBODY, SOMEBODY = tiny(*BASE), tiny(*BASE, [(1, 1, 1)] * 200)


def test_whole_release_withstands_a_person_with_many_records():
    mechanism = DPSynthesis(1.0, max_records=2, rows=12)
    here, there = ones(mechanism, NOBODY, 1, 400), ones(mechanism, SOMEBODY, 2, 400)
    assert not refuted(here, there, 1.0)
    assert not refuted(there, here, 1.0)


def test_whole_release_is_refuted_where_all_records_of_a_person_take_part(monkeypatch):
    monkeypatch.setattr(synthesis, "at_most", lambda data, records, rng: data)
    mechanism = DPSynthesis(1.0, max_records=2, rows=12)
    assert refuted(ones(mechanism, SOMEBODY, 2, 200), ones(mechanism, NOBODY, 1, 200), 1.0)


def test_whole_release_is_refuted_without_noise(monkeypatch):
    monkeypatch.setattr(Noise, "draw", lambda noise, count, rng: np.zeros(count, dtype=np.int64))
    mechanism = DPSynthesis(1.0, max_records=50, rows=12)
    assert refuted(ones(mechanism, SOMEBODY, 2, 200), ones(mechanism, NOBODY, 1, 200), 1.0)


def belief(mechanism: DPSynthesis, data: Dataset, seed: int, runs: int) -> np.ndarray:
    """Return what base models, each of a release of its own, think of the person's record."""
    method = EUPG(mechanism, SklearnLearner(), pretrain=1, finetune=1)
    rng = Stream(seed)
    models = (method.base(data, rng).model for _ in range(runs))
    return np.array([model.predict_proba(np.ones((1, 2)))[0, 1] for model in models])


def test_base_model_does_not_contradict_the_claim_and_one_without_dropping_does(monkeypatch):
    """The audit's bound on ε, with 99.99 % confidence, from 250 base models with and 250 without the person."""
    mechanism = DPSynthesis(1.0, max_records=2, rows=60)
    claim = mechanism.guarantee(TINY)

    def bound():
        pair = belief(mechanism, SOMEBODY, 1, 250), belief(mechanism, NOBODY, 2, 250)
        return epsilon_lower_bound(*pair, confidence=0.9999)

    assert not bound().contradicts(claim)
    monkeypatch.setattr(synthesis, "at_most", lambda data, records, rng: data)
    assert bound().contradicts(claim)


def test_noise_of_different_questions_is_independent():
    """Sums of the answers of two questions would be too far apart, or too near, if they shared their noise."""
    budget = Budget.split(QUESTIONS[0][1], 0.0, 1, 2)
    rng = Seeded(1)
    one, two, three = (single(0, budget, rng.stage(f"feature {j}")) for j in (0, 1, 12))
    for first, second in itertools.combinations((one, two, three), 2):
        assert abs(np.corrcoef(first, second)[0, 1]) < 6 / math.sqrt(CELLS)
