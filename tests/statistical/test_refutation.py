"""Try to refute the claims from outputs alone; and show that the same test refutes a mechanism that breaks its claim.

The test is exact (``refuting.refuted``): with α = 1e-6 a true claim is refuted at most once in a million tests; at
n = 100,000 a true ε of 1.1 against a claimed 1.0 is found.
"""

import dataclasses

import numpy as np
import pytest

from eupg.audit.releases.linkage import linkage
from eupg.data.attribute import Categorical, Numeric, Ordinal, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.protect.channel import LaplaceChannel, randomised_response
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.protect.local_dp import LocalDP
from eupg.protect.release import Release
from eupg.rng import Secret, Seeded
from people import SCHEMA, people
from statistical.refuting import ALPHA, refuted

N = 100_000
LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))


def extremes(channel, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = Seeded(seed)
    last = channel.size - 1
    return channel.sample(np.zeros(N, int), rng), channel.sample(np.full(N, last), rng)


@pytest.mark.parametrize("build", [lambda e: LaplaceChannel.build(12, e), lambda e: randomised_response(6, e)])
def test_channel_withstands_and_a_channel_ten_percent_over_is_refuted(build):
    for a, b in (extremes(build(1.0), 1), extremes(build(1.0), 2)[::-1]):
        assert not refuted(a, b, 1.0)
    assert refuted(*extremes(build(1.1), 1), 1.0)


def record(value: float, town: int, rank: int, rows: int) -> Dataset:
    schema = Schema(
        (
            Numeric(name="v", lower=0, upper=4),
            Categorical(name="town", categories=("a", "b", "c")),
            Ordinal(name="rank", categories=("low", "mid", "high")),
            LABEL,
        )
    )
    X = np.tile([value, town, rank], (rows, 1)).astype(float)
    return Dataset(schema, X, np.zeros(rows, int), *[np.arange(rows).astype(str)] * 2)


def outcomes(mechanism: LocalDP, data: Dataset, seed: int) -> np.ndarray:
    """Number each released record by all of its attributes together."""
    X = mechanism.protect(data, Seeded(seed)).X
    return (X @ [1, 10, 100]).astype(int)


def test_whole_record_withstands_and_a_budget_spent_twice_is_refuted():
    """The record, not the attribute, is the unit: all attributes together must stay within ε."""
    here, there = record(0, 0, 0, N), record(4, 2, 2, N)
    honest = LocalDP(1.0)
    assert not refuted(outcomes(honest, here, 1), outcomes(honest, there, 2), 1.0)

    class SpendsEverywhere(LocalDP):
        """Forgets to split the budget: each attribute gets all of ε."""

        def _channels(self, schema, embeddings):
            return LocalDP(self.epsilon * len(schema.features))._channels(schema, embeddings)

    broken = SpendsEverywhere(1.0)
    assert refuted(outcomes(broken, here, 1), outcomes(broken, there, 2), 1.0)


def test_presence_of_a_value_is_covered():
    """A missing value is one more input: present against missing must stay within the attribute's share."""
    schema = Schema((dataclasses.replace(SCHEMA["score"], resolution=0.5), LABEL))

    def released(value: float, epsilon: float) -> np.ndarray:
        data = Dataset(schema, np.full((N, 1), value), np.zeros(N, int), *[np.arange(N).astype(str)] * 2)
        return np.nan_to_num(LocalDP(epsilon).protect(data, Secret()).X[:, 0], nan=9.0)

    assert not refuted(released(np.nan, 1.0), released(1.0, 1.0), 1.0)
    assert not refuted(released(1.0, 1.0), released(np.nan, 1.0), 1.0)
    assert refuted(released(np.nan, 2.2), released(1.0, 2.2), 1.0)


def test_released_label_withstands_its_own_budget():
    mechanism = LocalDP(1.0, label_epsilon=0.5)
    no, yes = record(0, 0, 0, N), record(0, 0, 0, N)
    yes = Dataset(yes.schema, yes.X, np.ones(N, int), yes.ids, yes.subjects)
    a, b = (mechanism.protect(d, Seeded(s)).y for s, d in enumerate((no, yes)))
    assert not refuted(a, b, 0.5)
    assert refuted(a, b, 0.4)


class LeavesHalf(ProbabilisticKAnonymity):
    """Permutes every other quasi-identifier."""

    def protect(self, data, rng):
        X, groups = data.X.copy(), self.groups(data)
        for j in range(0, len(SCHEMA.features), 2):
            X[:, j] = X[rng.stage(str(j)).permutation_within(groups), j]
        return Release.shuffled(data, X, data.y, self.guarantee(data.schema), rng)


@pytest.mark.parametrize("rng", [Secret(), Seeded(1)], ids=["secret", "seeded"])
def test_linking_a_record_to_its_row_succeeds_once_in_k(rng):
    """An adversary who knows every attribute of a target, and which group is theirs, guesses the row.

    Over 300 releases of twelve groups of k = 5 the best-matching row is right k⁻¹ of the time. Two-sided binomial bound
    at 1e-6 (false alarm), on releases that ``protect`` made; one that permutes one attribute in two is caught.
    """
    data = people(60)
    honest = linkage(ProbabilisticKAnonymity(5), data, rng, trials=300, confidence=1 - ALPHA)
    assert honest.linked.low < 0.2 < honest.linked.high
    assert not honest.contradicts
    assert linkage(LeavesHalf(5), data, rng, trials=300, confidence=1 - ALPHA).linked.contradicts
