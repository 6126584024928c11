"""A small made-up table with every kind of attribute, and people with several records."""

from dataclasses import replace

import numpy as np

from eupg.data.attribute import Categorical, Key, Missing, Numeric, Ordinal, Role
from eupg.data.dataset import Dataset
from eupg.data.schema import Schema

SCHEMA = Schema(
    (
        Key(name="person", role=Role.SUBJECT),
        Numeric(name="age", lower=0, upper=100),
        Numeric(name="income", lower=0, upper=5000, resolution=0.5),
        Ordinal(name="health", categories=("poor", "fair", "good")),
        Categorical(name="town", categories=("A", "B", "C", "D"), hierarchy={"A": "north", "B": "north", "C": "south"}),
        Categorical(name="job", categories=("x", "y"), missing=Missing.KEEP),
        Numeric(name="score", lower=-1, upper=1, resolution=0.1, missing=Missing.KEEP),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


def people(rows: int = 300, seed: int = 0, classes: int = 2) -> Dataset:
    """Return records whose label depends on age, health and town."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    health = rng.integers(0, 3, rows)
    town = rng.integers(0, 4, rows)
    job = np.where(rng.random(rows) < 0.2, np.nan, rng.integers(0, 2, rows))
    score = np.where(rng.random(rows) < 0.2, np.nan, rng.uniform(-1, 1, rows).round(1))
    drive = (age - 50) / 20 - health + (town == 2) + rng.normal(0, 0.5, rows)
    y = np.searchsorted(np.quantile(drive, np.linspace(0, 1, classes + 1)[1:-1]), drive)
    income = (40 * age + rng.integers(0, 1000, rows)).clip(0, 5000)
    schema = SCHEMA
    if classes > 2:
        label = Categorical(name="ill", role=Role.LABEL, categories=tuple(f"c{i}" for i in range(classes)))
        schema = Schema((*SCHEMA.attributes[:-1], label))
    return Dataset(
        schema,
        np.column_stack([age, income, health, town, job, score]).astype(float),
        y,
        np.array([f"r{i}" for i in range(rows)]),
        np.array([f"p{i // 3}" for i in range(rows)]),
    )


def learnable() -> tuple[Dataset, Dataset]:
    """Return people whose label follows from two attributes, and others of whom to ask."""
    data = people(4000)
    sure = replace(data, y=((data.X[:, 0] > 40) & (data.X[:, 1] > np.median(data.X[:, 1]))).astype(int))
    first, second = (sure.select(np.arange(len(sure)) % 2 == half) for half in (0, 1))
    return first, second
