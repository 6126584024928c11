"""``eupg plan``: what each guarantee and exposure would cost and give on a table, and which to take."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eupg.cli.compare import add_table_options, table_source
from eupg.cli.names import LEARNERS, careful_recipe, check_parameters
from eupg.cli.progress import steps
from eupg.cli.workspace import add_command, show
from eupg.errors import EupgError, ParameterError, StorageError

if TYPE_CHECKING:
    from eupg.plan.advice import Advice
    from eupg.plan.frontier import Frontier
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
    plan.add_argument("--max-records", type=int, help="records used of one person (synthesis; default 1)")
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
    from eupg.plan.show import table

    if options.picture.suffix.lower() not in (".svg", ".png"):
        raise ParameterError(f"the picture is written as .svg or .png, got {options.picture.name!r}")
    check_parameters(options, options.guarantee or PLANNED, PLANNED)
    mechanisms = _mechanisms(options)
    for path in (options.picture, options.out):
        # Before anything is measured: figures that cannot be written would be lost.
        if path is not None and not path.parent.is_dir():
            raise StorageError(f"there is no folder {path.parent}: make it, or name another file")
    with steps(console) as watch:
        source = watch("load the records", lambda: table_source(options, console))
        frontier = measure(
            source,
            careful_recipe(options.learner),
            mechanisms,
            exposures=tuple(options.exposure or EXPOSURES),
            seed=options.seed,
            watch=watch,
        )
    advice = advise(frontier, tolerance=options.tolerance, requests_a_month=options.requests_per_month)
    # First of all the figures: what fails after this cannot take them away.
    console.print(table(frontier, advice))
    drawn, picture_words = _picture(frontier, advice, options.picture)
    chosen = advice.point
    taken = None
    if chosen is not None:
        taken = {
            "guarantee": chosen.guarantee,
            "exposure": chosen.exposure,
            "learner": options.learner,
            "max_records": _records(options),
        }
    values = {
        "advice": advice.words,
        "take": taken,
        "complete": not frontier.interrupted,
        "points": [p.to_json() for p in frontier.points],
        "unmeasured": [u.to_json() for u in frontier.unmeasured],
        "not_covered": LOOKED,
        "picture": drawn,
    }
    if options.out is not None:
        try:
            options.out.write_text(json.dumps(values, indent=1), encoding="utf-8")
        except OSError as error:
            raise StorageError(f"the plan could not be written ({error}): name another file") from error
    show(options, console, f"{advice.words}\n{LOOKED}\n{picture_words}", values)
    if frontier.interrupted:
        return 130
    return 0 if chosen is not None else 1


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


def _records(options: argparse.Namespace) -> int:
    return 1 if options.max_records is None else int(options.max_records)


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
        records = _records(options)
        found |= {f"synthetic ε={e:g}": DPSynthesis(e, max_records=records) for e in options.epsilon or (1.0, 4.0)}
    return found
