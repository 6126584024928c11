import json
from types import SimpleNamespace

import numpy as np
import pytest

from eupg.data.attribute import Categorical, Numeric, Role
from eupg.data.dataset import Dataset
from eupg.data.encode import Encoder
from eupg.data.schema import Schema
from people import SCHEMA, people


def released(data: Dataset) -> SimpleNamespace:
    """Return the rows as if they were a release."""
    return SimpleNamespace(schema=data.schema, X=data.X, y=data.y, scales=Encoder.of_release(data.schema, data.X))


def test_inputs_are_scaled_numbers_one_hot_and_missing_flags():
    data = people(400)
    out = Encoder.fit(data)(data.X)
    # age, income, health; town in four; job in two and a flag; score and a flag.
    assert out.shape == (400, 3 + 4 + 3 + 2)
    np.testing.assert_allclose(out[:, 2], (data.X[:, 2] - 1) / (2 / np.sqrt(12)), rtol=1e-6)
    np.testing.assert_array_equal(out[:, 3:7].argmax(axis=1), data.X[:, 3])
    np.testing.assert_array_equal(out[:, 9], np.isnan(data.X[:, 4]))
    np.testing.assert_array_equal(out[:, 7:10].sum(axis=1), np.ones(400))
    np.testing.assert_array_equal(out[:, 11], np.isnan(data.X[:, 5]))
    assert (out[np.isnan(data.X[:, 5]), 10] == 0).all()


def test_records_have_no_part_in_the_scales():
    one, other = Encoder.fit(people(400)), Encoder.fit(people(150, 7))
    assert one.to_json() == other.to_json() == Encoder.of_bounds(SCHEMA).to_json()


def test_release_is_read_by_its_own_scales_coarsely():
    data = people(400)
    encoder = Encoder.fit(released(data))
    out = encoder(data.X)
    numbers = [0, 1, 2, 10]
    present = np.where(np.isnan(data.X[:, [0, 1, 2, 5]]), np.nan, out[:, numbers])
    assert (np.abs(np.nanmean(present, axis=0)) <= 0.26).all()
    assert (np.abs(np.log2(np.nanstd(present, axis=0))) <= 0.51).all()
    spread = encoder.spread[[0, 1, 2, 5]]
    np.testing.assert_array_equal(spread, 2 ** np.log2(spread).round())
    np.testing.assert_array_equal(encoder.centre[[0, 1, 2, 5]] % (spread / 2), 0)
    np.testing.assert_array_equal([encoder.centre[3], encoder.spread[3]], [0, 1])


def test_release_that_says_too_little_is_read_by_the_bounds():
    data = people(150)
    X = data.X.copy()
    X[:, 0], X[:, 5] = 40, np.nan
    encoder, public = Encoder.of_release(SCHEMA, X), Encoder.of_bounds(SCHEMA)
    assert np.isfinite(encoder(X)).all()
    for j in (0, 5):
        assert (encoder.centre[j], encoder.spread[j]) == (public.centre[j], public.spread[j])
    assert encoder.centre[1] != public.centre[1]
    assert Encoder.of_release(SCHEMA, data.X[:99]).to_json() == public.to_json()


def test_width_depends_on_the_schema_alone():
    assert Encoder.fit(people(5)).width == Encoder.fit(people(500, 3)).width


def test_json_round_trip():
    encoder = Encoder.fit(people())
    again = Encoder.from_json(SCHEMA.features, json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(again(people().X), encoder(people().X))


@pytest.mark.parametrize("rows", [5, 300])
def test_scales_of_the_model_to_go_on_from_are_kept(rows):
    base = Encoder.fit(released(people(500)))
    assert Encoder.fit(people(rows, 1), start=base) is base
    assert Encoder.fit(released(people(rows, 1)), start=base) is base


def test_counts_and_incomes_are_spread_near_their_lower_bound():
    schema = Schema(
        (
            Numeric(name="count", lower=0, upper=99),
            Numeric(name="income", lower=0, upper=500_000, resolution=100),
            Numeric(name="hours", lower=1, upper=99),
            Numeric(name="balance", lower=-1000, upper=100_000),
            Categorical(name="label", role=Role.LABEL, categories=("no", "yes")),
        )
    )
    encoder = Encoder.of_bounds(schema)
    assert (encoder.logarithmic, encoder.mixed) == ((1,), (0,))
    counts = np.array([[count, 0, 1, -1000] for count in (0, 1, 2, 98, 99)], dtype=np.float64)
    inputs = encoder(counts)[:, 0]
    np.testing.assert_allclose(inputs[[0, -1]], [-np.sqrt(3), np.sqrt(3)], rtol=1e-6)
    # The first step is many times the last, and the last is at least a quarter of what it is on a linear scale.
    assert inputs[1] - inputs[0] > 10 * (inputs[4] - inputs[3])
    assert inputs[4] - inputs[3] > 0.25 * 2 * np.sqrt(3) / 99
