"""``eupg train``, ``add`` and ``renew``: the model of a workspace."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from eupg.certify.summary import readable
from eupg.cli.names import (
    GUARANTEES,
    LEARNERS,
    base_recipe,
    careful_recipe,
    check_parameters,
    follow_plan,
    mechanism,
    recipe,
)
from eupg.cli.tables import Columns, add_column_options, read_records
from eupg.cli.workspace import add_command, counted, opened, show
from eupg.data.dataset import Dataset, read_table
from eupg.errors import ParameterError
from eupg.rng import Seeded

if TYPE_CHECKING:
    from eupg.forget.eupg import EUPG

_TOO_FEW_DRAWN = "is the base model, since too few people were drawn to fine-tune on; more may come in with new records"


def add_to(commands: Any) -> None:
    """Add the commands."""
    train = add_command(commands, "train", "protect, pretrain, finetune and deploy a model of your records", _train)
    train.add_argument("--data", type=Path, required=True, metavar="FILE", help="the records: CSV or Parquet")
    add_column_options(train)
    train.add_argument("--guarantee", choices=GUARANTEES, help="needed unless --plan says it")
    train.add_argument("--k", type=int, help="smallest group (kanonymity; default 30)")
    train.add_argument("--epsilon", type=float, help="privacy budget, of a record (dp) or a person (others); default 1")
    train.add_argument(
        "--delta", type=float, help="chance that the budget is overrun (synthesis: default 0; others: 1e-5)"
    )
    train.add_argument(
        "--max-records", type=int, help="records used of one person (not with kanonymity or dp; default 1)"
    )
    train.add_argument("--label-epsilon", type=float, help="a further budget that covers the label too (dp)")
    train.add_argument("--learner", choices=LEARNERS, help="needed unless --plan says it, or with private-trees")
    train.add_argument(
        "--exposure",
        type=float,
        help="chance that a person is seen raw, decided once per person; below 1 models are chosen on the release and "
        "on these people alone, and erasing anyone else needs no training",
    )
    train.add_argument(
        "--top-up", action="store_true", help="draw others for exposed people who leave; claims then say so"
    )
    train.add_argument("--plan", type=Path, metavar="FILE", help="what eupg plan --out wrote: take its advice")
    train.add_argument("--pretrain", type=int, help="epochs or trees on the release")
    train.add_argument("--finetune", type=int, help="epochs or trees on the records; 0 serves the base model itself")
    train.add_argument("--hold-out", type=float, default=0.1, help="share of people no model sees, for audits")
    train.add_argument("--ledger", metavar="URL", help="a database for the ledger, such as postgresql://host/name")
    train.add_argument("--seed", type=int, help="repeat a run exactly; what it protects is then not private")
    more = add_command(commands, "add", "take in new records", _add)
    more.add_argument("--data", type=Path, required=True, metavar="FILE", help="the new records")
    more.add_argument(
        "--id", dest="identifier", metavar="COL", help="the column of record ids; without one, ids are generated"
    )
    more.add_argument(
        "--repeated",
        choices=("skip", "add"),
        help="without record ids: leave out records that equal some held already, or add them as further records; by "
        "default a table that seems to have been added before is refused",
    )
    add_command(commands, "renew", "make a second release of the records that are left", _renew)


def _train(options: argparse.Namespace, console: Console) -> int:
    looked = follow_plan(options) if options.plan is not None else []
    if options.guarantee == "private-trees":
        _check_served_as_is(options)
    elif options.guarantee is None or options.learner is None:
        raise ParameterError(
            "which guarantee and learner? pass --guarantee and --learner, or --plan with a plan's file"
        )
    check_parameters(options, [options.guarantee])
    if options.top_up and options.exposure in (None, 0, 1):
        raise ParameterError(
            "--top-up replaces exposed people who leave, and here nobody or everybody is exposed: pass --exposure "
            "between 0 and 1 with it, or leave it out"
        )
    table = read_records(options.data, Columns.of(options))
    for note in table.notes:
        console.print(readable(note), markup=False)
    method = _method(options)
    rng = None if options.seed is None else Seeded(options.seed)
    with opened(options, console, method, rng=rng, ledger=options.ledger) as manager:
        manager.train(table.data, hold_out=options.hold_out, not_covered=looked)
        status = manager.status()
    whose = f" of {counted(status.people, 'person', 'people')}" if status.names_people else ""
    words = [f"Trained on {counted(status.records, 'record')}{whose}; {counted(status.held_out, 'record')} held out."]
    if not status.names_people:
        words.append("No column names the person: each record counts by itself.")
        if table.data.ids.tolist() == [str(row) for row in range(len(table.data))]:
            words.append("Record ids are row numbers, from 0: ask for an erasure by --record.")
    if 0 < method.exposure < 1 and method.finetune:
        seen = f"was fitted on {status.exposed:,} people who were drawn" if status.exposed else _TOO_FEW_DRAWN
        words.append(f"The served model {seen}.")
    words += ["For a record that is forgotten:", status.claim]
    if options.schema is None:
        words.append(
            "Bounds and categories were read from the data. Declare them in a schema to have a stronger claim."
        )
    show(options, console, "\n".join(words), status.to_json())
    return 0


def _check_served_as_is(options: argparse.Namespace) -> None:
    """Refuse options that say how to fit or fine-tune, where the model is fitted in one way and served as it is."""
    wrong = [f"--{name}" for name in ("learner", "pretrain") if getattr(options, name) is not None]
    wrong += [f"--{name}" for name in ("exposure", "finetune") if getattr(options, name)]
    if wrong:
        raise ParameterError(
            f"--guarantee private-trees makes its own kind of model and serves it as it is, so {', '.join(wrong)} "
            "would be ignored: leave it out, or choose another guarantee"
        )


def _method(options: argparse.Namespace) -> EUPG:
    """Return the paper's recipe, or, where few people are seen raw, the careful one."""
    from eupg.forget.eupg import EUPG

    if options.guarantee == "private-trees":
        from eupg.learn.leaves.learner import LeafLearner

        return EUPG(mechanism(options), LeafLearner(), 1, 0, exposure=0)
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
        schema = manager.space.schema
        table = read_table(options.data, schema, names=[options.identifier] if options.identifier else [])
        has_ids = options.identifier is not None or [a.name in table for a in schema.identifiers] == [True]
        if has_ids and options.repeated is not None:
            raise ParameterError("--repeated is for tables without record ids, and this one has them: leave it out")
        data = Dataset.from_table(table, schema, ids=options.identifier)
        added = manager.add(data, fresh_ids=not has_ids, repeated=options.repeated or "refuse")
        status = manager.status()
    exact = "; forgetting them will be exact" if not added.returned else ""
    words = [f"{counted(added.records, 'record')} added{exact}."]
    if added.prefix is not None:
        first, last = (f"{added.prefix}-{row}" for row in (0, len(data) - 1))
        words.append(
            f"Record ids were generated: {first} to {last}, a random prefix and the row number in {options.data.name}."
        )
    if added.repeated:
        done = "left out" if options.repeated == "skip" else "added as further records"
        words.append(f"{added.repeated:,} of {len(data):,} equal records that are held already: they were {done}.")
    if added.returned:
        words.append(
            f"Of these, {counted(added.returned, 'record')} of people who were forgotten before: they are in the "
            "training records again, and earlier releases that held them still count."
        )
    show(options, console, "\n".join(words), status.to_json() | {"added": asdict(added)})
    return 0


def _renew(options: argparse.Namespace, console: Console) -> int:
    with opened(options, console) as manager:
        manager.renew()
        status = manager.status()
    words = (
        f"Release {status.releases} made of {counted(status.records, 'record')}; for those in several, claims add up."
    )
    show(options, console, words, status.to_json())
    return 0
