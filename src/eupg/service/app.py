"""The web application: API, pages, adapters and probes over one service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool

from eupg import __version__
from eupg.service import api, pages, probes, problems
from eupg.service.adapters import drp, opendsr
from eupg.service.adapters.domain import Domain
from eupg.service.bodies import BodyLimit, SecurityHeaders
from eupg.service.logs import AccessLog
from eupg.service.rates import Rates
from eupg.service.service import Service
from eupg.service.settings import ServiceSettings
from eupg.service.signin import routes as signin_routes
from eupg.service.signin.oidc import OidcSignIn
from eupg.service.signin.proxy import TrustedProxy

_DESCRIPTION = (
    "Erasure requests for all machine-learning models of an organisation. A request is filed once, decided by people, "
    "and carried out in every workspace that holds the person; a signed certificate says what was done in each. "
    "Errors are problems as defined by RFC 9457."
)
# Per process. More threads take turns at the interpreter: with 40, a read took 21 to 41 % more processor time than now.
_THREADS = 8


def create_app(settings: ServiceSettings) -> FastAPI:
    """Return the application of a service; its database and workspaces are opened when it starts."""

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = _THREADS
        service = app.state.service = await run_in_threadpool(Service.open, settings)
        if settings.oidc is not None:
            app.state.oidc = OidcSignIn(settings.oidc, service.seal, settings.public_url)
        yield
        await run_in_threadpool(app.state.service.close)

    app = FastAPI(
        title="EUPG",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=running,
        openapi_url="/v1/openapi.json",
        # These pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        # Such a redirect would repeat the host that the caller named.
        redirect_slashes=False,
    )
    app.state.oidc = None
    app.state.opendsr = None if settings.opendsr is None else Domain(settings.opendsr)
    app.state.rates = Rates(settings.limits)
    app.state.proxy = None if settings.proxy is None else TrustedProxy(settings.proxy)
    problems.install(app)
    for router in (probes.router, api.router, drp.router, opendsr.router, signin_routes.router, pages.router):
        app.include_router(router)
    pages.mount_static(app)
    app.add_middleware(BodyLimit, largest=settings.limits.body_bytes, deepest=settings.limits.nesting)
    app.add_middleware(SecurityHeaders, https=settings.secure_cookies)
    app.add_middleware(AccessLog)
    return app
