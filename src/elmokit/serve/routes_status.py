"""Routes for health, readiness, model facts, metrics and API documentation; and the explorer page."""

from __future__ import annotations

import html
import re
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from elmokit import __version__
from elmokit.serve.api_errors import ApiError, unavailable
from elmokit.serve.assets import Asset
from elmokit.serve.formats import json_response
from elmokit.serve.metrics import PAGE_ROUTE
from elmokit.serve.routes_vectors import ERRORS
from elmokit.serve.security import PAGE_POLICY
from elmokit.serve.service import TheService

router = APIRouter(tags=["status"])

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]


@router.get("/health")
async def health() -> dict[str, str]:
    """Liveness; needs no key."""
    return {"status": "ok"}


@router.get("/ready", responses={503: ERRORS[503]})
async def ready(service: TheService) -> dict[str, str]:
    """Readiness: whether the model is loaded and warmed up; needs no key."""
    if not service.pool.n_ready:
        raise unavailable("the model is being loaded; try again")
    return {"status": "ready"}


@router.get("/info", responses={503: ERRORS[503]})
async def info(service: TheService) -> Response:
    """The model, the task runs, and the limits of a request."""
    settings = service.settings
    known = await service.pool.wait_until_ready(settings.timeout)
    limits = {name: getattr(settings, name) for name in ("max_sentences", "max_tokens", "max_bytes", "timeout")}
    return json_response({"backend": "server", "version": __version__, **known, "limits": limits})


@router.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
async def metrics(service: TheService) -> Response:
    """Metrics for Prometheus."""
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def add_documentation(app: FastAPI) -> None:
    """`/docs`: the OpenAPI description as a plain page. FastAPI's own loads scripts from other hosts."""

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(_documentation(app.openapi()), headers={"Content-Security-Policy": PAGE_POLICY})


def _documentation(description: dict[str, Any]) -> str:
    rows = [
        f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{html.escape(operation['description'])}</p>"
        f"{_fields(operation, description['components']['schemas'])}"
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    ]
    return (
        '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
        '<title>API of elmo serve</title><link rel=stylesheet href="style.css"><main>'
        f"<h1>API of elmo serve {html.escape(__version__)}</h1>"
        '<p>Machine-readable description: <a href="openapi.json">openapi.json</a>. '
        '<a href=".">Explorer page</a>.</p>' + "".join(rows) + "</main>"
    )


def _fields(operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    body = operation.get("requestBody")
    if body is None:
        return ""
    schema = schemas[body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
    required = schema.get("required", [])
    items = [
        f"<li><code>{html.escape(name)}</code>{' (required)' if name in required else ''} "
        f"{html.escape(field.get('description', ''))}"
        for name, field in schema["properties"].items()
    ]
    return f"<ul>{''.join(items)}</ul>"


def add_page(app: FastAPI, assets: dict[str, Asset]) -> None:
    """The explorer page at `/`. The last route: it takes every address and method that no other route has."""
    known = [
        (re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), sorted(method.upper() for method in operations))
        for path, operations in app.openapi()["paths"].items()
    ]

    @app.api_route(PAGE_ROUTE, methods=_METHODS, include_in_schema=False)
    async def page(path: str, request: Request) -> Response:
        asset = assets.get("/" + path)
        allowed = next((methods for pattern, methods in known if pattern.fullmatch("/" + path)), None)
        if asset is not None:
            allowed = ["GET", "HEAD"]
        if allowed is None:
            raise ApiError(404, "NotFound", "no such address; the API is described at /docs")
        if asset is None or request.method not in allowed:
            methods = ", ".join(allowed)
            raise ApiError(405, "Validation", f"expected {methods}, found {request.method}", {"Allow": methods})
        return asset.response(request)
