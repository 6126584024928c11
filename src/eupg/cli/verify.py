"""``eupg verify``: check a certificate, a workspace, or both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import (
    CertificateInvalid,
    DataError,
    KeyFileError,
    LedgerCorrupt,
    LedgerMissing,
    ParameterError,
    StoreCorrupt,
    UnknownRequest,
    WorkspaceDamaged,
)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, verify, example="eupg verify certificate.json --key signing.pub")


def verify(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A certificate.")] = None,
    workspace: Annotated[
        Path | None,
        typer.Option("--workspace", metavar="DIR", help="Also check the ledger and files of this workspace."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="The public key of the issuer, signing.pub.")
    ] = None,
    integrity_only: Annotated[
        bool, typer.Option("--integrity-only", help="Only check that the file is unchanged, whoever signed it.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Check a certificate, a workspace, or both."""
    terminal = Terminal(as_json=as_json)
    if file is None and workspace is None:
        raise ParameterError("what is to be verified? pass a certificate, or --workspace")
    if file is not None and not file.is_file():
        raise DataError(f"no file {file}: name a certificate's file")
    if integrity_only and (file is None or key is not None or workspace is not None):
        raise ParameterError("--integrity-only checks one certificate without a key: pass the file alone with it")
    shown = []
    try:
        if file is not None and (key is not None or workspace is None):
            shown.append(_check_file(file, key, integrity_only=integrity_only))
        if workspace is not None:
            _check_workspace(workspace, file, terminal)
            whom = "each other" if file is None else "it"
            shown.append(f"ledger, requests, models and records of the workspace agree with {whom}")
    except (CertificateInvalid, LedgerCorrupt, StoreCorrupt, UnknownRequest, WorkspaceDamaged) as error:
        terminal.show(f"NOT VERIFIED: {error}", {"verified": False, "why": str(error)})
        return 1
    terminal.show(f"Verified: {'; '.join(shown)}.", {"verified": True, "shown": shown})
    return 0


def _check_file(file: Path, key: Path | None, *, integrity_only: bool) -> str:
    """Check a certificate by itself; return what that shows."""
    from eupg.certify.verify import verify, verify_integrity

    if key is not None:
        verify(file, key=key)
        return "signed by the owner of the key, and unchanged"
    verify_integrity(file)
    if not integrity_only:
        raise CertificateInvalid(
            "the file is unchanged since somebody signed it, but anyone can sign: pass --key with the "
            "issuer's public key, or --integrity-only if that is all you want to know"
        )
    return "unchanged since somebody signed it; who that was is not known"


def _check_workspace(workspace: Path, file: Path | None, terminal: Terminal) -> None:
    """Check a workspace, and a certificate against it; one that lost a key or its ledger is not what it says."""
    try:
        with opened(workspace, terminal) as manager:
            manager.verify(file)
    except (KeyFileError, LedgerMissing) as error:
        raise WorkspaceDamaged(str(error)) from error
