"""A table with one person in it whom nobody could mistake."""

import numpy as np

from eupg.data.dataset import Dataset
from eupg.data.schema import Schema

INCOMES = (4242.53125, 1717.84375, 8181.96875)


def canary_table(schema: Schema, name: str, record: str, rows: int = 300) -> Dataset:
    """Return people whose incomes are whole, and one person whose three incomes are not."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(18, 90, rows), rng.integers(500, 8000, rows), rng.integers(0, 3, rows)])
    X = X.astype(float)
    y = (X[:, 0] + X[:, 1] / 100 + rng.normal(0, 10, rows) > 95).astype(int)
    ids, subjects = [f"r{i}" for i in range(rows)], [f"p{i // 3}" for i in range(rows)]
    for place, value in zip((40, 41, 42), INCOMES, strict=True):
        X[place, 1], ids[place], subjects[place] = value, f"{record}-{place}", name
        y[place] = 1 - y[place]
    return Dataset(schema, X, y, np.array(ids), np.array(subjects))
