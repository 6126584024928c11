"""``eupg plan``: what each guarantee and exposure would cost and give on a table, and which to take."""

from __future__ import annotations

import json
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eupg.cli.command import command
from eupg.cli.encoded import INSTEAD_OF_PIXELS, check_for_features, encoded_source
from eupg.cli.names import GuaranteeName, LearnerName, check_parameters
from eupg.cli.options import (
    Columns,
    DataInstead,
    Encoder,
    HoldOutOfFile,
    Json,
    Learner,
    MaxRecords,
    Seed,
    SourceName,
    TextColumn,
    option,
)
from eupg.cli.output_files import check_outputs, check_picture, draw, writing
from eupg.cli.rows import GROUPS, RowChoices, RowName, head_methods, records_used
from eupg.cli.terminal import Terminal

if TYPE_CHECKING:
    from eupg.guarantees import Guarantee

EXPOSURES = (0.0, 0.01, 0.05, 0.2)
_EXAMPLE = """eupg plan --data people.csv --label income --subject person \\
    --guarantee kanonymity --k 10 --k 30 --out plan.json"""


class PlannedName(StrEnum):
    """The guarantees that a plan measures."""

    KANONYMITY = GuaranteeName.KANONYMITY
    DP = GuaranteeName.DP
    SYNTHESIS = GuaranteeName.SYNTHESIS
    PRIVATE_TREES = GuaranteeName.PRIVATE_TREES


class Required(StrEnum):
    """The kinds of claim that ``--require`` demands."""

    EXACT = "exact"
    DP = "dp"
    KANONYMITY = "kanonymity"


@command(_EXAMPLE)
def plan(
    *,
    source: SourceName = None,
    data: DataInstead = None,
    columns: Columns,
    hold_out: HoldOutOfFile = None,
    encoder: Encoder = None,
    text: TextColumn = None,
    learner: Learner = LearnerName.XGBOOST,
    guarantee: Annotated[
        list[PlannedName] | None, option("--guarantee", "Only this guarantee. May be repeated.")
    ] = None,
    k: Annotated[
        list[int] | None, option("--k N", "The k of k-anonymity. May be repeated (default 10, 30, 100).")
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        option("--epsilon E", "Privacy budget (dp, synthesis, private-trees). May be repeated (default 1, 4)."),
    ] = None,
    max_records: MaxRecords = None,
    exposure: Annotated[
        list[float] | None,
        option(
            "--exposure SHARE",
            "Share of people whose records are used unprotected. May be repeated (default 0, 0.01, 0.05, 0.2).",
        ),
    ] = None,
    requests_per_month: Annotated[
        float, option("--requests-per-month N", "How many people ask to be forgotten per month.")
    ] = 10.0,
    tolerance: Annotated[
        float, option("--tolerance POINTS", "How many points below full retraining are acceptable.")
    ] = 0.3,
    require: Annotated[Required | None, option("--require", "Recommend only rows with this kind of claim.")] = None,
    max_epsilon: Annotated[float | None, option("--max-epsilon E", "Recommend only rows with at most this ε.")] = None,
    max_seconds: Annotated[
        float | None, option("--max-seconds S", "Recommend only rows that remove a person in so many seconds.")
    ] = None,
    seed: Seed = 0,
    picture: Annotated[Path, option("--picture FILE", "The picture, as .svg or .png.")] = Path("plan.svg"),
    out: Annotated[Path | None, option("--out FILE", "Write the advice here, for eupg train --plan FILE.")] = None,
    as_json: Json = False,
) -> int:
    """Measure methods on your table, and recommend one that eupg train --plan deploys."""
    check_picture(picture)
    check_outputs(picture, out)
    if encoder is not None or (data is not None and Path(data).is_dir()):
        check_for_features(encoder, source, guarantee, k)
    chosen = tuple(guarantee or PlannedName)
    parameters = {"k": k or None, "epsilon": epsilon or None, "max_records": max_records}
    check_parameters(parameters, chosen, tuple(PlannedName))
    beside = [RowName.EXACT_TREES, RowName.SISA, RowName.CERTIFIED_SP]
    beside += [RowName.SUBTRACTING] * (PlannedName.KANONYMITY in chosen)
    rows = RowChoices(
        names=[*(name for name in beside if name.fits(learner)), *map(RowName, chosen)],
        learner=learner,
        groups=k or (10, 30, 100),
        subtracting_groups=k or GROUPS,
        budgets=epsilon or (1.0, 4.0),
        max_records=1 if max_records is None else max_records,
        exposures=exposure or EXPOSURES,
    )
    mechanisms, methods = rows.mechanisms, rows.methods

    from eupg.cli.progress import shown
    from eupg.cli.tables import chosen_source
    from eupg.learn.recipes import paper_recipe
    from eupg.plan import show
    from eupg.plan.advice import LOOKED, Limits, advise
    from eupg.plan.frontier import measure

    terminal = Terminal(as_json=as_json)
    with shown(terminal.console) as progress:
        with progress.step("load the records"):
            if encoder is None:
                loaded = chosen_source(source, data, columns, terminal, hold_out=hold_out, seed=seed)
                recipe, exposures = rows.recipe, rows.exposures
            else:
                assert data is not None
                loaded = encoded_source(data, columns, encoder, text, terminal, hold_out=hold_out, seed=seed)
                recipe, exposures = paper_recipe(LearnerName.MLP), ()
                mechanisms, methods = {}, head_methods(epsilon or (1.0, 4.0), records=rows.max_records)
        terminal.tell(records_used([*mechanisms.values(), *methods.values()], loaded.train))
        frontier = measure(
            loaded,
            recipe,
            mechanisms,
            methods=methods,
            exposures=exposures,
            seed=seed,
            progress=progress,
        )
    limits = Limits(tolerance=tolerance, notion=_notion(require), max_epsilon=max_epsilon, max_seconds=max_seconds)
    advice = advise(frontier, limits, requests_per_month=requests_per_month)
    # The figures come first: nothing that fails after this can take them away.
    terminal.console.print(show.table(frontier, advice))
    file, words = draw(lambda: show.picture(frontier, advice, picture))
    values = {
        "advice": advice.words,
        "take": None if advice.point is None else advice.point.to_json(),
        "complete": not frontier.interrupted,
        "points": [p.to_json() for p in frontier.points],
        "unmeasured": [u.to_json() for u in frontier.unmeasured],
        "not_covered": LOOKED,
        "picture": file,
    }
    if out is not None:
        with writing("plan"):
            out.write_text(json.dumps(values, indent=1), encoding="utf-8")
        if advice.point is not None and data is not None:
            encoded = [] if encoder is None else ["--encoder", str(encoder)]
            encoded += [] if text is None else ["--text", text]
            again = shlex.join(["--data", data, *columns.arguments, *encoded, "--plan", str(out), "--workspace", "ws"])
            words += f"\nNext: eupg train {again}"
    instead = f"\n{INSTEAD_OF_PIXELS}" if encoder is not None and not encoder.for_texts else ""
    terminal.show(f"{advice.words}{instead}\n{LOOKED}\n{words}", values)
    if frontier.interrupted:
        return 130
    return 0 if advice.point is not None else 1


def _notion(required: Required | None) -> type[Guarantee] | None:
    from eupg.guarantees import DifferentiallyPrivate, Exact, KAnonymous

    kinds: dict[Required, type[Guarantee]] = {
        Required.EXACT: Exact,
        Required.DP: DifferentiallyPrivate,
        Required.KANONYMITY: KAnonymous,
    }
    return None if required is None else kinds[required]
