"""``eupg train``: the model of a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.names import (
    Choices,
    GuaranteeName,
    LearnerName,
    base_recipe,
    careful_recipe,
    check_parameters,
    follow_plan,
    mechanism,
    recipe,
)
from eupg.cli.options import (
    Data,
    Drop,
    Feature,
    IdColumn,
    Json,
    LabelColumn,
    MaxRecords,
    NoSubject,
    ProtectionSeed,
    SchemaFile,
    SubjectColumn,
    Workspace,
)
from eupg.cli.terminal import Terminal, counted
from eupg.cli.workspace import opened
from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.data.dataset import Dataset
    from eupg.forget.eupg import EUPG
    from eupg.manage.status import WorkspaceStatus

_TOO_FEW_DRAWN = "is the base model, since too few people were drawn to fine-tune on; more may come in with new records"
_EXAMPLE = """eupg train --data people.csv --label income --subject person \\
    --guarantee kanonymity --k 30 --learner xgboost --workspace ws"""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, train, example=_EXAMPLE)


def train(
    workspace: Workspace,
    data: Data,
    schema: SchemaFile = None,
    label: LabelColumn = None,
    subject: SubjectColumn = None,
    no_subject: NoSubject = False,
    identifier: IdColumn = None,
    drop: Drop = None,
    features: Feature = None,
    guarantee: Annotated[
        GuaranteeName | None, typer.Option("--guarantee", help="The guarantee. Required without --plan.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", metavar="N", help="Size of the smallest group (kanonymity; default 30).")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            "--epsilon", metavar="E", help="Privacy budget per record (dp) or per person (the others); default 1."
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", metavar="D", help="Chance that the budget is exceeded (synthesis: default 0; others: 1e-5)."
        ),
    ] = None,
    max_records: MaxRecords = None,
    label_epsilon: Annotated[
        float | None,
        typer.Option("--label-epsilon", metavar="E", help="A further budget, which covers the label too (dp)."),
    ] = None,
    learner: Annotated[
        LearnerName | None,
        typer.Option("--learner", help="The kind of model. Required without --plan, but not with private-trees."),
    ] = None,
    exposure: Annotated[
        float | None,
        typer.Option(
            "--exposure",
            metavar="SHARE",
            help="Chance that a person's records are used unprotected, drawn once per person. Below 1, models are "
            "chosen on the release and these people alone, and erasing anyone else needs no training.",
        ),
    ] = None,
    top_up: Annotated[
        bool, typer.Option("--top-up", help="Draw others for exposed people who leave; claims then say so.")
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Follow the advice that eupg plan --out wrote to this file."),
    ] = None,
    pretrain: Annotated[
        int | None, typer.Option("--pretrain", metavar="N", help="Epochs or trees on the release.")
    ] = None,
    finetune: Annotated[
        int | None,
        typer.Option("--finetune", metavar="N", help="Epochs or trees on the records; 0 serves the base model itself."),
    ] = None,
    hold_out: Annotated[
        float, typer.Option("--hold-out", metavar="SHARE", help="Share of people that no model sees, for audits.")
    ] = 0.1,
    ledger: Annotated[
        str | None,
        typer.Option("--ledger", metavar="URL", help="A database for the ledger, such as postgresql://host/name."),
    ] = None,
    seed: ProtectionSeed = None,
    as_json: Json = False,
) -> int:
    """Protect, pretrain, finetune and deploy a model of your records."""
    terminal = Terminal(as_json=as_json)
    choices = Choices(
        guarantee=None if guarantee is None else guarantee.value,
        k=k,
        epsilon=epsilon,
        delta=delta,
        label_epsilon=label_epsilon,
        max_records=max_records,
        exposure=exposure,
        learner=None if learner is None else learner.value,
    )
    choices, looked = (choices, []) if plan is None else follow_plan(plan, choices)
    _check(choices, pretrain=pretrain, finetune=finetune, top_up=top_up)

    from eupg.cli.tables import Columns, read_records
    from eupg.rng import Seeded

    columns = Columns(
        schema=schema,
        label=label,
        subject=subject,
        identifier=identifier,
        no_subject=no_subject,
        drop=drop or (),
        features=features or (),
    )
    table = read_records(data, columns)
    terminal.tell(table.notes)
    method = _method(choices, pretrain=pretrain, finetune=finetune, top_up=top_up)
    rng = None if seed is None else Seeded(seed)
    with opened(workspace, terminal, method, rng=rng, ledger=ledger) as manager:
        manager.train(table.data, hold_out=hold_out, not_covered=looked)
        status = manager.status()
    terminal.show(_words(status, table.data, method, declared=schema is not None), status.to_json())
    return 0


def _check(choices: Choices, *, pretrain: int | None, finetune: int | None, top_up: bool) -> None:
    """Refuse choices that are missing or do not belong together."""
    if choices.guarantee == GuaranteeName.PRIVATE_TREES:
        _check_served_as_is(choices, pretrain=pretrain, finetune=finetune)
    elif choices.guarantee is None or choices.learner is None:
        raise ParameterError(
            "which guarantee and learner? pass --guarantee and --learner, or --plan with a plan's file"
        )
    check_parameters(choices.parameters, [choices.guarantee])
    if top_up and choices.exposure in (None, 0, 1):
        raise ParameterError(
            "--top-up replaces exposed people who leave, and here nobody or everybody is exposed: pass --exposure "
            "between 0 and 1 with it, or leave it out"
        )


def _check_served_as_is(choices: Choices, *, pretrain: int | None, finetune: int | None) -> None:
    """Refuse options that say how to fit or fine-tune, where the model is fitted in one way and served as it is."""
    unused = {
        "--learner": choices.learner is not None,
        "--pretrain": pretrain is not None,
        "--exposure": bool(choices.exposure),
        "--finetune": bool(finetune),
    }
    wrong = [option for option, passed in unused.items() if passed]
    if wrong:
        raise ParameterError(
            f"--guarantee private-trees makes its own kind of model and serves it as it is, so {', '.join(wrong)} "
            "would be ignored: leave it out, or choose another guarantee"
        )


def _method(choices: Choices, *, pretrain: int | None, finetune: int | None, top_up: bool) -> EUPG:
    """Return the paper's recipe, or, where few people are seen raw, the careful one."""
    from eupg.forget.eupg import EUPG

    if choices.guarantee == GuaranteeName.PRIVATE_TREES:
        from eupg.learn.leaves.learner import LeafLearner

        return EUPG(mechanism(choices), LeafLearner(), 1, 0, exposure=0)
    learner, exposure = str(choices.learner), choices.exposure
    everybody = exposure is None or exposure == 1
    rule = recipe(learner) if everybody else careful_recipe(learner)
    base, effort = base_recipe(str(choices.guarantee), learner, rule)
    full = effort if pretrain is None else pretrain
    short = rule.finetune if finetune is None else finetune
    if exposure is None or everybody:
        return EUPG(mechanism(choices), base, full, short)
    return EUPG(mechanism(choices), base, full, short, exposure=exposure, top_up=top_up, finetuner=rule.finetuner)


def _words(status: WorkspaceStatus, data: Dataset, method: EUPG, *, declared: bool) -> str:
    whose = f" of {counted(status.people, 'person', 'people')}" if status.names_people else ""
    lines = [f"Trained on {counted(status.records, 'record')}{whose}; {counted(status.held_out, 'record')} held out."]
    if not status.names_people:
        lines.append("No column names the person: each record counts by itself.")
        if data.ids.tolist() == [str(row) for row in range(len(data))]:
            lines.append("Record ids are row numbers, from 0: ask for an erasure by --record.")
    if 0 < method.exposure < 1 and method.finetune:
        seen = f"was fitted on {status.exposed:,} people who were drawn" if status.exposed else _TOO_FEW_DRAWN
        lines.append(f"The served model {seen}.")
    lines += ["For a record that is forgotten:", status.claim]
    if not declared:
        lines.append(
            "Bounds and categories were read from the data. Declare them in a schema to have a stronger claim."
        )
    return "\n".join(lines)
