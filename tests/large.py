"""A small table of every kind of column, for tests of what also works on a large one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

from eupg.data import Categorical, Date, Key, Numeric, Ordinal, Role
from eupg.data.attribute import Missing
from eupg.data.schema import Schema

SCHEMA = Schema(
    (
        Key(name="person", role=Role.SUBJECT),
        Numeric(name="age", lower=0, upper=120),
        Numeric(name="income", lower=0, upper=1e9, resolution=0.01, missing=Missing.KEEP),
        Categorical(name="town", categories=("Bonn", "Ulm", "Jena"), missing=Missing.KEEP),
        Ordinal(name="school", categories=("none", "some", "much")),
        Date(name="since", lower="1990-01-01", upper="2030-01-01"),
        Numeric(name="illness", lower=0, upper=1e6, role=Role.CONFIDENTIAL),
        Categorical(name="ill", role=Role.LABEL, categories=("no", "yes")),
    )
)


def people(rows: int = 3000, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    income = np.round(rng.lognormal(9, 2, rows), 2)
    income[rng.random(rows) < 0.1] = np.nan
    town = pd.Series(rng.choice(["Bonn", "Ulm", "Jena"], rows), dtype=object)
    town[rng.random(rows) < 0.1] = None
    return pd.DataFrame(
        {
            "person": [f"P{i:06}" for i in range(rows)],
            "age": rng.integers(0, 100, rows),
            "income": income,
            "town": town,
            "school": rng.choice(["none", "some", "much"], rows),
            "since": pd.Timestamp("2000-01-01") + pd.to_timedelta(rng.integers(0, 9000, rows), unit="D"),
            "illness": np.arange(rows),
            "ill": rng.choice(["no", "yes"], rows),
        }
    )


def bytes_of(folder: Path) -> str:
    return hashlib.sha256(b"".join(p.name.encode() + p.read_bytes() for p in sorted(folder.iterdir()))).hexdigest()
