"""``eupg export``: the evidence of a workspace for an auditor, or its served model for use elsewhere."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace, option
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened


class ExportKind(StrEnum):
    """The values of ``--format``."""

    EVIDENCE = "evidence"
    NATIVE = "native"
    ONNX = "onnx"


@command("eupg export --workspace ws --format onnx --out credit.onnx")
def export(
    workspace: Workspace,
    out: Annotated[Path, option("--out PATH", "A new or empty folder; with onnx, a file.")],
    kind: Annotated[
        ExportKind,
        option(
            "--format",
            "Evidence for an auditor (ledger, model, schema, public key); or the model in its framework's own format, "
            "with its preprocessing and a program that predicts; or model and preprocessing as one ONNX file.",
        ),
    ] = ExportKind.EVIDENCE,
    as_json: Json = False,
) -> int:
    """Write the evidence for an auditor, or the served model for use elsewhere."""
    from eupg.manage.integrations import evidence_folder
    from eupg.manage.integrations.export.copies import NOTICE

    terminal = Terminal(as_json=as_json)
    with opened(workspace, terminal) as manager:
        if kind is ExportKind.EVIDENCE:
            paths = evidence_folder.export(manager.space, out)
        else:
            paths = manager.export(out, format=str(kind))
    lines = [str(path) for path in paths]
    terminal.show("\n".join([*lines, *([] if kind is ExportKind.EVIDENCE else [NOTICE])]), lines)
    return 0
