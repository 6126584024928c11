"""``eupg compare``: several ways to forget on one data set, in one table and one picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.names import LearnerName, recipe
from eupg.cli.options import (
    DataInstead,
    Drop,
    Feature,
    HoldOut,
    IdColumn,
    Json,
    LabelColumn,
    Learner,
    NoSubject,
    SchemaFile,
    Seed,
    SourceName,
    SubjectColumn,
    TestShare,
)
from eupg.cli.terminal import Terminal
from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.forget.unlearner import Unlearner
    from eupg.learn.recipes import Recipe

METHODS = ("retrain", "short-retrain", "sisa", "certified-sp", "kanonymity", "dp")
_WITH_K, _WITH_EPSILON = ("kanonymity",), ("certified-sp", "dp")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, compare, example="eupg compare adult --learner xgboost --methods sisa,kanonymity --k 30")


def compare(
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
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            metavar="NAME,…",
            help=f"Some of {', '.join(METHODS)}; by default all that the learner supports. Retrain and short retrain "
            "are always included.",
        ),
    ] = None,
    k: Annotated[int | None, typer.Option("--k", metavar="N", help="The k of k-anonymity (default 30).")] = None,
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", metavar="E", help="Privacy budget of local DP and of Certified-SP (default 1)."),
    ] = None,
    effort: Annotated[
        int | None, typer.Option("--effort", metavar="N", help="Epochs or trees of a full training.")
    ] = None,
    finetune: Annotated[
        int | None,
        typer.Option("--finetune", metavar="N", help="Epochs or trees after a request, for the short methods."),
    ] = None,
    forget: Annotated[
        float, typer.Option("--forget", metavar="SHARE", help="Share of people who ask to be forgotten.")
    ] = 0.05,
    repeats: Annotated[int, typer.Option("--repeats", metavar="N", help="Number of repetitions.")] = 1,
    references: Annotated[
        int, typer.Option("--references", metavar="N", help="Number of reference models of the audit; 0: no audit.")
    ] = 8,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture, as .svg or .png.")] = Path(
        "comparison.svg"
    ),
    as_json: Json = False,
) -> int:
    """Compare several ways to forget on one data set."""
    if out.suffix.lower() not in (".svg", ".png"):
        raise ParameterError(f"the picture is written as .svg or .png, got {out.name!r}")

    from rich.markup import escape

    from eupg.cli.progress import steps
    from eupg.cli.tables import Columns, chosen_source
    from eupg.compare import run
    from eupg.compare.show import notes, picture, table

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
        unlearners = _unlearners(
            recipe(learner.value, chosen.name), methods, k=k, epsilon=epsilon, effort=effort, finetune=finetune
        )
        comparison = run.compare(
            chosen, unlearners, forget=forget, repetitions=repeats, references=references, seed=seed, watch=watch
        )
    terminal.console.print(table(comparison))
    for line in notes(comparison):
        terminal.console.print(line)
    drawn = picture(comparison, out)
    terminal.console.print(f"Picture: {escape(str(drawn))}")
    if as_json:
        settings = {name: repr(unlearner) for name, unlearner in unlearners.items()}
        content = comparison.to_json() | {"settings": settings, "picture": str(drawn)}
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
    return 0


def _unlearners(
    rule: Recipe, methods: str | None, *, k: int | None, epsilon: float | None, effort: int | None, finetune: int | None
) -> dict[str, Unlearner]:
    """Return the methods asked for; the two controls are always among them."""
    from eupg.forget.certified_sp import CertifiedSP
    from eupg.forget.eupg import EUPG
    from eupg.forget.retrain import Retrain
    from eupg.forget.sisa import SISA
    from eupg.learn.noisy import NoisyLearner
    from eupg.protect.kanonymity import ProbabilisticKAnonymity
    from eupg.protect.local_dp import LocalDP

    learner = rule.learner
    full, short = effort or rule.pretrain, finetune or rule.finetune
    everything = [name for name in METHODS if name != "certified-sp" or isinstance(learner, NoisyLearner)]
    asked = methods.split(",") if methods else everything
    unknown = [name for name in asked if name not in METHODS]
    if unknown:
        raise ParameterError(f"no method {unknown[0]!r}: choose some of {', '.join(METHODS)}")
    for option, value, users in (("--k", k, _WITH_K), ("--epsilon", epsilon, _WITH_EPSILON)):
        if value is not None and not set(users) & set(asked):
            raise ParameterError(
                f"{option} belongs to {' and '.join(users)}, which are not among the methods compared: leave it out, "
                "or add one of them to --methods"
            )
    k, epsilon = 30 if k is None else k, 1.0 if epsilon is None else epsilon
    chosen: dict[str, Unlearner] = {"Retrain": Retrain(learner, full), "Short retrain": Retrain(rule.short, short)}
    if "sisa" in asked:
        chosen["SISA"] = SISA(learner, full)
    if "certified-sp" in asked:
        chosen["Certified-SP"] = CertifiedSP(learner, full, short, epsilon=epsilon)
    if "kanonymity" in asked:
        chosen[f"EUPG, k={k}"] = EUPG(ProbabilisticKAnonymity(k), learner, full, short)
    if "dp" in asked:
        chosen[f"EUPG, ε={epsilon:g}"] = EUPG(LocalDP(epsilon), learner, full, short)
    return chosen
