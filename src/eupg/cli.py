"""The command line: parse, call, print.

Exit status 0: done; 1: the answer is no; 2: wrong use.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from eupg.errors import EupgError
from eupg.rng import Secret, Seeded

if TYPE_CHECKING:
    from eupg.demo.story import Story

T = TypeVar("T")
# What the commands need, and the extra that brings all of it.
_EXTRAS = {"xgboost": "demo", "matplotlib": "demo", "statsmodels": "demo"}
_STAGES = {
    "load": "load the records",
    "compile": "compile the grouping kernel (first run only)",
    "protect": "protect: permute inside groups of k",
    "pretrain": "pretrain on the release alone",
    "finetune": "finetune on the records, deploy",
    "forget": "forget: back to the base model, finetune on what is left",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    parser = argparse.ArgumentParser(prog="eupg", description="Forget a person's data, with a stated guarantee.")
    parser.add_argument("--version", action="version", version=f"eupg {version('eupg')}")
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="one person's erasure on real data, told step by step")
    demo.add_argument("--k", type=int, default=30, help="smallest group of the k-anonymous release")
    demo.add_argument("--subject", help="the person to forget (a number of the RAND experiment)")
    demo.add_argument("--seed", type=int, help="repeat a run exactly; what it protects is then not private")
    demo.add_argument("--out", type=Path, default=Path("demo-report"), help="folder of the page")
    demo.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    # Everything goes to one console; with --json the story moves to standard error and leaves output to the JSON.
    console = Console(stderr=options.json, highlight=False)
    try:
        return _demo(options, console)
    except EupgError as error:
        console.print(f"[bold red]eupg:[/] {escape(str(error))}")
        return 2
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in _EXTRAS:
            raise
        console.print(f"[bold red]eupg:[/] needs {package}: " + escape(f"pip install 'eupg[{_EXTRAS[package]}]'"))
        return 2


def _demo(options: argparse.Namespace, console: Console) -> int:
    from eupg.demo.page import prepare, write_page
    from eupg.demo.story import tell

    rng = Secret() if options.seed is None else Seeded(options.seed)
    prepare(options.out)
    columns = (SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"), BarColumn(20))
    console.print("\n[bold]One person asks to be forgotten.[/] RAND Health Insurance Experiment, real people.\n")
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:

        def watch(stage: str, work: Callable[[], T]) -> T:
            task = progress.add_task(_STAGES.get(stage, stage), total=None)
            result = work()
            progress.update(task, total=1, completed=1)
            return result

        story = tell(k=options.k, subject=options.subject, rng=rng, watch=watch)
        page = watch("write the page", lambda: write_page(story, options.out))
    _print(story, console)
    console.print(f"Page: {escape(str(page))}\n")
    if options.json:
        sys.stdout.write(json.dumps(_figures(story, page), indent=2) + "\n")
    return 0


def _print(story: Story, console: Console) -> None:
    from eupg.demo.story import CHOICE

    table = Table(title="\nUtility (AUC %) on people never seen, before and after the erasure", title_justify="left")
    for heading in ("method", "before", "after", "forget", "effort", "claim"):
        table.add_column(heading, justify="right" if heading in ("before", "after", "forget") else "left")
    for m in story.methods:
        table.add_row(m.name, f"{m.before:.1f}", f"{m.after:.1f}", f"{m.forget_s:.2f} s", m.passes, m.claim)
    console.print(table)
    console.print(f"Time: {story.times}")
    console.print(f"The base model alone, which saw protected data only: {story.base_utility:.1f}\n")
    changes = Table(title=f"What the model says: P(person {escape(story.subject)} sees a doctor)", title_justify="left")
    for heading in ("record", "truth", "before", "after", "retrained", "base"):
        changes.add_column(heading, justify="left" if heading == "record" else "right")
    eupg_, retrain = story.methods[:2]
    columns = (eupg_.person_before, eupg_.person_after, retrain.person_after, story.person_base)
    for row, (record, truth) in enumerate(zip(story.person.ids, story.person.y, strict=True)):
        changes.add_row(str(record), str(truth), *(f"{c[row]:.2f}" for c in columns))
    console.print(changes)
    console.print(Panel(escape(story.claim.sentence()), title="What is claimed for this person", title_align="left"))
    console.print(CHOICE)
    console.print(f"Narrower than it sounds: {story.effective}.\n")
    console.print(f"[bold]{story.verdict}[/]\n")


def _figures(story: Story, page: Path) -> dict[str, object]:
    return {
        "subject": story.subject,
        "records": len(story.person),
        "claim": story.claim.to_json(),
        "effective_k": asdict(story.effective),
        "base_utility": story.base_utility,
        "seconds": story.seconds,
        "methods": [asdict(m) for m in story.methods],
        "page": str(page),
    }


if __name__ == "__main__":
    sys.exit(main())
