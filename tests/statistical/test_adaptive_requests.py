"""Requests that are chosen by looking at a served model: what they carry over, and for whom they carry nothing.

An adversary put two sets of sybils into the table, alike but for their label. They read the target's label off the
served model, and have the target erased together with one set or the other. The newest model then says which set is
left, and so what the label was. Nobody's privacy mechanism was broken; the requests carried the label past it.
"""

import numpy as np
import pytest
from scipy.stats import binom

from eupg import EUPG, Retrain, Secret
from eupg.data.attribute import Categorical, Key, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.learn import SklearnLearner
from eupg.protect import DPSynthesis

EPSILON, RUNS = 0.2, 60
# Whoever has the label replaced is taken out and put back: twice ε, and a label guessed at even odds.
BOUND = np.exp(2 * EPSILON) / (1 + np.exp(2 * EPSILON))
PLACES = ("a", "b", "c", "target", "sybil")
SCHEMA = Schema(
    (
        Key(name="person", role=Role.SUBJECT),
        Categorical(name="place", categories=PLACES),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)
LEARNER = SklearnLearner()


def table(label: int, rng: np.random.Generator) -> Dataset:
    """Return a crowd, the target with three records, and ten sybils of either label."""
    names = [*(f"crowd {i}" for i in range(60)), *["target"] * 3, *(f"sybil {i}" for i in range(20))]
    places = [*rng.integers(0, 3, 60), *[3] * 3, *[4] * 20]
    labels = [*rng.integers(0, 2, 60), *[label] * 3, *[0] * 10, *[1] * 10]
    ids = np.array([f"r{i}" for i in range(len(names))])
    return Dataset(SCHEMA, np.array(places, dtype=float)[:, None], np.array(labels), ids, np.array(names))


def says(model, place: str) -> int:
    return int(model.predict_proba(np.array([[float(PLACES.index(place))]]))[0, 1] > 0.5)


def attack(method, label: int, rng: np.random.Generator, *, drawn: bool = True) -> bool:
    """Tell whether the newest model gives away the label of a target who is gone."""
    data = table(label, rng)
    trained = method.train(data, Secret())
    while ("target" in exposed(trained, data)) != drawn:
        trained = method.train(data, Secret())
    guess = says(trained.model, "target")
    leaving = ["target", *(f"sybil {i}" for i in range(20) if (i < 10) == bool(guess))]
    after = method.forget(trained, data.select(~np.isin(data.subjects, leaving)), Secret())
    return says(after.model, "sybil") == label


def exposed(trained, data) -> set[str]:
    return set(data.subjects[np.isin(data.ids, list(trained.ids))].tolist())


def hits(method, *, drawn: bool = True) -> int:
    rng = np.random.default_rng(5)
    return sum(attack(method, run % 2, rng, drawn=drawn) for run in range(RUNS))


def method(exposure: float) -> EUPG:
    return EUPG(DPSynthesis(epsilon=EPSILON), LEARNER, 5, 5, exposure=exposure)


def test_bound_is_that_of_a_guess():
    assert round(100 * BOUND, 1) == 59.9


@pytest.mark.parametrize("exposure", [0.5, 1.0])
def test_requests_carry_the_label_of_someone_seen_raw_past_the_release(exposure):
    """More hits than the claim allows: a rule of that strength would have so many once in a million tries."""
    assert binom.sf(hits(method(exposure)) - 1, RUNS, BOUND) < 1e-6


@pytest.mark.parametrize("exposure", [0.0, 0.5])
def test_requests_carry_nothing_about_someone_no_model_ever_saw(exposure):
    """At most as many hits as the claim allows; a false alarm has a chance of one in a million."""
    assert binom.sf(hits(method(exposure), drawn=False) - 1, RUNS, BOUND) > 1e-6


def test_retraining_is_exact_given_who_is_left_and_who_is_left_may_tell():
    """The same channel: it is the choice of requests that tells, and no way to train can close it."""
    assert hits(Retrain(LEARNER, 5)) > 0.9 * RUNS
