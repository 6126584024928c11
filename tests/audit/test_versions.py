"""Two versions of a model: who was erased is recognised where they differ by few people, and not where they do not."""

import json

import numpy as np
import pytest

import eupg
from eupg import EUPG, Retrain, Seeded
from eupg.audit import VersionsReport, compare_versions
from eupg.data.dataset import Dataset
from eupg.errors import DataError, ParameterError
from eupg.learn import XGBoostLearner
from eupg.protect import ProbabilisticKAnonymity
from people import people as families

LEARNER = XGBoostLearner(threads=1, max_depth=3)


def people(rows, seed):
    """Return people with one record each, whose labels are partly luck: a model learns them by heart."""
    data = families(rows, seed)
    luck = np.random.default_rng(seed).random(rows) < 0.2
    return Dataset(data.schema, data.X, np.where(luck, 1 - data.y, data.y), data.ids, data.ids)


class Saying:
    """A model whose log-odds of class 1 are given for each record, by the record's first value."""

    def __init__(self, margins):
        self.margins = margins

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-self.margins[: len(X)]))
        return np.stack([1 - p, p], axis=1)


def versions(method, data, count, start=0):
    first = method.train(data, Seeded(1))
    erased = data.select((np.arange(len(data)) >= start) & (np.arange(len(data)) < start + count))
    after = method.forget(first, data.without(erased.ids), Seeded(2))
    others = data.select(np.arange(len(data)) >= len(data) // 2)
    return compare_versions(first.model, after.model, erased, others)


def one_at_a_time(method, data, count):
    return VersionsReport.over([versions(method, data, 1, start) for start in range(count)])


def test_single_people_are_recognised_and_many_together_less():
    data = people(4000, 1)
    method = EUPG(ProbabilisticKAnonymity(k=10), LEARNER, 10, 3)
    single, many = one_at_a_time(method, data, 8), versions(method, data, 1300)
    assert single.low > 80
    assert (single.erasures, single.erased, many.erasures, many.erased) == (8, 8, 1, 1300)
    assert many.high < 70
    assert single.others == many.others == 2000


def test_base_that_is_served_as_it_is_tells_nothing():
    data = people(400, 2)
    method = EUPG(ProbabilisticKAnonymity(k=10), LEARNER, 5, 0)
    one = versions(method, data, 1)
    both = one_at_a_time(method, data, 2)
    for report in (one, both):
        assert (report.auc, report.low, report.high, report.changed) == (50, 50, 50, False)
        assert "tells nothing about who was erased" in report.sentence()


def test_exact_retraining_is_no_protection_either():
    single = one_at_a_time(Retrain(LEARNER, 3), people(4000, 1), 8)
    assert single.low > 80


def test_people_and_not_records_are_ranked():
    """Two records of one person: the mean of what fell counts."""
    data = people(6, 4)
    names = np.array(["a", "a", "b", "c", "d", "e"])
    data = Dataset(data.schema, data.X, np.ones(6, dtype=np.int64), data.ids, names)
    erased, others = data.select(names == "a"), data.select(names != "a")
    fell = {2: np.array([0.5, 0.1]), 4: np.array([0.2, 0.4, 0.0, 0.0])}

    class Before:
        def predict_proba(self, X):
            return Saying(fell[len(X)]).predict_proba(X)

    report = compare_versions(Before(), Saying(np.zeros(4)), erased, others)
    assert (report.erased, report.others) == (1, 4)
    assert report.placements.tolist() == [0.75]
    assert report.auc == 75
    np.testing.assert_allclose(np.trapezoid(report.tpr, report.fpr), 0.75)
    assert (report.low, report.high) == pytest.approx((0, 100), abs=5)


def test_interval_covers_chance_for_models_that_differ_by_luck_alone():
    rng, data = np.random.default_rng(5), people(220, 5)
    data = Dataset(data.schema, data.X, np.ones(220, dtype=np.int64), data.ids, data.ids)
    erased, others = data.select(np.arange(220) < 20), data.select(np.arange(220) >= 20)
    covered = 0
    for _ in range(200):
        fell = rng.normal(size=400)
        report = compare_versions(Saying(np.zeros(400)), Saying(fell), erased, others)
        covered += report.low <= 50 <= report.high
    assert covered > 170


def test_report_is_written_without_single_people():
    report = one_at_a_time(Retrain(LEARNER, 2), people(200, 6), 3)
    written = json.dumps(report.to_json(), allow_nan=False)
    assert "placements" not in written
    assert "Claims cover the newest model alone" in report.sentence()
    assert f"{report.auc:.1f} % of cases" in report.sentence()
    assert "3 people erased in 3 erasures" in report.sentence()
    assert eupg.audit.compare_versions is compare_versions
    assert eupg.audit.VersionsReport is VersionsReport


def test_bad_input_is_named():
    data = people(20, 7)
    model = Saying(np.zeros(20))
    nobody = data.select(np.zeros(20, dtype=bool))
    with pytest.raises(DataError, match="erased must hold the records of one person or more"):
        compare_versions(model, model, nobody, data)
    with pytest.raises(DataError, match="20 people are among the erased and the others"):
        compare_versions(model, model, data, data)
    with pytest.raises(ParameterError, match="got none: compare two versions first"):
        VersionsReport.over([])
