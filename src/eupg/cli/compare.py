"""``eupg compare``: several ways to forget on one data set, in one table and one picture."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from eupg.certify.summary import readable
from eupg.cli.names import LEARNERS, SOURCES, recipe, source, split
from eupg.cli.progress import steps
from eupg.cli.tables import Columns, add_column_options, read_records
from eupg.errors import ParameterError

if TYPE_CHECKING:
    from eupg.data.sources import Source
    from eupg.forget.unlearner import Unlearner
    from eupg.learn.recipes import Recipe

METHODS = ("retrain", "short-retrain", "sisa", "certified-sp", "kanonymity", "dp")
_WITH_K, _WITH_EPSILON = ("kanonymity",), ("certified-sp", "dp")


def add_to(commands: Any) -> None:
    """Add the command."""
    help_text = "several ways to forget, side by side on one data set"
    parser: argparse.ArgumentParser = commands.add_parser("compare", help=help_text, description=help_text)
    add_table_options(parser)
    parser.add_argument("--learner", choices=LEARNERS, default="xgboost")
    parser.add_argument(
        "--methods",
        help=f"some of {','.join(METHODS)}; by default all that the learner can do. Retrain and short retrain are "
        "always in",
    )
    parser.add_argument("--k", type=int, help="of k-anonymity (default 30)")
    parser.add_argument("--epsilon", type=float, help="of local DP and of Certified-SP (default 1)")
    parser.add_argument("--effort", type=int, help="epochs or trees of a full training")
    parser.add_argument("--finetune", type=int, help="epochs or trees after a request, for every method that is short")
    parser.add_argument("--forget", type=float, default=0.05, help="share of people who ask (default 0.05)")
    parser.add_argument("--repeats", type=int, default=1, help="repetitions")
    parser.add_argument("--references", type=int, default=8, help="reference models of the audit; 0: no audit")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("comparison.svg"), help="the picture (.svg or .png)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.set_defaults(run=_compare)


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a table: a public data set, or a file with its schema."""
    parser.add_argument("source", nargs="?", help=f"a public data set: {', '.join(SOURCES)}")
    parser.add_argument("--data", type=Path, help="a CSV or Parquet file instead")
    add_column_options(parser)
    parser.add_argument("--test-share", type=float, help="share of people held out from a file (default 0.2)")


def _compare(options: argparse.Namespace, console: Console) -> int:
    from eupg.compare.run import compare
    from eupg.compare.show import notes, picture, table

    if options.out.suffix.lower() not in (".svg", ".png"):
        raise ParameterError(f"the picture is written as .svg or .png, got {options.out.name!r}")
    with steps(console) as watch:
        chosen: Source = watch("load the records", lambda: table_source(options, console))
        methods = _methods(options, recipe(options.learner, chosen.name))
        found = compare(
            chosen,
            methods,
            forget=options.forget,
            repetitions=options.repeats,
            references=options.references,
            seed=options.seed,
            watch=watch,
        )
    console.print(table(found))
    for line in notes(found):
        console.print(line)
    drawn = picture(found, options.out)
    console.print(f"Picture: {escape(str(drawn))}")
    if options.json:
        settings = {name: repr(method) for name, method in methods.items()}
        content = found.to_json() | {"settings": settings, "picture": str(drawn)}
        sys.stdout.write(json.dumps(content, indent=2) + "\n")
    return 0


def table_source(options: argparse.Namespace, console: Console) -> Source:
    """Return the table that the options name, split by person."""
    if (options.source is None) == (options.data is None):
        raise ParameterError(f"name one data set ({', '.join(SOURCES)}) or one file with --data")
    columns = Columns.of(options)
    if options.source is not None:
        extra = [*columns.passed, *(["--test-share"] if options.test_share is not None else [])]
        if extra:
            raise ParameterError(
                f"{extra[0]} describes a file of your own and would be ignored with the data set {options.source!r}: "
                "leave it out, or pass the file with --data"
            )
        return source(options.source)
    table = read_records(options.data, columns)
    for note in table.notes:
        console.print(readable(note), markup=False)
    share = 0.2 if options.test_share is None else options.test_share
    return split(options.data.stem, table.data, test_share=share, seed=options.seed)


def _methods(options: argparse.Namespace, given: Recipe) -> dict[str, Unlearner]:
    """Return the methods asked for; the two controls are always among them."""
    from eupg.forget.certified_sp import CertifiedSP
    from eupg.forget.eupg import EUPG
    from eupg.forget.retrain import Retrain
    from eupg.forget.sisa import SISA
    from eupg.learn.noisy import NoisyLearner
    from eupg.protect.kanonymity import ProbabilisticKAnonymity
    from eupg.protect.local_dp import LocalDP

    learner = given.learner
    full, short = options.effort or given.pretrain, options.finetune or given.finetune
    everything = [name for name in METHODS if name != "certified-sp" or isinstance(learner, NoisyLearner)]
    asked = options.methods.split(",") if options.methods else everything
    unknown = [name for name in asked if name not in METHODS]
    if unknown:
        raise ParameterError(f"no method {unknown[0]!r}: choose some of {', '.join(METHODS)}")
    for option, value, users in (("--k", options.k, _WITH_K), ("--epsilon", options.epsilon, _WITH_EPSILON)):
        if value is not None and not set(users) & set(asked):
            raise ParameterError(
                f"{option} belongs to {' and '.join(users)}, which are not among the methods compared: leave it out, "
                "or add one of them to --methods"
            )
    k, epsilon = 30 if options.k is None else options.k, 1.0 if options.epsilon is None else options.epsilon
    methods: dict[str, Unlearner] = {"Retrain": Retrain(learner, full), "Short retrain": Retrain(given.short, short)}
    if "sisa" in asked:
        methods["SISA"] = SISA(learner, full)
    if "certified-sp" in asked:
        methods["Certified-SP"] = CertifiedSP(learner, full, short, epsilon=epsilon)
    if "kanonymity" in asked:
        methods[f"EUPG, k={k}"] = EUPG(ProbabilisticKAnonymity(k), learner, full, short)
    if "dp" in asked:
        methods[f"EUPG, ε={epsilon:g}"] = EUPG(LocalDP(epsilon), learner, full, short)
    return methods
