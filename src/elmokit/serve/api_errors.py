"""Errors of the API: status, one line that says what to do, and the `error_type` of text-embeddings-inference."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

CLIENT_GONE = 499  # "client closed request" of nginx; seen in the metrics only


class ApiError(Exception):
    """An error response: status, kind, one line of text, headers."""

    def __init__(self, status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.headers = status, kind, message, headers or {}


def refused(message: str) -> ApiError:
    """422: an invalid request."""
    return ApiError(422, "Validation", message)


def too_large(message: str) -> ApiError:
    """413: a request over a limit."""
    return ApiError(413, "Validation", message)


def overloaded(seconds: int) -> ApiError:
    """429: the queue is full."""
    return ApiError(429, "Overloaded", f"too many requests; try again in {seconds} s", {"Retry-After": str(seconds)})


def unavailable(message: str) -> ApiError:
    """503: not ready, or past the deadline."""
    return ApiError(503, "Unhealthy", message, {"Retry-After": "1"})


def engine_failed(message: str) -> ApiError:
    """424: the engine failed."""
    return ApiError(424, "Inference", message)


def error_response(path: str, error: ApiError) -> Response:
    """The error as JSON; under /v1 in the form that clients of OpenAI read."""
    body: dict[str, Any] = {"error": error.message, "error_type": error.kind}
    if path.startswith("/v1/"):
        kind = "invalid_request_error" if error.status in (400, 413, 422) else error.kind.lower()
        body = {"error": {"message": error.message, "type": kind, "param": None, "code": None}}
    return JSONResponse(body, status_code=error.status, headers=error.headers)


def add_error_handlers(app: FastAPI) -> None:
    """Give every error the same form."""

    @app.exception_handler(ApiError)
    async def _api(request: Request, error: ApiError) -> Response:
        return error_response(request.url.path, error)

    @app.exception_handler(RequestValidationError)
    async def _validation(request: Request, error: RequestValidationError) -> Response:
        return error_response(request.url.path, refused(_one_line(error)))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        kind = "NotFound" if error.status_code == 404 else "Validation"
        headers = dict(error.headers) if error.headers else None
        return error_response(request.url.path, ApiError(error.status_code, kind, str(error.detail), headers))


def _one_line(error: RequestValidationError) -> str:
    """The first fault. The input itself is not repeated: it may be long, or not even representable as JSON."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    if first["type"] == "json_invalid":
        return f"expected JSON, found a fault at character {place}: {first.get('ctx', {}).get('error', '')}"
    return f"{place or 'body'}: {first['msg']}"
