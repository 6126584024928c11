"""``eupg protect``: a release of a table in files, which may be larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Data, Jobs, Json, ProtectionSeed, StorageOptions, option
from eupg.cli.terminal import Terminal, counted

_STEPS = {
    "survey": "survey: check and count every value",
    "route": "route: sort the rows into cells",
    "group": "group: permute inside groups",
    "shuffle": "shuffle: write the release",
}


@command("eupg protect --data people.parquet --schema schema.toml --out release")
def protect(
    data: Data,
    stored: StorageOptions,
    schema: Annotated[Path, option("--schema FILE", "The columns' bounds and categories, as a TOML file.")],
    out: Annotated[Path, option("--out DIR", "A new or an empty folder for the release.")],
    k: Annotated[int, option("--k N", "Size of the smallest group.")] = 30,
    jobs: Jobs = None,
    seed: ProtectionSeed = None,
    as_json: Json = False,
) -> int:
    """Make a k-anonymous release of a table that may be larger than memory."""
    from eupg.cli.progress import shown
    from eupg.data.schema import Schema
    from eupg.executor.processes import LocalProcesses
    from eupg.protect.streaming.run import protect_files
    from eupg.rng import Secret, Seeded

    terminal = Terminal(as_json=as_json)
    file = stored.of_files(data)
    with shown(terminal.console, _STEPS) as progress:
        release = protect_files(
            file,
            Schema.load(schema),
            out,
            k=k,
            rng=Secret() if seed is None else Seeded(seed),
            executor=LocalProcesses(jobs),
            progress=progress,
        )
    if not isinstance(file, Path):
        terminal.tell(file.notes)
    lines = [
        f"Release of {counted(len(release), 'row')} in {counted(len(release.parts), 'file')}: {out}",
        "Claim for a record in it:",
        release.guarantee.sentence(),
        "The release holds every single value of everyone in it: delete it when the model is trained.",
    ]
    values = {"out": str(out), "rows": len(release), "parts": release.parts, "claim": release.guarantee.to_json()}
    terminal.show("\n".join(lines), values)
    return 0
