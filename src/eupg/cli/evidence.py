"""``eupg audit``, ``certify``, ``verify`` and ``export``: evidence, and whether it holds."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from eupg.cli.workspace import add_command, opened, show
from eupg.errors import CertificateRefused, DataError, ParameterError, StorageError, WorkspaceState


def add_to(commands: Any) -> None:
    """Add the commands."""
    audit = add_command(commands, "audit", "attack the served model: how exposed are those who stay?", _audit)
    audit.add_argument("--references", type=int, default=8, help="reference models (an even number)")
    audit.add_argument("--sample", type=int, default=2000, help="records to ask about")
    certify = add_command(commands, "certify", "issue the certificate of a completed request", _certify)
    certify.add_argument("--request", metavar="ID", help="by default the one completed last")
    certify.add_argument("--out", type=Path, required=True, metavar="FILE", help="the certificate")
    certify.add_argument("--page", type=Path, metavar="FILE", help="the same as a page to read and print (HTML)")
    verify = add_command(commands, "verify", "check a certificate, a workspace, or both", _verify, workspace=False)
    verify.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a certificate")
    verify.add_argument("--workspace", type=Path, metavar="DIR", help="also check ledger and files against it")
    verify.add_argument("--key", type=Path, metavar="FILE", help="the issuer's public key, signing.pub")
    verify.add_argument(
        "--integrity-only", action="store_true", help="only check that the file is unchanged, whoever signed it"
    )
    export = add_command(commands, "export", "write ledger, model, schema and public key to a folder", _export)
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="an empty folder, or a new one")


def _audit(options: argparse.Namespace, console: Console) -> int:
    with opened(options, console) as manager:
        report = manager.audit(references=options.references, sample=options.sample)
    show(options, console, report.sentence(), report.to_json())
    return 0


def _certify(options: argparse.Namespace, console: Console) -> int:
    from eupg.certify.render import page

    for path in (options.out, options.page):
        # Before anything is signed: a certificate that is noted and not written is one that nobody has.
        if path is not None and not path.parent.is_dir():
            raise StorageError(f"there is no folder {path.parent}: make it, or name another file")
    with opened(options, console) as manager:
        try:
            certificate = manager.certify(options.request)
        except (CertificateRefused, WorkspaceState) as error:
            show(options, console, f"eupg: {error}", {"error": str(error)})
            return 1
    try:
        certificate.save(options.out)
        if options.page is not None:
            options.page.write_text(page(certificate), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"the certificate could not be written ({error}): name another file") from error
    words = f"{certificate}\n\nCertificate: {options.out}" + (f"\nPage: {options.page}" if options.page else "")
    show(options, console, words, certificate.to_json(), wrap=False)
    return 0


def _verify(options: argparse.Namespace, console: Console) -> int:
    from eupg.certify.verify import verify, verify_integrity
    from eupg.errors import CertificateInvalid, LedgerCorrupt, StoreCorrupt, UnknownRequest, WorkspaceDamaged

    if options.file is None and options.workspace is None:
        raise ParameterError("what is to be verified? pass a certificate, or --workspace")
    if options.file is not None and not options.file.is_file():
        raise DataError(f"no file {options.file}: name a certificate's file")
    if options.integrity_only and (options.file is None or options.key is not None or options.workspace is not None):
        raise ParameterError("--integrity-only checks one certificate without a key: pass the file alone with it")
    shown = []
    try:
        if options.file is not None and options.key is not None:
            verify(options.file, key=options.key)
            shown.append("signed by the owner of the key, and unchanged")
        elif options.file is not None and options.workspace is None:
            verify_integrity(options.file)
            if not options.integrity_only:
                raise CertificateInvalid(
                    "the file is unchanged since somebody signed it, but anyone can sign: pass --key with the "
                    "issuer's public key, or --integrity-only if that is all you want to know"
                )
            shown.append("unchanged since somebody signed it; who that was is not known")
        if options.workspace is not None:
            _verify_workspace(options, console)
            whom = "each other" if options.file is None else "it"
            shown.append(f"ledger, requests, models and records of the workspace agree with {whom}")
    except (CertificateInvalid, LedgerCorrupt, StoreCorrupt, UnknownRequest, WorkspaceDamaged) as error:
        show(options, console, f"NOT VERIFIED: {error}", {"verified": False, "why": str(error)})
        return 1
    show(options, console, f"Verified: {'; '.join(shown)}.", {"verified": True, "shown": shown})
    return 0


def _verify_workspace(options: argparse.Namespace, console: Console) -> None:
    """Check a workspace, and a certificate against it; one that lost a key or its ledger is not what it says."""
    from eupg.errors import KeyFileError, LedgerMissing, WorkspaceDamaged

    try:
        with opened(options, console) as manager:
            manager.verify(options.file)
    except (KeyFileError, LedgerMissing) as error:
        raise WorkspaceDamaged(str(error)) from error


def _export(options: argparse.Namespace, console: Console) -> int:
    from eupg.manage.export import export

    with opened(options, console) as manager:
        written = export(manager.space, options.out)
    lines = [str(path) for path in written]
    show(options, console, "\n".join(lines), lines)
    return 0
