"""Vectors of public features: on the grid, never longer than 1, and named by their encoder."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eupg import Dataset, Schema
from eupg.data.encode import Encoder
from eupg.data.kind import DataKind
from eupg.data.rows import RowReader
from eupg.data.vector import GRID, Vector, on_grid
from eupg.errors import DataError, SchemaError
from vectors import DIGEST, vector_schema, vectors


@given(st.integers(0, 10**6), st.integers(1, 300), st.floats(1e-20, 1e20))
def test_rounded_vectors_are_never_longer_than_one_by_whole_numbers(seed, dimension, scale):
    rows = np.random.default_rng(seed).normal(size=(20, dimension)) * scale
    for row in on_grid(rows):
        assert sum(int(value) ** 2 for value in row) <= GRID**2


@pytest.mark.parametrize("row", [[1.0], [1.0, 1.0], [3.0, 4.0, 0.0], [1e-300, 0.0], [1.0] * 1280])
def test_vectors_on_the_edge_are_not_longer_and_keep_their_direction(row):
    (whole,) = on_grid(np.array([row]))
    assert (whole.astype(np.int64) ** 2).sum() <= GRID**2
    if sum(row) > 1e-9:
        assert np.linalg.norm(whole) > 0.97 * GRID


def test_a_rounded_vector_does_not_depend_on_its_neighbours():
    rows = np.random.default_rng(1).normal(size=(3000, 37))
    assert (on_grid(rows)[1234:1235] == on_grid(rows[1234:1235])).all()


def test_schema_survives_toml_and_says_what_it_is():
    schema = vector_schema(5)
    assert Schema.from_toml(schema.to_toml()) == schema
    assert (schema.kind, schema.columns, schema.dtype) == (DataKind.VECTORS, 5, np.int16)
    assert "toy (weights abababababababab)" in schema.caveats[0]


@pytest.mark.parametrize(
    "settings", [{"dimension": 0}, {"encoder": ""}, {"digest": ""}, {"missing": "keep"}, {"dimension": 2.5}], ids=str
)
def test_descriptions_that_mean_nothing_are_refused(settings):
    with pytest.raises(SchemaError, match="column 'text'"):
        Vector(**{"name": "text", "dimension": 3, "encoder": "toy", "digest": DIGEST} | settings)


def test_a_vector_stands_alone():
    vector = Vector(name="a", dimension=3, encoder="toy", digest=DIGEST)
    with pytest.raises(SchemaError, match="a vector must be the only feature"):
        Schema((vector, *vector_schema().attributes))


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (np.zeros((2, 8)), r"whole numbers of a grid of 1/4096 \(int16\), got float64"),
        (np.full((2, 8), 4096, dtype=np.int16), "2 of 2 rows are longer than 1"),
        (np.zeros((2, 7), dtype=np.int16), "one column for each of 8 public features"),
    ],
)
def test_other_numbers_are_refused_where_records_and_rows_enter(X: Any, said):
    with pytest.raises(DataError, match=said):
        Dataset(vector_schema(), X, np.zeros(2, dtype=np.int64), np.array(["a", "b"]), np.array(["a", "b"]))
    with pytest.raises(DataError, match=said if X.shape[1] == 8 else "one per public feature"):
        RowReader(vector_schema()).read(X)


def test_a_table_cannot_be_read_as_vectors():
    import pandas as pd

    with pytest.raises(DataError, match="encode them with encode_records"):
        RowReader(vector_schema()).read(pd.DataFrame({"text": ["hello"]}))


def test_networks_read_vectors_at_the_scale_of_other_inputs():
    data = vectors(200, 50)
    inputs = Encoder.fit(data)(data.X)
    assert inputs.shape == (200, 50)
    assert (inputs**2).mean() == pytest.approx(1.0, rel=0.01)


def test_records_read_back_as_numbers():
    frame = vectors(3).to_pandas()
    assert np.linalg.norm(frame["text"].iloc[0]) == pytest.approx(1.0, abs=0.01)
