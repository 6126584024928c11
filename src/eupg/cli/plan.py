"""``eupg plan``: what each guarantee and exposure would cost and give on a table, and which to take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.names import GuaranteeName, LearnerName, careful_recipe, check_parameters
from eupg.cli.options import (
    DataInstead,
    Drop,
    Feature,
    HoldOut,
    IdColumn,
    Json,
    LabelColumn,
    Learner,
    MaxRecords,
    NoSubject,
    SchemaFile,
    Seed,
    SourceName,
    SubjectColumn,
    TestShare,
)
from eupg.cli.terminal import Terminal
from eupg.errors import EupgError, ParameterError, StorageError

if TYPE_CHECKING:
    from eupg.plan.advice import Advice
    from eupg.plan.frontier import Frontier
    from eupg.protect.mechanism import Mechanism

_EXAMPLE = """eupg plan --data people.csv --label income --subject person \\
    --guarantee kanonymity --k 10 --k 30 --out plan.json"""


class PlannedName(StrEnum):
    """The guarantees that a plan measures."""

    KANONYMITY = GuaranteeName.KANONYMITY
    DP = GuaranteeName.DP
    SYNTHESIS = GuaranteeName.SYNTHESIS


PLANNED = tuple(name.value for name in PlannedName)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, plan, example=_EXAMPLE)


def plan(
    source: SourceName = None,
    data: DataInstead = None,
    schema: SchemaFile = None,
    label: LabelColumn = None,
    subject: SubjectColumn = None,
    no_subject: NoSubject = False,
    identifier: IdColumn = None,
    drop: Drop = None,
    features: Feature = None,
    hold_out: HoldOut = None,
    test_share: TestShare = None,
    learner: Learner = LearnerName.XGBOOST,
    guarantee: Annotated[
        list[PlannedName] | None, typer.Option("--guarantee", help="Only this guarantee. May be repeated.")
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", metavar="N", help="The k of k-anonymity. May be repeated (default 10, 30, 100)."),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(
            "--epsilon", metavar="E", help="Privacy budget of dp and synthesis. May be repeated (default 1, 4)."
        ),
    ] = None,
    max_records: MaxRecords = None,
    exposure: Annotated[
        list[float] | None,
        typer.Option(
            "--exposure",
            metavar="SHARE",
            help="Share of people whose records are used unprotected. May be repeated (default 0, 0.01, 0.05, 0.2).",
        ),
    ] = None,
    requests_per_month: Annotated[
        float, typer.Option("--requests-per-month", metavar="N", help="How many people ask to be forgotten per month.")
    ] = 10.0,
    tolerance: Annotated[
        float,
        typer.Option("--tolerance", metavar="POINTS", help="How many points below full retraining are acceptable."),
    ] = 0.3,
    seed: Seed = 0,
    picture: Annotated[Path, typer.Option("--picture", metavar="FILE", help="The picture, as .svg or .png.")] = Path(
        "plan.svg"
    ),
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the advice here, for eupg train --plan FILE.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Measure guarantees on your table, and recommend one."""
    if picture.suffix.lower() not in (".svg", ".png"):
        raise ParameterError(f"the picture is written as .svg or .png, got {picture.name!r}")
    wanted = tuple(name.value for name in guarantee or PlannedName)
    parameters = {"k": k or None, "epsilon": epsilon or None, "max_records": max_records}
    check_parameters(parameters, wanted, PLANNED)
    records = 1 if max_records is None else max_records
    mechanisms = _mechanisms(wanted, k or (10, 30, 100), epsilon or (1.0, 4.0), records=records)
    for path in (picture, out):
        # Before anything is measured: figures that cannot be written would be lost.
        if path is not None and not path.parent.is_dir():
            raise StorageError(f"there is no folder {path.parent}: make it, or name another file")

    from eupg.cli.progress import steps
    from eupg.cli.tables import Columns, chosen_source
    from eupg.plan.advice import LOOKED, advise
    from eupg.plan.frontier import EXPOSURES, measure
    from eupg.plan.show import table

    terminal = Terminal(as_json=as_json)
    columns = Columns(
        schema=schema,
        label=label,
        subject=subject,
        identifier=identifier,
        no_subject=no_subject,
        drop=drop or (),
        features=features or (),
    )
    with steps(terminal.console) as watch:
        chosen = watch(
            "load the records",
            lambda: chosen_source(source, data, columns, terminal, hold_out=hold_out, test_share=test_share, seed=seed),
        )
        exposures = tuple(exposure or EXPOSURES)
        frontier = measure(
            chosen, careful_recipe(learner.value), mechanisms, exposures=exposures, seed=seed, watch=watch
        )
    advice = advise(frontier, tolerance=tolerance, requests_a_month=requests_per_month)
    # First of all the figures: what fails after this cannot take them away.
    terminal.console.print(table(frontier, advice))
    drawn, picture_words = _picture(frontier, advice, picture)
    values = {
        "advice": advice.words,
        "take": _take(advice, learner.value, records),
        "complete": not frontier.interrupted,
        "points": [p.to_json() for p in frontier.points],
        "unmeasured": [u.to_json() for u in frontier.unmeasured],
        "not_covered": LOOKED,
        "picture": drawn,
    }
    if out is not None:
        try:
            out.write_text(json.dumps(values, indent=1), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"the plan could not be written ({error}): name another file") from error
    terminal.show(f"{advice.words}\n{LOOKED}\n{picture_words}", values)
    if frontier.interrupted:
        return 130
    return 0 if advice.point is not None else 1


def _take(advice: Advice, learner: str, records: int) -> dict[str, object] | None:
    """Return what ``eupg train --plan`` takes from the plan."""
    chosen = advice.point
    if chosen is None:
        return None
    return {
        "guarantee": chosen.guarantee,
        "exposure": chosen.exposure,
        "learner": learner,
        "max_records": records,
    }


def _picture(frontier: Frontier, advice: Advice, path: Path) -> tuple[str | None, str]:
    """Draw the picture; return where it is, and what to say. A plan is worth having without one."""
    from eupg.plan.show import picture

    try:
        drawn = str(picture(frontier, advice, path))
    except ModuleNotFoundError as error:
        return None, f"No picture: it needs {error.name}: pip install 'eupg[demo]'"
    except (EupgError, OSError) as error:
        return None, f"No picture: {error}"
    return drawn, f"Picture: {drawn}"


def _mechanisms(
    wanted: Sequence[str], groups: Sequence[int], budgets: Sequence[float], *, records: int
) -> dict[str, Mechanism]:
    from eupg.protect.kanonymity import ProbabilisticKAnonymity
    from eupg.protect.local_dp import LocalDP
    from eupg.protect.synthesis import DPSynthesis

    mechanisms: dict[str, Mechanism] = {}
    if "kanonymity" in wanted:
        mechanisms |= {f"k={k}": ProbabilisticKAnonymity(k) for k in groups}
    if "dp" in wanted:
        mechanisms |= {f"ε={e:g}": LocalDP(e) for e in budgets}
    if "synthesis" in wanted:
        mechanisms |= {f"synthetic ε={e:g}": DPSynthesis(e, max_records=records) for e in budgets}
    return mechanisms
