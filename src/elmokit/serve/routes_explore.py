"""Routes of the explorer page: next words, neighbors, comparisons, explanations, tasks."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from elmokit.serve.api_errors import ApiError, refused
from elmokit.serve.formats import json_response
from elmokit.serve.json_route import StrictJsonRoute
from elmokit.serve.routes_vectors import ERRORS, check_selection
from elmokit.serve.schemas import (
    CompareRequest,
    ExplainRequest,
    NeighborList,
    NeighborsRequest,
    OccurrencesRequest,
    Prediction,
    PredictRequest,
    ProjectRequest,
    TaskRequest,
)
from elmokit.serve.service import TheService

router = APIRouter(tags=["explore"], route_class=StrictJsonRoute)


@router.post("/predict_next", response_model=list[Prediction], responses=ERRORS)
async def predict_next(body: PredictRequest, request: Request, service: TheService) -> Response:
    """The likeliest words after a text, before it, or in its gap."""
    found = await service.reader.read([body.text])
    argument = {"text": body.text, "direction": body.direction, "gap": body.gap or "___", "top": body.top}
    return json_response(await service.ask(request, "predict_next", argument, found.count))


@router.post("/neighbors", response_model=NeighborList, responses=ERRORS)
async def neighbors(body: NeighborsRequest, request: Request, service: TheService) -> Response:
    """The words nearest to a word; with `text`, the occurrences of the index nearest to the word in that text."""
    tokens = (await service.reader.read([body.text])).count if body.text is not None else 1
    return json_response(await service.ask(request, "neighbors", body.model_dump(), tokens))


@router.post("/compare", responses=ERRORS)
async def compare(body: CompareRequest, request: Request, service: TheService) -> Response:
    """Cosines of a word in two sentences, and of all pairs of their words, per layer."""
    found = await service.reader.read(list(body.texts))
    first, second = body.texts
    argument = {"first": first, "second": second, "words": body.words}
    return json_response(await service.ask(request, "compare", argument, found.count))


@router.post("/explain", responses=ERRORS)
async def explain(body: ExplainRequest, request: Request, service: TheService) -> Response:
    """The character n-gram that every filter of the token encoder found in a word."""
    return json_response(await service.ask(request, "explain", {"word": body.word}))


@router.post("/occurrences", responses=ERRORS)
async def occurrences(body: OccurrencesRequest, request: Request, service: TheService) -> Response:
    """Sentences of the server's index that have a word."""
    return json_response(await service.ask(request, "occurrences", body.model_dump()))


@router.post("/project", responses=ERRORS)
async def project(body: ProjectRequest, request: Request, service: TheService) -> Response:
    """A map of one token per text: [x, y] of each, by UMAP or PCA."""
    found = await service.reader.read(body.texts, body.tokenizer)
    chosen = check_selection(list(body.select), found.tokens)
    info = await service.pool.wait_until_ready(service.settings.timeout)
    argument: dict[str, Any] = {
        "sentences": found.tokens,
        "select": [places[0] for places in chosen],
        "weights": body.weights,
        "gamma": body.gamma,
        "method": body.method or ("umap" if info["umap"] else "pca"),
    }
    return json_response(await service.ask(request, "project", argument, found.count))


@router.post("/task/{name}", response_model=list[dict[str, Any]], responses={**ERRORS, 404: ERRORS[422]})
async def task(name: str, body: TaskRequest, request: Request, service: TheService) -> Response:
    """Predictions of a task run for one or more lines of text: one object per example."""
    if name not in service.settings.tasks:
        loaded = ", ".join(service.settings.tasks) or "none; start the server with --task RUN"
        raise ApiError(404, "NotFound", f"expected a task run that is loaded, found another; loaded: {loaded}")
    texts = body.texts if body.texts is not None else [] if body.text is None else [body.text]
    if (body.text is None) == (body.texts is None):
        raise refused("expected either text or texts")
    found = await service.reader.read(list(texts))
    return json_response(await service.ask(request, "task", {"name": name, "texts": texts}, found.count))
