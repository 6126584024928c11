"""``/v1/requests/{request}/certificate`` and ``/v1/certificates/verify``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response

from eupg.service.api.representations import Representation
from eupg.service.api.requests import RequestId
from eupg.service.certificates import CREDENTIAL
from eupg.service.problems import described
from eupg.service.signin.current import CurrentActor, CurrentService, Stranger

router = APIRouter(tags=["certificates"])
_FOUND = described(404, 409)
# A printed certificate has a style of its own, and does nothing else.
PAGE_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
_JSON: dict[str, Any] = {"schema": {"type": "object"}}


class VerificationModel(Representation):
    """Whether a certificate was issued by this service, and unchanged."""

    verified: bool
    why: str | None = None


def _content(kind: str, schema: dict[str, Any], description: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"content": {kind: schema}, "description": description}, **_FOUND}


@router.get(
    "/requests/{request}/certificate",
    response_class=Response,
    responses=_content("application/json", _JSON, "The signed bundle, byte for byte."),
    summary="Read the certificate",
)
def certificate(request: RequestId, actor: CurrentActor, service: CurrentService) -> Response:
    """Return the signed bundle over the certificates of all models; check it with ``eupg verify``."""
    content = service.certificates.content(actor, request)
    return _file(content, "application/json", f"{request}.json")


@router.get(
    "/requests/{request}/certificate/page",
    response_class=Response,
    responses=_content("text/html", {"schema": {"type": "string"}}, "A page for printing."),
    summary="Read the certificate as a page",
)
def page(request: RequestId, actor: CurrentActor, service: CurrentService) -> Response:
    """Return the certificate as a page for printing; the signed file is the evidence."""
    return Response(service.certificates.page(actor, request), media_type="text/html", headers=PAGE_POLICY)


@router.get(
    "/requests/{request}/certificate/credential",
    response_class=Response,
    responses=_content("application/vc", _JSON, "A Verifiable Credential 2.0."),
    summary="Read the certificate as a Verifiable Credential",
)
def credential(request: RequestId, actor: CurrentActor, service: CurrentService) -> Response:
    """Return the certificate as a W3C Verifiable Credential."""
    content = service.certificates.content(actor, request, CREDENTIAL)
    return _file(content, "application/vc", f"{request}-credential.json")


@router.get(
    "/key",
    response_class=Response,
    responses={200: {"content": {"application/x-pem-file": {"schema": {"type": "string"}}}, "description": "PEM"}},
    summary="Read the public key",
)
def public_key(_: Stranger, service: CurrentService) -> Response:
    """Return the public key that bundles are checked with, to anyone; compare it with one from another source."""
    return _file(service.certificates.public_key().to_pem(), "application/x-pem-file", "signing.pub")


@router.post("/certificates/verify", summary="Verify a certificate")
def verify_certificate(
    _: Stranger,
    service: CurrentService,
    content: Annotated[dict[str, Any], Body(description="A bundle, or its credential.", examples=[{"body": {}}])],
) -> VerificationModel:
    """Check a bundle or its credential against the key of this service; anyone may."""
    why = service.certificates.verify_json(content)
    return VerificationModel(verified=why is None, why=why)


def _file(content: bytes, kind: str, name: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
