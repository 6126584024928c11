"""The pages for people: forms that work without scripts, over the same use cases as the API."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import Scope

from eupg.service.pages import administration, asking, certificates, models, requests, start, trail, verifying
from eupg.service.pages.frame import error_page
from eupg.service.problems import Problem

router = APIRouter(include_in_schema=False)
for part in (start, requests, certificates, models, trail, administration, verifying, asking):
    router.include_router(part.router)


class _Kept(StaticFiles):
    """Files that browsers may keep: their names change with every version of the package."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "public, max-age=3600"
        return response


def mount_static(app: FastAPI) -> None:
    """Serve style sheet and scripts, and answer people who come to an address that does not exist with a page."""
    app.mount("/static", _Kept(directory=str(files("eupg.service.pages") / "static")), name="static")
    app.add_exception_handler(404, _not_found)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.url.path.startswith("/v1/") or "text/html" not in request.headers.get("accept", ""):
        return Problem(404, "not-found", "Not Found", str(error.detail)).response()
    missing = HTTPException(404, "Check the address, or begin at the start page.")
    return await run_in_threadpool(error_page, request, missing)
