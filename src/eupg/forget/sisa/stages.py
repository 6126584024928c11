"""The stages of one shard, each of which trains on one more slice, and their checkpoints on disk.

Checkpoints are written by the learner and deleted with the records they saw, and their absence is checked.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from eupg.data.dataset import Labels, Matrix
from eupg.data.schema import Schema
from eupg.errors import StorageError
from eupg.forget.sisa.sharding import Places
from eupg.killpoint import checkpoint
from eupg.learn.learner import Learner, Model, Staged
from eupg.rng import Randomness
from eupg.temporary import TemporaryFolder, inside_workspace


@dataclass(frozen=True)
class Plan:
    """The effort of each stage, and its part of the whole schedule; both are independent of the records."""

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
        # One epoch of stage r passes over r + 1 slices.
        cost = np.cumsum([0, *((r + 1) * e for r, e in enumerate(efforts))])
        shares = [float(c) for c in cost / cost[-1]]
        return cls(efforts, tuple(pairwise(shares)))


@dataclass(frozen=True, eq=False)
class Shard:
    """The records of one shard with their slices, where to begin, and the names of the new checkpoints."""

    schema: Schema
    X: Matrix
    y: Labels
    slices: Places
    begin: int
    start: str | None
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Rows:
    """The records of the first slices, as a learner sees them."""

    schema: Schema
    X: Matrix
    y: Labels


def train_shard(
    learner: Learner, plan: Plan, shards: Mapping[int, Shard], folder: Path, rng: Randomness, shard: int
) -> tuple[str | None, ...]:
    """Train one shard from its slice ``begin`` and return its new checkpoints; None for stages without a record."""
    work = shards[shard]
    model: Model | None = learner.load(folder / work.start) if work.start is not None else None
    written: list[str | None] = []
    for stage, name in enumerate(work.names, start=work.begin):
        seen = work.slices <= stage
        if not seen.any():
            written.append(None)
            continue
        rows = _Rows(work.schema, work.X[seen], work.y[seen])
        effort, stream = plan.efforts[stage], _stream(rng, shard, stage)
        if isinstance(learner, Staged):
            model = learner.fit_part(rows, effort=effort, rng=stream, part=plan.parts[stage], start=model)
        else:
            model = learner.fit(rows, effort=effort, rng=stream, start=model)
        learner.save(model, folder / name)
        checkpoint("a slice was trained on")
        written.append(name)
    return tuple(written)


def _stream(rng: Randomness, shard: int, stage: int) -> np.random.Generator:
    """Return the stream of one stage. The very first is that of Retrain: one shard of one slice is Retrain."""
    whole = rng.stage("pretrain")
    return (whole if shard == stage == 0 else whole.stage(f"shard {shard}, slice {stage}")).generator()


class CheckpointFolder:
    """A folder of model files; without a path, a temporary one that only the owner can read.

    A temporary folder disappears with the last object that uses it, and lies inside a workspace that is changing.
    """

    def __init__(self, folder: str | Path | None) -> None:
        if folder is None or inside_workspace():
            self._temporary = TemporaryFolder()
            self.path = self._temporary.path
        else:
            self.path = Path(folder)
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def new_names(self, shard: int, slices: range) -> list[str]:
        """Return file names that no earlier checkpoint had."""
        token = os.urandom(8).hex()
        return [f"shard-{shard}-slice-{part}-{token}" for part in slices]

    def holds(self, name: str | None) -> bool:
        """Tell whether a checkpoint of that name exists."""
        return name is not None and (self.path / name).is_file()

    def erase(self, names: Iterable[str]) -> None:
        """Delete checkpoints and check that they are gone; one that stays does not protect the others."""
        names = list(names)
        for name in names:
            # The result of the call does not count: the check below looks for the file itself.
            with contextlib.suppress(OSError):
                (self.path / name).unlink(missing_ok=True)
        left = [name for name in names if os.path.lexists(self.path / name)]
        if left:
            raise StorageError(
                f"{len(left)} of {len(names)} checkpoints could not be deleted, and may have seen a forgotten record, "
                f"first {left[0]}: delete them from {self.path} by hand, then ask again"
            )

    def size(self, names: Iterable[str]) -> int:
        """Return the size of these checkpoints in bytes."""
        return sum((self.path / name).stat().st_size for name in names)
