"""The stages of one shard: train on one slice more each time, and write a checkpoint after each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from eupg.data.dataset import Labels, Matrix
from eupg.data.schema import Schema
from eupg.forget.sharding import Places
from eupg.learn.learner import Learner, Model, Staged
from eupg.rng import Randomness


@dataclass(frozen=True)
class Plan:
    """How much each stage trains, and which part of the whole schedule that is; the records do not enter into it."""

    efforts: tuple[int, ...]
    parts: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, effort: int, slices: int, *, accumulates: bool) -> Plan:
        """Spread the effort over the slices.

        Examples
        --------
        >>> Plan.of(50, 10, accumulates=False).efforts
        (9, 9, 9, 9, 9, 10, 9, 9, 9, 9)
        >>> Plan.of(100, 10, accumulates=True).efforts
        (10, 10, 10, 10, 10, 10, 10, 10, 10, 10)
        """
        each = effort / slices if accumulates else 2 * effort / (slices + 1)
        ends = [int(each * stage + 0.5) for stage in range(slices + 1)]
        efforts = tuple(max(1, later - earlier) for earlier, later in pairwise(ends))
        # Stage r goes over r + 1 slices, so that is what one of its epochs costs.
        cost = np.cumsum([0, *((r + 1) * e for r, e in enumerate(efforts))])
        shares = [float(c) for c in cost / cost[-1]]
        return cls(efforts, tuple(pairwise(shares)))


@dataclass(frozen=True, eq=False)
class Shard:
    """The records of one shard, the slice each is in, where to begin, and what to call the checkpoints."""

    schema: Schema
    X: Matrix
    y: Labels
    slices: Places
    begin: int
    start: str | None
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Rows:
    """The records of the first slices; what a learner sees."""

    schema: Schema
    X: Matrix
    y: Labels


def train_shard(
    learner: Learner, plan: Plan, shards: Mapping[int, Shard], folder: Path, rng: Randomness, shard: int
) -> tuple[str | None, ...]:
    """Train one shard from its slice ``begin`` on and return its new checkpoints; None where no record was yet."""
    work = shards[shard]
    model = learner.load(folder / work.start) if work.start is not None else None
    written: list[str | None] = []
    for stage, name in enumerate(work.names, start=work.begin):
        seen = work.slices <= stage
        if not seen.any():
            written.append(None)
            continue
        rows = _Rows(work.schema, work.X[seen], work.y[seen])
        model = _stage(learner, plan, rows, stage, _stream(rng, shard, stage), model)
        learner.save(model, folder / name)
        written.append(name)
    return tuple(written)


def _stage(
    learner: Learner, plan: Plan, rows: _Rows, stage: int, rng: np.random.Generator, start: Model | None
) -> Model:
    effort = plan.efforts[stage]
    if isinstance(learner, Staged):
        return learner.fit_part(rows, effort=effort, rng=rng, part=plan.parts[stage], start=start)
    return learner.fit(rows, effort=effort, rng=rng, start=start)


def _stream(rng: Randomness, shard: int, stage: int) -> np.random.Generator:
    """Return the stream of one stage. The very first is the one Retrain uses: one shard of one slice is Retrain."""
    whole = rng.stage("pretrain")
    return (whole if shard == stage == 0 else whole.stage(f"shard {shard}, slice {stage}")).generator()
