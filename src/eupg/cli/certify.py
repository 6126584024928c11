"""``eupg certify``: issue the certificate of a completed request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eupg.cli.command import add_command
from eupg.cli.options import Json, Workspace
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import CertificateRefused, StorageError, WorkspaceState


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    add_command(app, certify, example="eupg certify --workspace ws --out certificate.json --page certificate.html")


def certify(
    workspace: Workspace,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The certificate to write.")],
    page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="Also write it as a page to read and print (HTML)."),
    ] = None,
    request: Annotated[
        str | None, typer.Option("--request", metavar="ID", help="The request; by default the last one completed.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Issue the certificate of a completed request."""
    from eupg.certify import render

    terminal = Terminal(as_json=as_json)
    for path in (out, page):
        # Before anything is signed: a certificate that is noted and not written is one that nobody has.
        if path is not None and not path.parent.is_dir():
            raise StorageError(f"there is no folder {path.parent}: make it, or name another file")
    with opened(workspace, terminal) as manager:
        try:
            certificate = manager.certify(request)
        except (CertificateRefused, WorkspaceState) as error:
            terminal.show(f"eupg: {error}", {"error": str(error)})
            return 1
    try:
        certificate.save(out)
        if page is not None:
            page.write_text(render.page(certificate), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"the certificate could not be written ({error}): name another file") from error
    words = f"{certificate}\n\nCertificate: {out}" + (f"\nPage: {page}" if page else "")
    terminal.show(words, certificate.to_json(), wrap=False)
    return 0
