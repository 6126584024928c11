"""A synthetic table of any size for measurements of growth: ten columns of mixed kinds, some with heavy tails.

Every block of rows has a seed of its own, so that the first million rows are the same in every table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eupg.data import Categorical, Numeric, Ordinal, Role
from eupg.data.schema import Schema

BLOCK = 1 << 19
_WORK = ("employed", "self-employed", "public", "retired", "none")
_REGION = ("north", "east", "south", "west")
_SCHOOL = ("none", "primary", "secondary", "college", "graduate", "doctorate")
SCHEMA = Schema(
    (
        Numeric(name="age", lower=16, upper=100),
        Numeric(name="hours", lower=0, upper=100, resolution=0.5),
        Numeric(name="income", lower=0, upper=1e9, outside="clip"),
        Numeric(name="wealth", lower=0, upper=1e10, outside="clip"),
        Numeric(name="spending", lower=0, upper=1e8, outside="clip"),
        Numeric(name="score", lower=-10, upper=10, resolution=0.001, outside="clip"),
        Numeric(name="pressure", lower=50, upper=250),
        Categorical(name="work", categories=_WORK),
        Categorical(name="region", categories=_REGION),
        Ordinal(name="school", categories=_SCHOOL),
        Categorical(name="default", role=Role.LABEL, categories=("no", "yes")),
    )
)


def block(number: int, rows: int) -> pa.Table:
    """Return one block of rows: a mixture of lumps, lognormal and Pareto tails, and categories that depend on them."""
    rng = np.random.default_rng((20260, number))
    lump = rng.choice(6, rows, p=(0.3, 0.25, 0.2, 0.15, 0.07, 0.03))
    age = np.clip(rng.normal(np.array([24, 35, 45, 55, 68, 82])[lump], 6), 16, 100)
    work = np.where(age > 66, 3, np.minimum(rng.choice(5, rows, p=(0.6, 0.12, 0.15, 0.01, 0.12)), 4))
    school = np.clip(np.round(rng.normal(2.2 + 0.2 * (lump == 2), 1.1)), 0, 5)
    income = np.exp(rng.normal(9.8 + 0.25 * school - 0.8 * (work == 4), 0.7))
    wealth = income * (rng.pareto(1.4, rows) + 0.05) * np.sqrt(age / 40)
    spending = income * rng.beta(4, 3, rows)
    score = np.clip(rng.standard_t(4, rows) + (income > 3e4), -10, 10)
    hours = np.where(work < 3, np.clip(np.round(2 * rng.normal(38, 8, rows)) / 2, 0, 100), 0)
    pressure = np.clip(rng.normal(110 + 0.4 * age, 14), 50, 250)
    odds = 1 / (1 + np.exp(1.2 + 0.4 * school + 0.3 * score - 0.8 * (work == 4) - (spending > 0.8 * income)))
    numbers = {"age": np.floor(age), "hours": hours, "income": np.round(income), "wealth": np.round(wealth)}
    numbers |= {"spending": np.round(spending), "score": np.round(score, 3), "pressure": np.round(pressure)}
    columns: dict[str, pa.Array] = {name: pa.array(values.astype(np.float32)) for name, values in numbers.items()}
    listed = {"work": (work, _WORK), "region": (rng.integers(0, 4, rows), _REGION), "school": (school, _SCHOOL)}
    listed["default"] = (rng.random(rows) < odds, ("no", "yes"))
    for name, (codes, categories) in listed.items():
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array(categories))
    return pa.table(columns)


def write(path: Path, rows: int) -> None:
    """Write a table of this many rows as one Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = None
    for number, start in enumerate(range(0, rows, BLOCK)):
        part = block(number, BLOCK).slice(0, min(BLOCK, rows - start))
        if writer is None:
            dictionary = [name for name in part.column_names if pa.types.is_dictionary(part[name].type)]
            writer = pq.ParquetWriter(path, part.schema, compression="lz4", use_dictionary=dictionary)
        writer.write_table(part, row_group_size=BLOCK)
    if writer is not None:
        writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    write(options.out, options.rows)
    SCHEMA.save(options.out.with_suffix(".toml"))
