"""``eupg demo``: one person's erasure on real data, told step by step."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, ProtectionSeed, option
from eupg.cli.terminal import Terminal

if TYPE_CHECKING:
    from rich.console import Console

    from eupg.demo.story import Story

_STAGES = {
    "load": "load the records",
    "compile": "compile the grouping kernel (first run only)",
    "protect": "protect: permute inside groups of k",
    "pretrain": "pretrain on the release alone",
    "finetune": "finetune on the records, deploy",
    "verify the certificate": "verify certificate, ledger and files",
    "time it": "time the forgetting alone, three times",
    "forget": "forget: back to the base model, finetune on the remaining records",
}


@command("eupg demo --k 30 --out demo-report")
def demo(
    k: Annotated[int, option("--k N", "Size of the smallest group in the k-anonymous release.")] = 30,
    subject: Annotated[str | None, option("--subject ID", "The person to forget, by number in the experiment.")] = None,
    seed: ProtectionSeed = None,
    out: Annotated[Path, option("--out DIR", "The folder for the page.")] = Path("demo-report"),
    as_json: Json = False,
) -> int:
    """Erase one person from real data, step by step."""
    from eupg.cli.progress import shown
    from eupg.demo.page import CERTIFICATE, CERTIFICATE_PAGE, prepare, write_page
    from eupg.demo.story import tell
    from eupg.rng import Secret, Seeded

    terminal = Terminal(as_json=as_json)
    console = terminal.console
    rng = Secret() if seed is None else Seeded(seed)
    prepare(out)
    console.print("\n[bold]One person asks to be forgotten.[/] RAND Health Insurance Experiment, real people.\n")
    with shown(console, _STAGES) as progress:
        story = tell(k=k, subject=subject, rng=rng, folder=out / "workspace", progress=progress)
        with progress.step("write the page"):
            page = write_page(story, out)
    _print(story, console)
    console.print(str(story.certificate), markup=False, soft_wrap=True)
    files = (
        f"\nVerified certificate: {out / CERTIFICATE}\nFor printing:         {out / CERTIFICATE_PAGE}\n"
        f"The workspace:        eupg status --workspace {story.workspace}\nPage: {page}\n"
    )
    console.print(files, markup=False)
    terminal.answer(_figures(story, page))
    return 0


def _print(story: Story, console: Console) -> None:
    from rich.markup import escape
    from rich.panel import Panel
    from rich.table import Table

    from eupg.demo.story import CHOICE

    table = Table(title="\nUtility (AUC %) on people never seen, before and after the erasure", title_justify="left")
    for heading in ("method", "before", "after", "forget", "effort", "claim"):
        table.add_column(heading, justify="right" if heading in ("before", "after", "forget") else "left")
    for m in story.methods:
        table.add_row(m.name, f"{m.before:.1f}", f"{m.after:.1f}", f"{m.forget_s:.2f} s", m.passes, m.claim)
    console.print(table)
    console.print(f"Time: {story.times}")
    console.print(f"The base model alone, which saw protected data only: {story.base_utility:.1f}\n")
    changes = Table(title=f"Predictions: P(person {escape(story.subject)} sees a doctor)", title_justify="left")
    for heading in ("record", "truth", "before", "after", "retrained", "base"):
        changes.add_column(heading, justify="left" if heading == "record" else "right")
    eupg_, retrain = story.methods[2:4]
    columns = (eupg_.person_before, eupg_.person_after, retrain.person_after, story.person_base)
    for row, (record, truth) in enumerate(zip(story.person.ids, story.person.y, strict=True)):
        changes.add_row(str(record), str(truth), *(f"{c[row]:.2f}" for c in columns))
    console.print(changes)
    console.print(Panel(escape(story.claim.sentence()), title="The claim for this person", title_align="left"))
    console.print(CHOICE)
    console.print(f"Narrower than it sounds: {story.effective}.\n")
    console.print(f"[bold]{story.verdict}[/]\n")
    console.print(f"[bold]{story.free}[/]\n")


def _figures(story: Story, page: Path) -> dict[str, object]:
    return {
        "subject": story.subject,
        "records": len(story.person),
        "claim": story.claim.to_json(),
        "effective_k": asdict(story.effective),
        "base_utility": story.base_utility,
        "seconds": story.seconds,
        "methods": [asdict(m) for m in story.methods],
        "free": {"unchanged": story.unchanged, "erased_s": story.erased_s},
        "certificate": story.certificate.to_json(),
        "workspace": str(story.workspace),
        "page": str(page),
    }
