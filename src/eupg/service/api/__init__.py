"""The API under ``/v1``."""

from __future__ import annotations

from fastapi import APIRouter

from eupg.service.api import certificates, keys, models, requests, trail
from eupg.service.problems import described

# What every route may answer, whoever calls.
router = APIRouter(prefix="/v1", responses=described(401, 403, 413, 422, 429, 500, 503))
for part in (requests, certificates, models, trail, keys):
    router.include_router(part.router)
