"""``eupg pretrain``: a private base model of a table in files, which may be larger than memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Data, Jobs, Json, MaxRecords, ProtectionSeed, StorageOptions, option
from eupg.cli.terminal import Terminal

_MODEL, _CLAIM = "base.eupg", "claim.json"
_STEPS = {
    "deal": "deal: check every value, and sort the rows by person",
    "gather": "gather: bring the records of each person together",
    "train": "train: noisy answers until the budget is spent",
}


@command("eupg pretrain --data people.parquet --schema schema.toml --out base")
def pretrain(
    data: Data,
    stored: StorageOptions,
    schema: Annotated[Path, option("--schema FILE", "The columns' bounds and categories, as a TOML file.")],
    out: Annotated[Path, option("--out DIR", "A new or an empty folder for the model and its claim.")],
    epsilon: Annotated[float, option("--epsilon X", "The budget of a person.")] = 1.0,
    delta: Annotated[float, option("--delta X", "The added probability; 0 for pure differential privacy.")] = 1e-5,
    max_records: MaxRecords = None,
    jobs: Jobs = None,
    seed: ProtectionSeed = None,
    as_json: Json = False,
) -> int:
    """Train private trees on a table that may be larger than memory."""
    from eupg.cli.progress import shown
    from eupg.data.schema import Schema
    from eupg.executor.processes import LocalProcesses
    from eupg.files import write_atomically
    from eupg.forget.private_trees.base import PrivateTrees
    from eupg.learn.leaves.learner import LeafLearner
    from eupg.protect.streaming.folder import RunOutcome, claimed
    from eupg.rng import Secret, Seeded

    terminal = Terminal(as_json=as_json)
    training, file = PrivateTrees(epsilon, delta, 1 if max_records is None else max_records), stored.of_files(data)
    with shown(terminal.console, _STEPS) as progress, claimed(out, RunOutcome("model", _MODEL, _CLAIM)) as records:
        model, claim = training.pretrain_files(
            file,
            Schema.load(schema),
            rng=Secret() if seed is None else Seeded(seed),
            executor=LocalProcesses(jobs),
            folder=records,
            progress=progress,
        )
        LeafLearner().save(model, out / _MODEL)
        text = json.dumps(claim.to_json(), indent=2, ensure_ascii=False) + "\n"
        write_atomically(out / _CLAIM, text.encode())
    if not isinstance(file, Path):
        terminal.tell(file.notes)
    lines = [f"Base model: {out / _MODEL}", "Claim for everyone in the table:", claim.sentence()]
    terminal.show("\n".join(lines), {"model": str(out / _MODEL), "claim": claim.to_json()})
    return 0
