"""``eupg compare``: several ways to forget on one data set, in one table and one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.names import LearnerName
from eupg.cli.options import (
    Columns,
    DataInstead,
    HoldOutOfFile,
    Json,
    Learner,
    MaxRecords,
    Seed,
    SourceName,
    check_references,
    option,
)
from eupg.cli.output_files import check_picture, draw
from eupg.cli.rows import BUDGETS, GROUPS, RowChoices, RowName, records_used
from eupg.cli.terminal import Terminal
from eupg.errors import ParameterError

_USERS = {
    "--k": (RowName.KANONYMITY, RowName.SUBTRACTING),
    "--epsilon": (RowName.CERTIFIED_SP, RowName.DP, RowName.SYNTHESIS, RowName.PRIVATE_TREES),
    "--max-records": (RowName.SYNTHESIS, RowName.PRIVATE_TREES),
    "--exposure": (RowName.KANONYMITY, RowName.DP, RowName.SYNTHESIS),
}


def _references_or_none(number: int) -> int:
    return number and check_references(number)


@command("eupg compare adult --learner xgboost --methods sisa,kanonymity --k 30")
def compare(
    *,
    source: SourceName = None,
    data: DataInstead = None,
    columns: Columns,
    hold_out: HoldOutOfFile = None,
    learner: Learner = LearnerName.XGBOOST,
    methods: Annotated[
        str | None,
        option(
            "--methods NAME,…",
            f"Some of {', '.join(RowName)}; by default all that the learner supports, without synthesis. Retrain and "
            "short retrain are always included.",
        ),
    ] = None,
    k: Annotated[list[int] | None, option("--k N", "The k of k-anonymity. May be repeated (default 30).")] = None,
    epsilon: Annotated[
        list[float] | None,
        option("--epsilon E", "Privacy budget of the methods that have one. May be repeated (default 1)."),
    ] = None,
    max_records: MaxRecords = None,
    exposure: Annotated[
        list[float] | None,
        option(
            "--exposure SHARE",
            "Share of people whose records are used unprotected. May be repeated (default 1: everyone).",
        ),
    ] = None,
    effort: Annotated[int | None, option("--effort N", "Epochs or trees of a full training.")] = None,
    finetune: Annotated[
        int | None, option("--finetune N", "Epochs or trees after a request, for the short methods.")
    ] = None,
    forget: Annotated[float, option("--forget SHARE", "Share of people who ask to be forgotten.")] = 0.05,
    repeats: Annotated[int, option("--repeats N", "Number of repetitions.")] = 1,
    references: Annotated[
        int,
        option(
            "--references N",
            "Number of reference models of the audit: even, 4 or more; 0 for no audit.",
            check=_references_or_none,
        ),
    ] = 8,
    seed: Seed = 0,
    out: Annotated[Path, option("--out FILE", "The picture, as .svg or .png.")] = Path("comparison.svg"),
    as_json: Json = False,
) -> int:
    """Compare several ways to forget on one data set."""
    check_picture(out)
    names = _chosen(methods, learner)
    passed = {"--k": k, "--epsilon": epsilon, "--max-records": max_records, "--exposure": exposure}
    _check_options(names, passed)
    rows = RowChoices(
        names=names,
        learner=learner,
        groups=k or GROUPS,
        subtracting_groups=k or GROUPS,
        budgets=epsilon or BUDGETS,
        max_records=1 if max_records is None else max_records,
        exposures=exposure or (1.0,),
        effort=effort,
        finetune=finetune,
    ).rows

    from eupg.cli.progress import shown
    from eupg.cli.tables import chosen_source
    from eupg.compare import run, show

    terminal = Terminal(as_json=as_json)
    with shown(terminal.console) as progress:
        with progress.step("load the records"):
            loaded = chosen_source(source, data, columns, terminal, hold_out=hold_out, seed=seed)
        unlearners = {row.name: row.method for row in rows}
        terminal.tell(records_used(list(unlearners.values()), loaded.train))
        comparison = run.compare(
            loaded, unlearners, forget=forget, repetitions=repeats, references=references, seed=seed, progress=progress
        )
    # The figures come first: nothing that fails after this can take them away.
    terminal.console.print(show.table(comparison))
    file, words = draw(lambda: show.picture(comparison, out))
    terminal.tell([*show.notes(comparison), words])
    settings = {name: repr(unlearner) for name, unlearner in unlearners.items()}
    terminal.answer(comparison.to_json() | {"settings": settings, "picture": file})
    if comparison.interrupted:
        return 130
    return 1 if comparison.missing else 0


def _chosen(methods: str | None, learner: LearnerName) -> list[RowName]:
    """Return the kinds of rows that were named; without any, those that the learner can have, without the costliest."""
    if methods is None:
        return [name for name in RowName if name.fits(learner) and name is not RowName.SYNTHESIS]
    names = [name for part in methods.split(",") if (name := part.strip())]
    unknown = [name for name in names if name not in list(RowName)]
    if unknown:
        raise ParameterError(f"no method {unknown[0]!r}: choose some of {', '.join(RowName)}")
    return [RowName(name) for name in names]


def _check_options(names: Sequence[RowName], values: Mapping[str, object]) -> None:
    """Refuse options of methods that are not compared."""
    for name, users in _USERS.items():
        if values[name] and not set(users) & set(names):
            raise ParameterError(
                f"{name} is an option of {' and '.join(users)}, and --methods does not include that: leave the option "
                f"out, or add {users[0]} to --methods"
            )
