"""A lower bound on ε of models: the canary's rule, both sides of a pair, what is refuted, and how the page says it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from eupg import EUPG, Seeded
from eupg.data.schema import Schema
from eupg.data.sources import Source
from eupg.errors import DataError, ParameterError
from eupg.guarantees import DifferentiallyPrivate
from eupg.learn import recipes
from eupg.learn.learner import Model
from eupg.protect import DPSynthesis
from eupg.protect.release import Release
from eupg_reproduction import methods
from eupg_reproduction.cell import Cell, group
from eupg_reproduction.epsilon_models import (
    NEVER,
    RAW,
    Attack,
    bounded,
    canary,
    covering,
    draw_people,
    log_odds,
    measure,
)
from eupg_reproduction.experiments import experiment
from eupg_reproduction.kinds import KINDS
from eupg_reproduction.report.audits import epsilon_audits, epsilon_claims, epsilon_controls
from eupg_reproduction.report.words import MISSING
from made_up import measurements, result
from people import SCHEMA, people
from reading import known, made, row

RUNS = 24


def cell(method="synthesis ε=1", *, model="xgboost", exposure=0.0, seen=NEVER, runs=RUNS, count=60, repetition=0):
    own = {"kind": "epsilon_models", "set": "made up", "model": model, "method": method, "repetition": repetition}
    return Cell.of(own | {"exposure": exposure, "canary": seen, "people": count, "runs": runs})


@pytest.fixture
def made_up(monkeypatch):
    """People in place of a data set, and short trainings."""
    data = people(300)
    monkeypatch.setattr(recipes, "EFFORTS", {"logistic": (3, 5), "xgboost": (5, 2)})
    monkeypatch.setattr(methods, "source", lambda name: Source(name, data, data, lambda scores, labels: 0.0))
    return data


class NoNoise(DPSynthesis):
    """Claims what synthesis does, and releases the records as they are."""

    def protect(self, data, rng):
        return Release.shuffled(data, data.X, data.y, self.guarantee(data.schema), rng)


class Constant(DPSynthesis):
    """Releases the same made-up table whoever is there."""

    def protect(self, data, rng):
        return NoNoise(self.epsilon).protect(people(90, seed=5), Seeded(0))


def found_by(mechanism, cells, monkeypatch):
    monkeypatch.setattr(methods, "mechanism", lambda words: mechanism)
    return [found.metrics for _, found in measure(cells)]


def test_the_canary_has_the_upper_ends_of_the_schema_and_its_first_class():
    record = canary(SCHEMA)
    assert record.X.tolist() == [[100, 5000, 2, 3, 1, 1]]
    assert record.to_pandas()[["health", "town", "job", "ill"]].iloc[0].tolist() == ["good", "D", "y", "no"]
    assert len(record) == 1


def test_the_canary_depends_on_nothing_but_the_schema():
    longer = Schema(tuple(replace(a, upper=120) if a.name == "age" else a for a in SCHEMA.attributes))
    assert canary(longer).X[0, 0] == 120
    assert (canary(longer).X[0, 1:] == canary(SCHEMA).X[0, 1:]).all()


def test_people_are_drawn_whole_and_alike_in_one_repetition():
    data = people(300)
    first, again, other = (draw_people(data, 20, Seeded(seed)) for seed in (1, 1, 2))
    assert first.id_set == again.id_set != other.id_set
    assert len(np.unique(first.subjects)) == 20
    assert len(first) == 60
    with pytest.raises(DataError, match="from 1 to 100 people, got 101: ask for fewer"):
        draw_people(data, 101, Seeded(1))


def test_a_mechanism_without_noise_is_refuted(made_up, monkeypatch):
    (found,) = found_by(NoNoise(0.5), [cell()], monkeypatch)
    assert found["claimed"] == 0.5
    assert found["bound"]["epsilon"] == pytest.approx(found["most"])
    assert found["bound"]["epsilon"] > 1
    assert found["with"]["mean"] > found["without"]["mean"]


def test_a_canary_never_seen_raw_is_not_found_in_what_does_not_depend_on_it(made_up, monkeypatch):
    for found in found_by(Constant(0.5), [cell(exposure=share) for share in (0.0, 0.5, 1.0)], monkeypatch):
        assert found["claimed"] == 0.5
        assert found["bound"]["epsilon"] == 0


def test_what_is_seen_raw_is_found_and_claims_nothing(made_up, monkeypatch):
    (bare,) = (found.metrics for _, found in measure([cell("Unprotected", exposure=1.0, seen=RAW)]))
    (raw,) = found_by(Constant(0.5), [cell(exposure=1.0, seen=RAW)], monkeypatch)
    for found in (bare, raw):
        assert found["claimed"] is None
        assert found["bound"]["epsilon"] == pytest.approx(found["most"])
        assert found["most"] > 1


def test_the_same_cell_gives_the_same_figures_alone_and_beside_others(made_up):
    mine = cell(exposure=0.5, model="logistic", runs=4)
    raw = cell(exposure=0.5, seen=RAW, model="logistic", runs=4)
    ((_, alone),) = measure([mine])
    beside = dict(measure([cell(runs=4), cell(model="logistic", runs=4), mine, raw]))
    assert beside[mine].metrics == alone.metrics


def test_a_run_is_what_eupg_makes(made_up):
    """The first run with the canary is EUPG's base model of people and canary, at the same randomness."""
    rng, data = Seeded(3), draw_people(made_up, 60, Seeded(0))
    attack = Attack(data, canary(data.schema), DPSynthesis(5.0))
    scores = attack.scores([cell(model="logistic")], 2, rng)
    learner, (full, _) = recipes.paper_learner("logistic", ""), recipes.EFFORTS["logistic"]
    for side, (word, table) in enumerate((("with", data.plus(attack.target)), ("without", data))):
        for run in range(2):
            method = EUPG(DPSynthesis(5.0), learner, full, 1, exposure=0.0)
            model = method.train(table, rng.stage(word).stage(f"run {run}")).model
            assert scores[side, run, 0] == log_odds(model, attack.target)
    assert len(np.unique(scores)) == 4


def test_the_canary_is_fine_tuned_on_only_where_it_is_to_be_seen_raw(made_up, monkeypatch):
    seen = []

    class Watches:
        def fit(self, examples, *, effort, rng, start=None):
            if start is not None:
                seen.append("canary" in getattr(examples, "id_set", ()))
            return plain_learner("logistic", "").fit(examples, effort=effort, rng=rng, start=start)

    plain_learner = recipes.paper_learner
    monkeypatch.setattr(recipes, "paper_learner", lambda model, table: Watches())
    cells = [cell(exposure=0.5, seen=which, model="logistic", runs=4) for which in (NEVER, RAW)]
    list(measure(cells))
    assert seen == [False, True] * 4 + [False, False] * 4


@pytest.mark.parametrize("model", ["logistic", "xgboost", "lightgbm"])
def test_log_odds_are_those_of_the_probabilities(model):
    data = people(300)
    fitted = recipes.paper_learner(model, "").fit(data, effort=2, rng=np.random.default_rng(0))
    for label in (0, 1):
        # Of the label's records the one that the model is least sure about: its probability does not round.
        unsure = np.where(data.y == label, fitted.predict_proba(data.X).max(axis=1), 2).argmin()
        record = data.select(np.arange(300) == unsure)
        (p,) = fitted.predict_proba(record.X)
        assert log_odds(fitted, record) == pytest.approx(math.log(p[label] / p[1 - label]), rel=1e-3)


def test_log_odds_do_not_stop_where_probabilities_round():
    data = people(300)
    fitted = recipes.paper_learner("logistic", "").fit(data, effort=2, rng=np.random.default_rng(0))
    fitted.estimator.coef_ *= 1e4
    values = [log_odds(fitted, data.select(np.arange(300) == row)) for row in range(5)]
    assert len(set(values)) == 5
    assert all(40 < abs(value) < math.inf for value in values)


def test_many_classes_are_asked_by_probability():
    data = people(300, classes=3)
    fitted = recipes.paper_learner("xgboost", "").fit(data, effort=2, rng=np.random.default_rng(0))
    assert isinstance(fitted, Model)
    p = fitted.predict_proba(canary(data.schema).X)[0, 0]
    assert log_odds(fitted, canary(data.schema)) == pytest.approx(math.log(p / (1 - p)))


def test_the_most_that_can_be_shown_is_what_two_samples_apart_show():
    found = bounded(np.stack([np.ones(40), np.zeros(40)]), None)
    assert found["bound"]["epsilon"] == found["most"]
    # All of 20 and none of 20, each at an error of 0.025: p²⁰ = 0.025, and (1 − p)²⁰ = 0.025.
    assert found["most"] == pytest.approx(math.log(0.025**0.05 / (1 - 0.025**0.05)))
    assert bounded(np.stack([np.ones(4), np.zeros(4)]), None)["most"] == 0


def test_the_delta_of_a_claim_is_allowed_for():
    scores = np.stack([np.ones(40), np.zeros(40)])
    strict, loose = (bounded(scores, DifferentiallyPrivate(epsilon=1.0, delta=delta)) for delta in (0.0, 0.5))
    assert loose["bound"]["delta"] == 0.5
    assert loose["bound"]["epsilon"] < strict["bound"]["epsilon"]


@pytest.mark.parametrize("words", ["k=30", "ε=1", "ε=1, label ε=1"])
def test_claims_that_say_nothing_about_presence_are_refused(words):
    with pytest.raises(ParameterError, match="does not claim that adding a person makes no difference"):
        covering(methods.mechanism(words), SCHEMA)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (cell(seen="maybe"), "the canary is 'never seen raw' or 'seen raw', got 'maybe'"),
        (cell("Unprotected", exposure=1.0), "Unprotected sees everyone raw"),
        (cell("Unprotected", exposure=0.5, seen=RAW), "Unprotected sees everyone raw"),
        (cell(seen=RAW), "at exposure 0 nobody is seen raw"),
    ],
)
def test_cells_that_contradict_themselves_are_refused(wrong, message):
    with pytest.raises(ParameterError, match=message):
        list(measure([wrong]))


def test_models_and_exposures_of_one_protection_share_its_releases():
    jobs = group(experiment("epsilon_models").cells(5), {name: kind.together for name, kind in KINDS.items()})
    assert sorted(len(job.cells) for job in jobs) == [2, 10, 10, 10]
    assert all(len({c.method for c in job.cells}) == 1 for job in jobs)


def shown(method, exposure, seen, bound, claimed, *, model="logistic"):
    where = {"kind": "epsilon_models", "set": "adult", "model": model, "method": method, "exposure": exposure}
    metrics = {"bound": {"epsilon": bound}, "claimed": claimed, "most": 4.21, "runs": 500}
    return [result({**where, "canary": seen, "people": 200, "runs": 500, "repetition": 0}, metrics)]


CONTROLS = (
    shown("Unprotected", 1.0, RAW, 3.9, None),
    shown("synthesis ε=1", 0.1, RAW, 2.5, None),
    shown("synthesis ε=4", 0.1, RAW, 0.0, None),
    shown("synthesis ε=10", 0.1, RAW, 3.0, None),
)


def test_the_page_shows_claims_and_controls():
    groups = (shown("synthesis ε=1", 0.0, NEVER, 0.0, 1.0), *CONTROLS)
    table, place = made(*groups)["epsilon_models"], {"set": "Adult", "model": "logistic regression"}
    names = ("claimed ε", "refuted below", "at most", "runs with and without")

    def figures(method, exposure, canary):
        mine = row(table, **place, method=method, exposure=exposure, canary=canary)
        return [mine[name] if known(mine[name]) else None for name in names]

    assert figures("synthesis ε=1", 0.0, NEVER) == [1.0, 0.0, 4.21, 500]
    assert figures("Unprotected", 1.0, RAW) == [None, 3.9, 4.21, 500]
    assert figures("synthesis ε=4", 0.0, NEVER) == [4.0, None, None, None]
    assert epsilon_claims(measurements(*groups)) == (
        "None of the 1 claims is refuted; no bound is above 0. 0 claim more than these runs can refute."
    )
    assert epsilon_controls(measurements(*groups)) == (
        "Controls: without protection the bound is 3.90; of 3 models that see the canary raw, 1 exceed the ε of their "
        "base (synthesis ε=1, Adult logistic regression, 10 % exposed, seen raw (2.50)), and 1 show nothing."
    )


def test_the_page_names_a_claim_that_is_refuted_and_one_that_withstands():
    fine = shown("synthesis ε=4", 1.0, NEVER, 1.25, 4.0)
    assert epsilon_claims(measurements(fine)) == (
        "None of the 1 claims is refuted; the largest bound is that of synthesis ε=4, Adult logistic regression, 100 % "
        "exposed, never seen raw (1.25). 0 claim more than these runs can refute."
    )
    beyond = epsilon_claims(measurements(fine, shown("synthesis ε=10", 1.0, NEVER, 0.0, 10.0)))
    assert beyond.endswith("1 claim more than these runs can refute.")
    broken = shown("synthesis ε=1", 0.0, NEVER, 1.01, 1.0, model="xgboost")
    assert epsilon_claims(measurements(fine, broken)) == (
        "**1 of 2 claims are refuted**, with these bounds: "
        "synthesis ε=1, Adult XGBoost, 0 % exposed, never seen raw (1.01)."
    )
    equal = shown("synthesis ε=1", 0.0, NEVER, 1.0, 1.0)
    assert epsilon_claims(measurements(equal)).startswith("None of the 1 claims is refuted")


def test_nothing_measured_is_said_to_be_missing():
    assert epsilon_claims(measurements()) == f"Claims: {MISSING}."
    assert epsilon_controls(measurements()) == f"Controls: {MISSING}."
    table = made()["epsilon_models"]
    assert table[["refuted below", "at most", "runs with and without"]].isna().to_numpy().sum() == 3 * 32


def test_every_cell_of_the_experiment_stands_in_the_table():
    cells = experiment("epsilon_models").cells(1)
    mine = [(one.method, one.model, one.share, one.canary) for one in epsilon_audits(measurements())]
    assert sorted(mine) == sorted((c.method, c.model, c.get("exposure"), c.get("canary")) for c in cells)
    assert all((one.claimed is None) == (one.canary == RAW) for one in epsilon_audits(measurements()))
