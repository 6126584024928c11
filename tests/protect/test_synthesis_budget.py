"""The privacy argument of a synthesis, question by question, in exact arithmetic.

The budget is added up in fractions. Then whole runs are *replayed*: the answers given on one table are given again on
a table with one person more, whatever noise that takes. How much other noise it takes is the exact privacy loss, which
must stay within ε; and everything released must come out the same to the last bit, since by the proof it depends on
the answers alone.
"""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from eupg.errors import ParameterError
from eupg.learn.noisy import gaussian_delta
from eupg.protect import synthesis, synthesis_features, synthesis_tree
from eupg.protect.exact_noise import exponential_choice
from eupg.protect.synthesis import DPSynthesis
from eupg.protect.synthesis_budget import Budget, Noise, concentrated
from eupg.protect.synthesis_tree import Binned, choose_tree
from eupg.rng import Seeded
from people import people

EPSILONS, RECORDS = st.floats(0.05, 200), st.integers(1, 20)


def costs(budget: Budget, records: int, features: int) -> list[tuple[Noise | Fraction, int]]:
    """Return every question with how often it is asked; the dearer of the two ways to ask about a feature."""
    cut = [(budget.cut, features), (budget.bins, features)]
    single = [(budget.single, features)]
    ways = [sum(times / n.scale**power for n, times in way) for way in (single, cut) for power in (1, 2)]
    dearer = cut if ways[2:] > ways[:2] else single
    pairs = [(budget.choice, features - 1), (budget.pair, features - 1)] if features > 1 else []
    return [(budget.count, 1), *dearer, *pairs]


def epsilon_of(question: Noise | Fraction, records: int) -> Fraction:
    return records / question.scale if isinstance(question, Noise) else 2 * question * records


def rho_of(question: Noise | Fraction, records: int) -> Fraction:
    return epsilon_of(question, records) ** 2 / (2 if isinstance(question, Noise) else 8)


@given(EPSILONS, RECORDS, st.integers(1, 100))
def test_pure_budgets_add_up_to_epsilon_exactly_and_hardly_less(epsilon, records, features):
    budget = Budget.split(epsilon, 0.0, records, features)
    spent = sum(epsilon_of(q, records) * times for q, times in costs(budget, records, features))
    assert Fraction(epsilon) * Fraction(9999, 10000) < spent <= Fraction(epsilon)


@given(st.floats(0.1, 20), st.sampled_from([1e-9, 1e-6, 1e-2]), RECORDS, st.integers(1, 100))
@settings(max_examples=30)
def test_concentrated_budgets_add_up_to_what_implies_epsilon(epsilon, delta, records, features):
    budget = Budget.split(epsilon, delta, records, features)
    spent = float(sum(rho_of(q, records) * times for q, times in costs(budget, records, features)))
    assert 0.999 * concentrated(epsilon, delta) < spent <= concentrated(epsilon, delta)
    assert RdpAccountant().compose(ZCDpEvent(spent)).get_epsilon(delta) <= epsilon
    # Were all questions Gaussian, this would be their exact δ: less than what the conversion allows.
    assert gaussian_delta(math.sqrt(2 * spent), epsilon) <= delta


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (1.0, 1e-6), (4.0, 1e-9), (0.1, 1e-5)])
def test_conversion_agrees_with_opendp(epsilon, delta):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    sigma = math.sqrt(1 / (2 * concentrated(epsilon, delta)))
    space = dp.atom_domain(T=int), dp.absolute_distance(T=float)
    approximate = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=sigma))
    assert approximate.map(1.0).epsilon(delta) == pytest.approx(epsilon, rel=1e-3)
    assert approximate.map(1.0).epsilon(delta) <= epsilon


def test_conversion_is_the_largest_that_fits():
    rho = concentrated(1.0, 1e-6)
    assert RdpAccountant().compose(ZCDpEvent(1.001 * rho)).get_epsilon(1e-6) > 1.0


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-12), (1e-8, 1e-300), (1e-5, 1e-6)])
def test_budget_too_small_for_any_noise_is_refused(epsilon, delta):
    with pytest.raises(ParameterError, match="ask for a larger ε"):
        Budget.split(epsilon, delta, 1, 3)


@pytest.mark.parametrize("epsilon", [1, np.int64(1), np.float32(1), np.float64(1)])
def test_any_kind_of_number_is_the_same_budget(epsilon):
    assert Budget.split(epsilon, 0.0, np.int64(2), 3) == Budget.split(1.0, 0.0, 2, 3)


CODES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 1)), max_size=30)


@given(CODES, CODES.filter(len), st.integers(0, 2**32), st.floats(0, 10))
def test_score_moves_by_at_most_one_for_each_record(records, more, seed, noise):
    rng = np.random.default_rng(seed)
    singles = [rng.uniform(0, 12, (size, 2)) for size in (3, 4)]

    def score(rows: list) -> int:
        codes = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return Binned([codes[:, 0], codes[:, 1]], codes[:, 2], singles).score((0, 1), noise)

    assert abs(score(records + more[:1]) - score(records)) <= 1
    assert abs(score(records + more) - score(records)) <= len(more)


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_score_is_the_distance_from_independence_less_the_cost_of_noise(noise):
    binned = Binned([np.array([0, 0, 1, 1])] * 2, np.zeros(4, dtype=int), [np.full((2, 1), 2.0)] * 2)
    assert binned.score((0, 1), noise) == 4 - 4 * noise


class Questions:
    """Every question of a run, its true answer and the answer given; on a replay, the answers given before."""

    def __init__(self, before=None):
        self.before = before
        self.true, self.given, self.asked, self.people = [], [], [], 0

    def answer(self, question, true, drawn):
        at = len(self.given)
        self.asked.append(question)
        self.true.append(np.asarray(true))
        self.given.append(drawn() if self.before is None else self.before.given[at])
        return self.given[-1]

    def patch(self, monkeypatch):
        """Come between the records and the answers; the total is the first question."""
        split, keep = Budget.split, synthesis.at_most

        def kept(data, records, rng):
            found = keep(data, records, rng)
            self.people = len(found)
            return found

        def counted(places, size, noise, rng):
            true = np.bincount(places, minlength=size)
            return self.answer(noise, true, lambda: (true + noise.draw(size, rng)).astype(float)).copy()

        def measured(binned, pair, budget, rng):
            counts = binned.counts(pair)
            return counted(np.repeat(np.arange(counts.size), counts.ravel()), counts.size, budget.pair, rng).reshape(
                counts.shape
            )

        def chosen(scores, rate, rng):
            return self.answer(rate, scores, lambda: exponential_choice(scores, rate, rng))

        questions = self

        @dataclasses.dataclass(frozen=True)
        class Total(Noise):
            def draw(self, count, rng):
                true = np.array([questions.people])
                given = questions.answer(
                    Noise(self.scale, self.gaussian), true, lambda: true + super(Total, self).draw(count, rng)
                )
                return given - true

        def with_total(*arguments):
            budget = split(*arguments)
            return dataclasses.replace(budget, count=Total(budget.count.scale, budget.count.gaussian))

        monkeypatch.setattr(synthesis.Budget, "split", with_total)
        monkeypatch.setattr(synthesis, "at_most", kept)
        monkeypatch.setattr(synthesis_features, "_count", counted)
        monkeypatch.setattr("eupg.protect.synthesis_model.measure", measured)
        monkeypatch.setattr(synthesis_tree, "exponential_choice", chosen)


def run(mechanism: DPSynthesis, data, seed: int, before: Questions | None = None):
    questions = Questions(before)
    with pytest.MonkeyPatch.context() as patched:
        questions.patch(patched)
        release = mechanism.protect(data, Seeded(seed))
    return questions, release


def with_person(data, records: int, seed: int):
    """Add a person with so many records, each taken from a random row with a random class."""
    rng = np.random.default_rng(seed)
    ids = np.array([f"new {i}" for i in range(records)])
    more = people(records, seed=seed + 1)
    X = np.repeat(more.X[:1], records, axis=0) if seed % 2 else more.X
    new = dataclasses.replace(more, X=X, y=rng.integers(0, 2, records), ids=ids, subjects=np.full(records, "new"))
    return data.plus(new)


def loss(first: Questions, second: Questions) -> tuple[Fraction, Fraction]:
    """Return the most ε and the most ρ that the true answers of two runs are apart, over all questions."""
    epsilon, rho = Fraction(0), Fraction(0)
    for question, one, other in zip(first.asked, first.true, second.true, strict=True):
        apart = np.abs(one.astype(np.int64) - other.astype(np.int64))
        if isinstance(question, Noise):
            epsilon += int(apart.sum()) / question.scale
            rho += int((apart**2).sum()) / (2 * question.scale**2)
        else:
            epsilon += 2 * question * int(apart.max())
            rho += (2 * question * int(apart.max())) ** 2 / 8
    return epsilon, rho


MECHANISMS = [
    DPSynthesis(1.0),
    DPSynthesis(20.0),
    DPSynthesis(3.0, max_records=3),
    DPSynthesis(20.0, rows=40, max_records=2),
    DPSynthesis(5.0, delta=1e-6, max_records=2),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("records", [1, 7])
def test_same_answers_give_the_same_release_within_the_budget_whoever_is_there(mechanism, records):
    for seed in range(4):
        data = people(60, seed=seed)
        more = with_person(data, records, seed)
        for here, there in ((data, more), (more, data)):
            # The others' records that take part must be the same: as many of each as may take part.
            here, there = (d.select(others(d, mechanism.max_records)) for d in (here, there))
            first, release = run(mechanism, here, seed)
            second, again = run(mechanism, there, seed, before=first)
            epsilon, rho = loss(first, second)
            assert 0 < epsilon
            if mechanism.delta:
                assert float(rho) <= concentrated(mechanism.epsilon, mechanism.delta)
            else:
                assert epsilon <= Fraction(mechanism.epsilon)
            assert release.X.tobytes() == again.X.tobytes()
            assert release.y.tobytes() == again.y.tobytes()
            assert release.guarantee == again.guarantee


def others(data, records: int) -> np.ndarray:
    """Return the first few records of everyone but the new person, all of whose records stay."""
    seen: dict[str, int] = {}
    mask = []
    for person in data.subjects.tolist():
        seen[person] = seen.get(person, 0) + 1
        mask.append(person == "new" or seen[person] <= records)
    return np.array(mask)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_questions_asked_cost_what_the_budget_says(mechanism):
    """Counted in a real run: one total, each feature once or twice, a choice and a table for each pair."""
    questions, _ = run(mechanism, people(), 1)
    spent = sum(epsilon_of(q, mechanism.max_records) for q in questions.asked)
    budget = Budget.split(mechanism.epsilon, mechanism.delta, mechanism.max_records, 6)
    assert sum(isinstance(q, Fraction) for q in questions.asked) == 5
    assert [q for q in questions.asked if q == budget.count] == [budget.count]
    assert questions.asked.count(budget.pair) == 5
    assert questions.asked.count(budget.cut) == questions.asked.count(budget.bins)
    assert questions.asked.count(budget.single) + questions.asked.count(budget.cut) == 6
    if not mechanism.delta:
        assert Fraction(mechanism.epsilon) * Fraction(999, 1000) < spent <= Fraction(mechanism.epsilon)


def test_worst_person_uses_up_nearly_all_of_the_counts_budget():
    """The replay can tell: m records in one cell cost m/scale at every count, so noise cut by half would be seen."""
    data = people(60).select(np.arange(60) % 3 == 0)
    more = with_person(data, 5, 1)
    first, _ = run(DPSynthesis(1.0, max_records=5), data, 1)
    second, _ = run(DPSynthesis(1.0, max_records=5), more, 1, before=first)
    assert loss(first, second)[0] > Fraction(9, 10)


def test_tree_connects_all_features_by_one_pair_less():
    rng = np.random.default_rng(0)
    binned = Binned([rng.integers(0, 2, 50) for _ in range(7)], np.zeros(50, dtype=int), [np.full((2, 1), 25.0)] * 7)
    pairs = choose_tree(binned, Budget.split(1.0, 0.0, 1, 7), Seeded(1))
    assert len(pairs) == 6
    part = {i: {i} for i in range(7)}
    for first, second in pairs:
        assert part[first] is not part[second]
        joined = part[first] | part[second]
        part.update(dict.fromkeys(joined, joined))
    assert part[0] == set(range(7))
