"""``eupg train``, ``add``, ``renew`` and ``predict``: the model of a workspace."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from eupg.cli.names import (
    GUARANTEES,
    LEARNERS,
    base_recipe,
    careful_recipe,
    follow_plan,
    mechanism,
    read_records,
    recipe,
)
from eupg.cli.workspace import add_command, opened, show
from eupg.data.dataset import Dataset, read_table
from eupg.data.picture import require_table
from eupg.errors import DataError, ParameterError, StorageError
from eupg.rng import Seeded

if TYPE_CHECKING:
    import pandas as pd

    from eupg.data.schema import Schema
    from eupg.forget.eupg import EUPG


def add_to(commands: Any) -> None:
    """Add the commands."""
    train = add_command(commands, "train", "protect, pretrain, finetune and deploy a model of your records", _train)
    train.add_argument("--data", type=Path, required=True, metavar="FILE", help="the records: CSV or Parquet")
    train.add_argument("--label", metavar="COL", help="the column to predict, where there is no schema")
    train.add_argument("--subject", metavar="COL", help="the column that names the person")
    train.add_argument("--id", dest="identifier", metavar="COL", help="the column of record ids")
    train.add_argument("--schema", type=Path, metavar="FILE", help="public bounds and categories (TOML)")
    train.add_argument("--guarantee", choices=GUARANTEES, help="needed unless --plan says it")
    train.add_argument("--k", type=int, help="smallest group (kanonymity; default 30)")
    train.add_argument("--epsilon", type=float, help="privacy budget, of a record (dp) or a person (others); default 1")
    train.add_argument(
        "--delta", type=float, help="chance that the budget is overrun (synthesis: default 0; dpsgd: 1e-5)"
    )
    train.add_argument("--max-records", type=int, help="records used of one person (synthesis, dpsgd; default 1)")
    train.add_argument("--label-epsilon", type=float, help="a further budget that covers the label too (dp)")
    train.add_argument("--learner", choices=LEARNERS, help="needed unless --plan says it")
    train.add_argument(
        "--exposure",
        type=float,
        help="share of people seen raw; below 1 models are chosen on the release and on these people alone, and "
        "erasing anyone else needs no training",
    )
    train.add_argument("--top-up", action="store_true", help="draw others in place of exposed people who leave")
    train.add_argument("--plan", type=Path, metavar="FILE", help="what eupg plan --out wrote: take its advice")
    train.add_argument("--pretrain", type=int, help="epochs or trees on the release")
    train.add_argument("--finetune", type=int, help="epochs or trees on the records; 0 serves the base model itself")
    train.add_argument("--hold-out", type=float, default=0.1, help="share of people no model sees, for audits")
    train.add_argument("--ledger", metavar="URL", help="a database for the ledger, such as postgresql://host/name")
    train.add_argument("--seed", type=int, help="repeat a run exactly; what it protects is then not private")
    more = add_command(commands, "add", "take in new records", _add)
    more.add_argument("--data", type=Path, required=True, metavar="FILE", help="the new records")
    more.add_argument("--id", dest="identifier", metavar="COL", help="the column of record ids")
    add_command(commands, "renew", "make a second release of the records that are left", _renew)
    predict = add_command(commands, "predict", "predict with the served model", _predict)
    predict.add_argument("--data", type=Path, required=True, metavar="FILE", help="rows to predict for")
    predict.add_argument("--out", type=Path, required=True, metavar="FILE", help="CSV or Parquet to write")


def _train(options: argparse.Namespace, console: Console) -> int:
    data = read_records(
        options.data,
        schema=options.schema,
        label=options.label,
        subject=options.subject,
        identifier=options.identifier,
    )
    looked = follow_plan(options) if options.plan is not None else []
    if options.guarantee is None or options.learner is None:
        raise ParameterError(
            "which guarantee and learner? pass --guarantee and --learner, or --plan with a plan's file"
        )
    method = _method(options)
    rng = None if options.seed is None else Seeded(options.seed)
    with opened(options, console, method, rng=rng, ledger=options.ledger) as manager:
        manager.train(data, hold_out=options.hold_out, not_covered=looked)
        status = manager.status()
    words = [f"Trained on {status.records:,} records of {status.people:,} people; {status.held_out:,} are held out."]
    words += ["For a record that is forgotten:", status.claim]
    if options.schema is None:
        words.append(
            "Bounds and categories were read from the data. Declare them in a schema to have a stronger claim."
        )
    show(options, console, "\n".join(words), status.to_json())
    return 0


def _method(options: argparse.Namespace) -> EUPG:
    """Return the paper's recipe, or, where few people are seen raw, the careful one."""
    from eupg.forget.eupg import EUPG

    if options.exposure is None or options.exposure == 1:
        given = recipe(options.learner)
        base, effort = base_recipe(options, given.learner, given.pretrain)
        full = effort if options.pretrain is None else options.pretrain
        short = given.finetune if options.finetune is None else options.finetune
        return EUPG(mechanism(options), base, full, short)
    rule = careful_recipe(options.learner)
    base, effort = base_recipe(options, rule.learner, rule.pretrain)
    return EUPG(
        mechanism(options),
        base,
        effort if options.pretrain is None else options.pretrain,
        rule.finetune if options.finetune is None else options.finetune,
        exposure=options.exposure,
        top_up=options.top_up,
        finetuner=rule.finetuner,
    )


def _add(options: argparse.Namespace, console: Console) -> int:
    with opened(options, console) as manager:
        data = Dataset.read(options.data, manager.space.schema, ids=options.identifier)
        manager.add(data)
        status = manager.status()
    show(options, console, f"{len(data):,} records added; forgetting them will be exact.", status.to_json())
    return 0


def _renew(options: argparse.Namespace, console: Console) -> int:
    with opened(options, console) as manager:
        manager.renew()
        status = manager.status()
    words = f"Release {status.releases} made of {status.records:,} records; for those in several, claims add up."
    show(options, console, words, status.to_json())
    return 0


def _predict(options: argparse.Namespace, console: Console) -> int:
    suffix = options.out.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise DataError(f"predictions are written as .csv or .parquet, got {options.out.name!r}")
    with opened(options, console) as manager:
        schema = manager.space.schema
        table = read_table(options.data, schema)
        found = manager.predict(_features(table, schema))
    classes = schema.label.categories
    out = {f"P({schema.label.name}={name})": found[:, i] for i, name in enumerate(classes)}
    import pandas as pd

    frame = pd.DataFrame(out | {schema.label.name: np.asarray(classes, dtype=object)[found.argmax(axis=1)]})
    frame.index = table.index
    try:
        if suffix == ".csv":
            frame.to_csv(options.out, index_label="row")
        else:
            frame.to_parquet(options.out)
    except OSError as error:
        raise StorageError(f"the predictions could not be written ({error}): name another file") from error
    show(options, console, f"{len(frame):,} predictions: {options.out}", {"rows": len(frame), "out": str(options.out)})
    return 0


def _features(table: pd.DataFrame, schema: Schema) -> np.ndarray[Any, Any]:
    """Code the features of a table that need not hold the label."""
    require_table(schema, "eupg predict", "Manager.predict in Python")
    absent = [a.name for a in schema.features if a.name not in table.columns]
    if absent:
        raise DataError(f"the table has no column {absent[0]!r}; it has {list(table.columns)}")
    return np.column_stack([a.encode(table[a.name]) for a in schema.features])
