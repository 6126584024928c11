"""Health, readiness and metrics: for the machinery that runs the service."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from eupg.service.access import Permission
from eupg.service.metrics import rendered
from eupg.service.problems import Problem, described
from eupg.service.signin.current import CurrentActor, CurrentService

router = APIRouter(tags=["operation"])


@router.get("/healthz", summary="Is the process alive?")
async def health() -> dict[str, str]:
    """Answer as long as the process can answer at all."""
    return {"status": "ok"}


@router.get("/readyz", responses=described(503), summary="Can it serve?")
async def ready(service: CurrentService) -> dict[str, Any]:
    """Answer whether the database can be read, and when a worker was last seen."""

    def look() -> float | None:
        with service.database.reading() as snapshot:
            snapshot.head()
        return service.worker_seen()

    try:
        seen = await run_in_threadpool(look)
    except Exception as error:
        raise Problem(503, "not-ready", "Not ready", "the database cannot be read") from error
    return {"status": "ok", "worker_seen_s_ago": None if seen is None else round(max(0.0, time.time() - seen), 1)}


@router.get("/metrics", responses=described(401, 403, 429, 503), summary="Metrics", response_class=Response)
def metrics(actor: CurrentActor, service: CurrentService) -> Response:
    """Return metrics in the format of Prometheus; a scraper sends an API key with the scope ``models:read``."""
    actor.require(Permission.MODELS)
    content, kind = rendered(service)
    return Response(content, media_type=kind)
