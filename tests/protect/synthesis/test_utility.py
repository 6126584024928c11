"""What a synthetic table keeps of the records: shares, tails, missing values, what belongs together."""

import dataclasses

import numpy as np
import pytest

from eupg.data.attribute import Categorical, Missing, Numeric, Ordinal, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema
from eupg.protect.synthesis.mechanism import DPSynthesis
from eupg.rng import Seeded
from people import SCHEMA, people

LABEL = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
# So large that the noise is all but certainly zero.
NO_NOISE = 1e7


def table(attributes, X, y) -> Dataset:
    names = np.arange(len(y)).astype(str)
    return Dataset(Schema(tuple(attributes)), np.asarray(X, float), y, names, names)


def binary(columns: int) -> tuple:
    return (*(Categorical(name=f"f{j}", categories=("a", "b")) for j in range(columns)), LABEL)


def test_thousand_categories_keep_their_frequencies_and_what_they_say_about_the_label():
    rng = np.random.default_rng(0)
    codes = np.minimum(rng.geometric(0.01, 5000), 1000) - 1
    y = (rng.random(5000) < np.where(codes % 2, 0.9, 0.1)).astype(int)
    data = table((Categorical(name="c", categories=tuple(map(str, range(1000)))), *binary(1)), np.c_[codes, y], y)
    release = DPSynthesis(50.0).protect(data, Seeded(1))
    found = release.X[:, 0]
    assert np.bincount(found.astype(int), minlength=1000)[:30].sum() == pytest.approx((codes < 30).sum(), rel=0.1)
    assert release.y[found % 2 == 1].mean() > 0.7
    assert release.y[found % 2 == 0].mean() < 0.3


def test_hundred_columns_keep_pairs_that_belong_together():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 100))
    X[:, 1::2] = X[:, ::2]
    release = DPSynthesis(1000.0).protect(table(binary(100), X, rng.integers(0, 2, 400)), Seeded(1))
    alike = (release.X[:, ::2] == release.X[:, 1::2]).mean(axis=0)
    assert alike.min() > 0.9


def test_constant_columns_stay_constant_and_cost_nothing():
    data = people()
    same = Numeric(name="same", lower=3, upper=3)
    schema = Schema((*SCHEMA.attributes[:-1], same, SCHEMA.label))
    more = dataclasses.replace(data, schema=schema, X=np.c_[data.X, np.full(300, 3.0)])
    first, second = (DPSynthesis(2.0).protect(d, Seeded(1)) for d in (data, more))
    assert (second.X[:, 6] == 3).all()
    assert first.X.tobytes() == np.ascontiguousarray(second.X[:, :6]).tobytes()


def test_one_feature_alone_keeps_its_joint_distribution_with_the_label():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, 2000)
    data = table((Ordinal(name="o", categories=tuple("abc")), LABEL), x[:, None], (x == 2).astype(int))
    release = DPSynthesis(1.0).protect(data, Seeded(1))
    assert ((release.X[:, 0] == 2) == (release.y == 1)).mean() > 0.97


def test_missing_values_keep_their_share_and_their_company():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    score = np.where(rng.random(3000) < np.where(y, 0.6, 0.1), np.nan, rng.integers(0, 1001, 3000))
    attribute = Numeric(name="score", lower=0, upper=1000, missing=Missing.KEEP)
    data = table((attribute, *binary(1)), np.c_[score, rng.integers(0, 2, 3000)], y)
    release = DPSynthesis(5.0).protect(data, Seeded(1))
    for label, share in ((0, 0.1), (1, 0.6)):
        assert np.isnan(release.X[release.y == label, 0]).mean() == pytest.approx(share, abs=0.05)


def test_classes_of_many_kinds_keep_their_shares():
    data = people(2000, classes=5)
    release = DPSynthesis(5.0, max_records=3).protect(data, Seeded(1))
    shares = np.bincount(release.y, minlength=5) / len(release)
    assert np.abs(shares - 0.2).max() < 0.03


def test_heavy_tail_stays_heavy():
    rng = np.random.default_rng(0)
    income = np.clip(np.rint(np.exp(rng.normal(7, 1.5, 5000))), 0, 1_000_000)
    data = table(
        (Numeric(name="income", lower=0, upper=1_000_000), *binary(1)), np.c_[income, income > 1100], income > 3000
    )
    release = DPSynthesis(100.0).protect(data, Seeded(1))
    levels = [0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
    ratio = np.quantile(release.X[:, 0], levels) / np.quantile(income, levels)
    assert np.abs(np.log(ratio)).max() < 0.25


def test_without_noise_to_speak_of_joint_distributions_are_those_of_the_records():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    a = np.where(rng.random(20_000) < 0.8, y, rng.integers(0, 2, 20_000))
    b = np.where(rng.random(20_000) < 0.7, a, rng.integers(0, 2, 20_000))
    data = table(binary(2), np.c_[a, b], y)
    release = DPSynthesis(NO_NOISE).protect(data, Seeded(1))
    true, found = (np.bincount((4 * d.y + d.X @ [2, 1]).astype(int), minlength=8) / 20_000 for d in (data, release))
    assert len(release) == 20_000
    assert np.abs(true - found).sum() < 0.03


def test_what_a_feature_says_about_the_label_survives_at_epsilon_one():
    data = people(6000, seed=4)
    release = DPSynthesis(1.0).protect(dataclasses.replace(data, subjects=data.ids), Seeded(1))
    for j in (0, 2):
        true, found = (np.corrcoef(d.X[:, j], d.y)[0, 1] for d in (data, release))
        assert found == pytest.approx(true, abs=0.08)
    assert np.corrcoef(release.X[:, 0], release.X[:, 1])[0, 1] > 0.7
