"""``eupg plan``: what each guarantee and exposure would cost and give on a table, and which to take."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eupg.cli.compare import add_table_options, table_source
from eupg.cli.names import LEARNERS, careful_recipe
from eupg.cli.progress import steps
from eupg.cli.workspace import add_command, show
from eupg.errors import ParameterError, StorageError

if TYPE_CHECKING:
    from eupg.protect.mechanism import Mechanism

PLANNED = ("kanonymity", "dp", "synthesis")


def add_to(commands: Any) -> None:
    """Add the command."""
    plan = add_command(
        commands, "plan", "measure guarantees and exposures on your table, and recommend one", _plan, workspace=False
    )
    add_table_options(plan)
    plan.add_argument("--learner", choices=LEARNERS, default="xgboost")
    plan.add_argument("--guarantee", choices=PLANNED, action="append", help="only this one; may be repeated")
    plan.add_argument("--k", type=int, action="append", help="of k-anonymity; may be repeated (default 10, 30, 100)")
    plan.add_argument("--epsilon", type=float, action="append", help="of dp, synthesis; may be repeated (default 1, 4)")
    plan.add_argument("--max-records", type=int, default=1, help="records used of one person (synthesis; default 1)")
    plan.add_argument(
        "--exposure",
        type=float,
        action="append",
        help="share of people seen raw; may be repeated (default 0, 0.01, 0.05, 0.2)",
    )
    plan.add_argument("--requests-per-month", type=float, default=10.0, help="how many people ask (default 10)")
    plan.add_argument("--tolerance", type=float, default=0.3, help="points below full retraining to accept")
    plan.add_argument("--seed", type=int, default=0)
    plan.add_argument("--picture", type=Path, default=Path("plan.svg"), help=".svg or .png")
    plan.add_argument("--out", type=Path, metavar="FILE", help="write the advice, for eupg train --plan FILE")


def _plan(options: argparse.Namespace, console: Console) -> int:
    from eupg.plan.advice import LOOKED, advise
    from eupg.plan.frontier import EXPOSURES, measure
    from eupg.plan.show import picture, table

    if options.picture.suffix.lower() not in (".svg", ".png"):
        raise ParameterError(f"the picture is written as .svg or .png, got {options.picture.name!r}")
    with steps(console) as watch:
        source = watch("load the records", lambda: table_source(options))
        frontier = measure(
            source,
            careful_recipe(options.learner),
            _mechanisms(options),
            exposures=tuple(options.exposure or EXPOSURES),
            seed=options.seed,
            watch=watch,
        )
    advice = advise(frontier, tolerance=options.tolerance, requests_a_month=options.requests_per_month)
    drawn = picture(frontier, advice, options.picture)
    chosen = advice.point
    values = {
        "advice": advice.words,
        "take": {
            "guarantee": chosen.guarantee,
            "exposure": chosen.exposure,
            "learner": options.learner,
            "max_records": options.max_records,
        },
        "points": [p.to_json() for p in frontier.points],
        "not_covered": LOOKED,
        "picture": str(drawn),
    }
    if options.out is not None:
        try:
            options.out.write_text(json.dumps(values, indent=1), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"the plan could not be written ({error}): name another file") from error
    console.print(table(frontier, advice))
    show(options, console, f"{advice.words}\n{LOOKED}\nPicture: {drawn}", values)
    return 0


def _mechanisms(options: argparse.Namespace) -> dict[str, Mechanism]:
    from eupg.protect.kanonymity import ProbabilisticKAnonymity
    from eupg.protect.local_dp import LocalDP
    from eupg.protect.synthesis import DPSynthesis

    wanted = options.guarantee or PLANNED
    found: dict[str, Mechanism] = {}
    if "kanonymity" in wanted:
        found |= {f"k={k}": ProbabilisticKAnonymity(k) for k in options.k or (10, 30, 100)}
    if "dp" in wanted:
        found |= {f"ε={e:g}": LocalDP(e) for e in options.epsilon or (1.0, 4.0)}
    if "synthesis" in wanted:
        records = options.max_records
        found |= {f"synthetic ε={e:g}": DPSynthesis(e, max_records=records) for e in options.epsilon or (1.0, 4.0)}
    return found
