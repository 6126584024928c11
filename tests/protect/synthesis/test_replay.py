"""The privacy argument of a synthesis on whole runs, in exact arithmetic.

A run is *replayed*: the answers given on one table are given again on a table with one person more, whatever noise that
takes. How much other noise it takes is the exact privacy loss, which must stay within ε; and everything released must
come out the same to the last bit, since by the proof it depends on the answers alone.
"""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from eupg.protect.noise.discrete import exponential_choice
from eupg.protect.synthesis import mechanism as synthesis
from eupg.protect.synthesis import questions as synthesis_questions
from eupg.protect.synthesis.budget import Budget, Noise, concentrated
from eupg.protect.synthesis.mechanism import DPSynthesis
from eupg.rng import Seeded
from people import people


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

        def noisy(counts, noise, rng):
            true = counts.ravel()
            given = self.answer(noise, true, lambda: (true + noise.draw(true.size, rng)).astype(float))
            return given.reshape(counts.shape).copy()

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
        monkeypatch.setattr(synthesis_questions, "_noisy", noisy)
        monkeypatch.setattr(synthesis_questions, "exponential_choice", chosen)


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
    for seed in range(3):
        data = people(60, seed=seed)
        more = with_person(data, records, seed)
        # The others' records that take part must be the same: as many of each as may take part.
        tables = [d.select(others(d, mechanism.max_records)) for d in (data, more)]
        for here, there in (tables, tables[::-1]):
            first, release = run(mechanism, here, seed)
            second, again = run(mechanism, there, seed, before=first)
            epsilon, rho = loss(first, second)
            assert epsilon > 0
            if mechanism.delta:
                assert float(rho) <= concentrated(mechanism.epsilon, mechanism.delta)
            else:
                assert epsilon <= Fraction(mechanism.epsilon)
            assert release.X.tobytes() == again.X.tobytes()
            assert release.y.tobytes() == again.y.tobytes()
            assert release.guarantee == again.guarantee


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_same_answers_give_the_same_release_whatever_the_table(mechanism):
    """No size, shape, branch or order may come from the records themselves: not even those of quite another table."""
    data = people(60)
    first, release = run(mechanism, data, 1)
    for other in (people(900, seed=5), data.select(np.zeros(60, dtype=bool)), data.select(data.y == 1)):
        _, again = run(mechanism, other, 1, before=first)
        assert release.X.tobytes() == again.X.tobytes()
        assert release.y.tobytes() == again.y.tobytes()


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
    most = mechanism.max_records
    spent = sum(most / q.scale if isinstance(q, Noise) else 2 * q * most for q in questions.asked)
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


def test_every_question_draws_from_a_stream_of_its_own(monkeypatch):
    """Two answers with the same noise would cancel it out."""
    streams, draw = [], Noise.draw

    def noted(noise, count, rng):
        streams.append(rng.path)
        return draw(noise, count, rng)

    def chosen(scores, rate, rng):
        streams.append(rng.path)
        return exponential_choice(scores, rate, rng)

    monkeypatch.setattr(Noise, "draw", noted)
    monkeypatch.setattr(synthesis_questions, "exponential_choice", chosen)
    DPSynthesis(20.0).protect(people(), Seeded(1))
    assert len(streams) >= 1 + 6 + 5 + 5
    assert len(set(streams)) == len(streams)
