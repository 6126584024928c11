"""k-anonymity of a table in files, which may be larger than memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path

from eupg.data.schema import Schema
from eupg.data.table_file import TableFile
from eupg.errors import ParameterError
from eupg.executor.executor import Executor
from eupg.executor.processes import LocalProcesses
from eupg.guarantees import KAnonymous
from eupg.progress import SILENT, Progress
from eupg.protect.kanonymity import ProbabilisticKAnonymity
from eupg.protect.streaming.chunks import ROWS, chunks_of
from eupg.protect.streaming.folder import claimed, part_name
from eupg.protect.streaming.packed import Sorted
from eupg.protect.streaming.release_files import ReleaseFiles
from eupg.protect.streaming.stages import (
    CellTask,
    Grouped,
    PartTask,
    Routing,
    StreamSettings,
    Survey,
    cells_of,
    group_cell,
    route_chunk,
    shuffle_part,
    survey_chunk,
)
from eupg.protect.streaming.steps import Steps
from eupg.rng import Randomness, Secret
from eupg.validation import check_whole

# Rows of a cell, within which groups are formed, and of a part of the release.
CELL, PART = 50_000, 1 << 20


def protect_files(
    source: str | Path | TableFile,
    schema: Schema,
    folder: str | Path,
    *,
    k: int = 30,
    rng: Randomness | None = None,
    executor: Executor | None = None,
    progress: Progress = SILENT,
    cell: int = CELL,
    part: int = PART,
) -> ReleaseFiles:
    """Permute each quasi-identifier inside groups of at least ``k`` similar records of a table larger than memory.

    The claim is that of :class:`ProbabilisticKAnonymity`, and so is what happens to a record. Only the search for
    similar records differs: a tree of cuts, grown from a sample, divides the table into cells, and groups are formed
    within these. While it runs, records lie in a hidden folder inside ``folder``. It is erased at the end, after an
    error, and by the next run with this folder if the process was killed.

    Parameters
    ----------
    source
        A Parquet, Arrow or CSV file, a folder of Parquet files, or another table that :class:`TableFile` reads.
    schema
        What the columns mean. Only features and the label are read.
    folder
        Where the release is written: a new or an empty folder, on a disk with room for three copies of the table.
    k
        Size of the smallest group.
    rng
        Secret randomness by default. A seed repeats the run exactly, and the claim then says that it is not private.
    executor
        Where the tasks run; by default in one process per core. It does not change a byte of the release.
    progress
        Is told of the steps.
    cell, part
        Rows of a cell, at least 2k, and of a file of the release, about.

    Returns
    -------
    ReleaseFiles
        The release, as the folder holds it.
    """
    mechanism = ProbabilisticKAnonymity(k)
    claim = mechanism.guarantee(schema)
    check_whole("cell", cell, at_least=1)
    check_whole("part", part, at_least=1)
    if cell < 2 * k:
        raise ParameterError(f"a cell holds at least 2k={2 * k} records, got cell={cell}: raise cell or lower k")
    folder = Path(folder)
    steps = Steps(executor or LocalProcesses(), progress)
    with claimed(folder) as records:
        settings = StreamSettings(schema, int(k), str(records), cell, part)
        rng = (rng or Secret()).stage("protect")
        chunks = chunks_of(source, settings.columns, records, rows=ROWS)
        plan = plan_of(settings, steps.run("survey", partial(survey_chunk, settings), chunks))
        routed = steps.run("route", partial(route_chunk, plan), chunks)
        grouped = steps.run("group", partial(group_cell, plan), cell_tasks(plan, routed, rng))
        remove_routed(routed)
        tasks = part_tasks(grouped, folder, rng)
        rows = steps.run("shuffle", partial(shuffle_part, plan), tasks)
        files = ReleaseFiles(
            folder,
            released_schema(schema),
            released_claim(claim, grouped, plan.rows, seeded=rng.seeded),
            {Path(task.path).name: count for task, count in zip(tasks, rows, strict=True)},
        )
        files.save()
    return files


def plan_of(settings: StreamSettings, surveys: Sequence[Survey]) -> Routing:
    """Join the surveys of all chunks, in their order, and plan the run."""
    return Routing.of(settings, reduce(Survey.plus, surveys))


def cell_tasks(plan: Routing, routed: Sequence[Sorted], rng: Randomness) -> list[CellTask]:
    """Return one task per cell, each with randomness of its own."""
    cells = cells_of(plan, routed)
    return [CellTask(number, slices, rng.stage(f"cell {number}")) for number, slices in enumerate(cells)]


def remove_routed(routed: Sequence[Sorted]) -> None:
    """Remove the routed rows, which are no longer needed."""
    for file in routed:
        Path(file.path).unlink()


def part_tasks(grouped: Sequence[Grouped], folder: Path, rng: Randomness) -> list[PartTask]:
    """Return one task per part of the release, each with randomness of its own."""
    parts = zip(*(cell.file.slices() for cell in grouped), strict=True)
    return [
        PartTask(str(folder / part_name(number)), tuple(s for s in slices if s.rows), rng.stage(f"part {number}"))
        for number, slices in enumerate(parts)
    ]


def released_claim(claim: KAnonymous, grouped: Sequence[Grouped], rows: int, *, seeded: bool) -> KAnonymous:
    """Return the claim with what was measured about the attributes it leaves open."""
    shared = {name: round(sum(cell.shared[name] for cell in grouped) / rows, 4) for name in claim.leaves_open}
    return replace(claim, shared=shared, seeded=seeded)


def released_schema(schema: Schema) -> Schema:
    """Return the schema without the columns that name records or people."""
    names = (*schema.identifiers, schema.subject)
    return Schema(tuple(a for a in schema.attributes if a not in names))
