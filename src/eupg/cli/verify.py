"""``eupg verify``: check a certificate, a workspace, or both."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eupg.cli.command import command
from eupg.cli.options import Json, option
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


@command("eupg verify certificate.json --key signing.pub")
def verify(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A certificate, or a credential that holds one.")
    ] = None,
    workspace: Annotated[
        Path | None, option("--workspace DIR", "Also check the ledger and files of this workspace.")
    ] = None,
    key: Annotated[Path | None, option("--key FILE", "The public key of the issuer, signing.pub.")] = None,
    integrity_only: Annotated[
        bool, option("--integrity-only", "Only check that the file is unchanged, whoever signed it.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Check a certificate, a workspace, or both."""
    terminal = Terminal(as_json=as_json)
    if file is None and workspace is None:
        raise ParameterError("there is nothing to verify: pass a certificate, or --workspace")
    if integrity_only and (file is None or key is not None or workspace is not None):
        raise ParameterError("--integrity-only checks one certificate without a key: pass the file alone with it")
    if file is not None and not file.is_file():
        raise DataError(f"no file {file}: name the file of a certificate")
    shown = []
    try:
        if file is not None and (key is not None or workspace is None):
            shown.append(_check_file(file, key, integrity_only=integrity_only))
        if workspace is not None:
            _check_workspace(workspace, file, terminal)
            other = "each other" if file is None else "it"
            shown.append(f"ledger, requests, models and records of the workspace agree with {other}")
    except (CertificateInvalid, LedgerCorrupt, StoreCorrupt, UnknownRequest, WorkspaceDamaged) as error:
        terminal.show(f"NOT VERIFIED: {error}", {"verified": False, "why": str(error)})
        return 1
    terminal.show(f"Verified: {'; '.join(shown)}.", {"verified": True, "shown": shown})
    return 0


def _check_file(file: Path, key: Path | None, *, integrity_only: bool) -> str:
    """Check a certificate by itself; return what the check shows."""
    from eupg.certify.verification import verify, verify_integrity

    if key is not None:
        verify(file, key=key)
        return "signed by the owner of the key, and unchanged"
    verify_integrity(file)
    if not integrity_only:
        raise CertificateInvalid(
            "the file is unchanged since somebody signed it, but anyone can sign: pass --key with the issuer's public "
            "key, or --integrity-only to check no more than this"
        )
    return "unchanged since somebody signed it; who that was is not known"


def _check_workspace(workspace: Path, file: Path | None, terminal: Terminal) -> None:
    """Check a workspace, and a certificate against it; a workspace without a key or its ledger is damaged."""
    try:
        with opened(workspace, terminal) as manager:
            manager.verify(file)
    except (KeyFileError, LedgerMissing) as error:
        raise WorkspaceDamaged(str(error)) from error
