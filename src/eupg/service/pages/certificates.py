"""The pages about certificates: which there are, what one says, and its files."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response

from eupg.certify.bundle import Bundle
from eupg.manage.requests.states import State
from eupg.service.access import Permission
from eupg.service.certificates import CREDENTIAL
from eupg.service.pages.frame import Member, PageRoute
from eupg.service.pages.requests import RequestId
from eupg.service.requests import RequestSearch

router = APIRouter(route_class=PageRoute)
_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


@router.get("/certificates")
def listed(visit: Member, cursor: Annotated[str, Query(max_length=200)] = "") -> Response:
    """List the requests that were certified, the newest first."""
    visit.actor.require(Permission.CERTIFICATES)
    found = visit.service.requests.search(visit.actor, RequestSearch(states=(State.CERTIFIED,), cursor=cursor or None))
    return visit.show(
        "certificates.html",
        title="Certificates",
        cases=found.cases,
        following=found.next_cursor and f"/certificates?cursor={found.next_cursor}",
        first="/certificates" if cursor else None,
    )


@router.get("/requests/{request}/certificate")
def one(visit: Member, request: RequestId) -> Response:
    """Show what a certificate says, model by model."""
    bundle = Bundle.from_bytes(visit.service.certificates.content(visit.actor, request))
    return visit.show("certificate.html", title="Certificate of erasure", request=request, **bundle_values(bundle))


def bundle_values(bundle: Bundle) -> dict[str, Any]:
    """Return what a page shows of a bundle."""
    certificates = bundle.certificates()
    return {
        "bundle": bundle,
        "workspaces": [
            {
                "name": part.name,
                "outcome": str(part.outcome),
                "sentence": part.sentence(),
                "claim": certificates[part.name].body.claimed.sentence if part.name in certificates else "",
            }
            for part in bundle.body.workspaces
        ],
    }


@router.get("/requests/{request}/certificate.json")
def signed_file(visit: Member, request: RequestId) -> Response:
    """Hand out the signed file, byte for byte."""
    return download(visit.service.certificates.content(visit.actor, request), f"{request}.json")


@router.get("/requests/{request}/credential.json")
def credential(visit: Member, request: RequestId) -> Response:
    """Hand out the Verifiable Credential."""
    content = visit.service.certificates.content(visit.actor, request, CREDENTIAL)
    return download(content, f"{request}-credential.json", "application/vc")


@router.get("/requests/{request}/certificate.html")
def printable(visit: Member, request: RequestId) -> Response:
    """Show the certificate as a page for printing."""
    return printed(visit.service.certificates.page(visit.actor, request))


def download(content: bytes, name: str, kind: str = "application/json") -> Response:
    """Return a file to keep."""
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def printed(page: str) -> HTMLResponse:
    """Return a page that carries its own style, under a policy that allows exactly this style and nothing else."""
    hashes = [base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() for style in _STYLE.findall(page)]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    policy = f"default-src 'none'; style-src {allowed}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})
