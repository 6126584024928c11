"""A page where anyone can check a certificate. The file is looked at in memory and not kept."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Form, UploadFile
from fastapi.responses import Response

from eupg.certify.bundle import Bundle, is_bundle
from eupg.certify.canonical import read_json
from eupg.certify.certificate import Certificate
from eupg.certify.credential import BundleCredential, Credential
from eupg.certify.keys import PublicKey
from eupg.certify.statement import done
from eupg.certify.verification import Signed, verify, verify_integrity
from eupg.errors import CertificateInvalid, EupgError
from eupg.service.pages.certificates import bundle_values, download
from eupg.service.pages.frame import Guest, PageRoute, Visit, check_form
from eupg.service.signin.current import CSRF_FIELD

router = APIRouter(route_class=PageRoute)


@router.get("/verify")
def form(visit: Guest) -> Response:
    """Show where to drop a certificate."""
    return _show(visit)


@router.get("/signing.pub")
def public_key(visit: Guest) -> Response:
    """Hand out the public key of this service."""
    return download(visit.service.certificates.public_key().to_pem(), "signing.pub", "application/x-pem-file")


@router.post("/verify")
def check(
    visit: Guest,
    certificate: UploadFile | None = None,
    key: UploadFile | None = None,
    csrf: Annotated[str, Form(alias=CSRF_FIELD)] = "",
) -> Response:
    """Check a certificate with the key of this service, or with one that the visitor brings."""
    check_form(visit, csrf)
    content = b"" if certificate is None else certificate.file.read()
    if not content.strip():
        return _show(visit, errors={"certificate": "Choose the file of a certificate."}, status=422)
    own = visit.service.certificates.public_key()
    brought = b"" if key is None else key.file.read()
    try:
        known = PublicKey.from_pem(brought) if brought.strip() else own
    except EupgError:
        return _show(
            visit, errors={"key": "This is not a public key: expected a file such as signing.pub."}, status=422
        )
    return _show(visit, result=_result(content, known, own=known == own))


def _result(content: bytes, known: PublicKey, *, own: bool) -> dict[str, Any]:
    """Return what is true of a file: signed with the expected key, whole but signed with another, or neither."""
    try:
        read = _read(content)
        verify_integrity(read)
    except CertificateInvalid as error:
        return {"verdict": "bad", "why": str(error)}
    values: dict[str, Any] = {"key": read.key.id, "known": known.id, "own": own, "read": _facts(read)}
    try:
        verify(read, key=known)
    except CertificateInvalid:
        return values | {"verdict": "other"}
    return values | {"verdict": "good"}


def _read(content: bytes) -> Signed:
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CertificateInvalid("this is not a certificate: expected a JSON file as it was issued") from error
    if is_bundle(values):
        return Bundle.from_bytes(content)
    if BundleCredential.describes(values):
        return BundleCredential(read_json(content))
    if Credential.describes(values):
        return Credential(read_json(content))
    return Certificate.from_bytes(content)


def _facts(read: Signed) -> dict[str, Any]:
    bundle = read.bundle if isinstance(read, BundleCredential) else read if isinstance(read, Bundle) else None
    if bundle is not None:
        body = bundle.body
        return {"sentence": body.sentence(), "request": body.request.id, "issued": body.issued} | {
            "issuer": body.issuer.name if body.issuer is not None else "",
            "workspaces": bundle_values(bundle)["workspaces"],
        }
    certificate = read.certificate if isinstance(read, Credential) else read
    assert isinstance(certificate, Certificate)
    named = certificate.body.issuer
    return {
        "sentence": done(certificate.body),
        "request": certificate.body.request.id,
        "issued": certificate.body.issued,
        "issuer": named.name if named is not None else "",
        "workspaces": [],
    }


def _show(
    visit: Visit, *, result: dict[str, Any] | None = None, errors: dict[str, str] | None = None, status: int = 200
) -> Response:
    try:
        key = visit.service.certificates.public_key().id
    except EupgError:
        key = ""
    return visit.show(
        "verify.html", title="Verify a certificate", code=status, result=result, own_key=key, errors=errors or {}
    )
