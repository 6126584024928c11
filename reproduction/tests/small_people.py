"""A small table of made-up people with several records each, for tests of methods."""

import numpy as np

from eupg import Dataset, Schema
from eupg.data import Categorical, Numeric, Role


def small_people(records: int = 240, seed: int = 0) -> Dataset:
    """Two to three records per person; the label follows age and trade, with noise."""
    rng = np.random.default_rng(seed)
    label = Categorical(name="ill", role=Role.LABEL, categories=("no", "yes"))
    age = Numeric(name="age", lower=0, upper=120)
    income = Numeric(name="income", lower=0, upper=1000)
    trade = Categorical(name="trade", categories=("a", "b", "c"))
    schema = Schema((age, income, trade, label))
    ages, incomes = rng.integers(20, 80, records), rng.gamma(2, 80, records).clip(0, 1000)
    X = np.column_stack([ages, incomes, rng.integers(0, 3, records)]).astype(np.float64)
    chance = 1 / (1 + np.exp(-(X[:, 0] - 50) / 10 - (X[:, 2] == 1)))
    ids = np.array([f"r {i}" for i in range(records)])
    people = np.array([f"p {i * 2 // 5}" for i in range(records)])
    return Dataset(schema, X, (rng.random(records) < chance).astype(np.int64), ids, people)
