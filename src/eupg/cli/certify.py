"""``eupg certify``: issue the certificate of a completed request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from eupg.cli.command import command
from eupg.cli.options import Json, Workspace, option
from eupg.cli.output_files import check_outputs, writing
from eupg.cli.terminal import Terminal
from eupg.cli.workspace import opened
from eupg.errors import CertificateRefused, ParameterError, WrongState


@command("eupg certify --workspace ws --out certificate.json --page certificate.html")
def certify(
    workspace: Workspace,
    out: Annotated[Path, option("--out FILE", "The certificate to write.")],
    page: Annotated[Path | None, option("--page FILE", "Also write it as a page to read and print (HTML).")] = None,
    request: Annotated[str | None, option("--request ID", "The request; by default the last one completed.")] = None,
    issuer: Annotated[
        str | None, option("--issuer NAME", "Who issues it; remembered, with the contact, for later certificates.")
    ] = None,
    contact: Annotated[str | None, option("--contact TEXT", "Where to ask the issuer questions.")] = None,
    reference: Annotated[str | None, option("--reference TEXT", "The issuer's own name for this case.")] = None,
    credential: Annotated[
        Path | None, option("--credential FILE", "Also write it as a W3C Verifiable Credential (JSON).")
    ] = None,
    as_json: Json = False,
) -> int:
    """Issue the certificate of a completed request."""
    from eupg.certify import render
    from eupg.certify.issuer import Issuer

    terminal = Terminal(as_json=as_json)
    if contact is not None and issuer is None:
        raise ParameterError("--contact belongs to an issuer: pass --issuer, too")
    named = None if issuer is None else Issuer(name=issuer, contact=contact)
    # Before anything is signed: the ledger would list a certificate that nobody has.
    check_outputs(out, page, credential)
    with opened(workspace, terminal) as manager:
        try:
            certificate = manager.certify(request, issuer=named, reference=reference)
            wrapped = manager.credential(certificate) if credential else None
        except (CertificateRefused, WrongState) as error:
            terminal.show(f"eupg: {error}", {"error": str(error)})
            return 1
    with writing("certificate"):
        certificate.save(out)
        if page is not None:
            page.write_text(render.page(certificate), encoding="utf-8")
        if credential is not None and wrapped is not None:
            wrapped.save(credential)
    words = f"{certificate}\n\nCertificate: {out}" + (f"\nPage: {page}" if page else "")
    words += (
        f"\nCredential: {credential}" if credential else ""
    ) + f"\nNext: eupg verify {out} --workspace {workspace}"
    terminal.show(words, certificate.to_json(), wrap=False)
    return 0
