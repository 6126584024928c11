import json

import numpy as np
import pytest

from eupg.data.dataset import Dataset
from eupg.data.encode import Encoder
from people import SCHEMA, people


def test_inputs_are_z_scores_one_hot_and_missing_flags():
    data = people(400)
    out = Encoder.fit(data)(data.X)
    # age, income, health; town in four; job in two and a flag; score and a flag.
    assert out.shape == (400, 3 + 4 + 3 + 2)
    np.testing.assert_allclose(out[:, :3].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(out[:, :3].std(axis=0), 1, atol=1e-5)
    np.testing.assert_array_equal(out[:, 3:7].argmax(axis=1), data.X[:, 3])
    np.testing.assert_array_equal(out[:, 9], np.isnan(data.X[:, 4]))
    np.testing.assert_array_equal(out[:, 7:10].sum(axis=1), np.ones(400))
    np.testing.assert_array_equal(out[:, 11], np.isnan(data.X[:, 5]))
    assert (out[np.isnan(data.X[:, 5]), 10] == 0).all()


def test_missing_values_take_no_part_in_the_scales():
    data = people(400)
    encoder = Encoder.fit(data)
    assert encoder.centre[5] == pytest.approx(np.nanmean(data.X[:, 5]))
    assert encoder.spread[5] == pytest.approx(np.nanstd(data.X[:, 5]))


def test_constant_and_empty_columns_stay_finite():
    data = people(150)
    X = data.X.copy()
    X[:, 0], X[:, 5] = 40, np.nan
    out = Encoder.fit(Dataset(SCHEMA, X, data.y, data.ids, data.subjects))(X)
    assert np.isfinite(out).all()
    assert (out[:, 0] == 0).all()


def test_width_depends_on_the_schema_alone():
    assert Encoder.fit(people(5)).width == Encoder.fit(people(500, 3)).width


def test_json_round_trip():
    encoder = Encoder.fit(people())
    again = Encoder.from_json(SCHEMA.features, json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(again(people().X), encoder(people().X))


def test_few_rows_keep_the_scales_of_the_model_they_go_on_from():
    base = Encoder.fit(people(500))
    assert Encoder.fit(people(99, 1), start=base) is base
    assert Encoder.fit(people(100, 1), start=base) is not base
