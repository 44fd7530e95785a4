"""The web application of `elmo serve`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from elmokit import __version__
from elmokit.serve import routes_explore, routes_status, routes_vectors
from elmokit.serve.api_errors import add_error_handlers
from elmokit.serve.assets import read_assets
from elmokit.serve.limits import BodyLimit, SlowReaders
from elmokit.serve.metrics import CountRequests
from elmokit.serve.security import Guard
from elmokit.serve.service import Service

ABOUT = "Deep contextualized word vectors (ELMo): one word, many meanings, a vector for each."


def make_app(service: Service) -> ASGIApp:
    """All routes, wrapped in the middleware for metrics, CORS, API key and limits."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.pool.start()
        yield
        await service.pool.close()

    app = FastAPI(
        title="elmo serve", version=__version__, description=ABOUT, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.state.service = service
    add_error_handlers(app)
    app.include_router(routes_vectors.router)
    app.include_router(routes_explore.router)
    app.include_router(routes_status.router)
    routes_status.add_documentation(app)
    routes_status.add_page(app, read_assets())
    settings = service.settings
    inner: ASGIApp = BodyLimit(app, settings, service.admission)
    inner = Guard(SlowReaders(inner, settings), settings.api_key)
    if settings.origins:  # outside the guard: CORS preflight requests have no key
        headers = ["Authorization", "Content-Type", "Accept"]
        inner = CORSMiddleware(
            inner, allow_origins=settings.origins, allow_methods=["GET", "POST"], allow_headers=headers
        )
    return CountRequests(inner, service.metrics)
