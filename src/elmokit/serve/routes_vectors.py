"""Routes for tokens and vectors."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from elmokit.serve import formats
from elmokit.serve.api_errors import refused
from elmokit.serve.formats import TokenVectors, chosen_format, json_response
from elmokit.serve.json_route import StrictJsonRoute
from elmokit.serve.schemas import (
    EmbedAllRequest,
    EmbeddedText,
    EmbedRequest,
    ErrorAnswer,
    OpenAIRequest,
    TextsRequest,
    TokenizedText,
)
from elmokit.serve.service import TheService

ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorAnswer, "description": "The API key is missing or wrong."},
    406: {"model": ErrorAnswer, "description": "No such output format."},
    413: {"model": ErrorAnswer, "description": "More sentences, tokens or bytes than a request may have."},
    422: {"model": ErrorAnswer, "description": "Invalid request."},
    424: {"model": ErrorAnswer, "description": "The engine failed."},
    429: {"model": ErrorAnswer, "description": "The queue is full; Retry-After says when to try again."},
    503: {"model": ErrorAnswer, "description": "Not ready, or not done before the deadline."},
}
BINARY = {
    kind: {"schema": {"type": "string", "format": "binary"}} for kind in (formats.NPZ, formats.MSGPACK, formats.ARROW)
}
FORMATS: dict[int | str, dict[str, Any]] = {**ERRORS, 200: {"content": BINARY}}

router = APIRouter(tags=["vectors"], route_class=StrictJsonRoute)


@router.post("/tokenize", response_model=list[TokenizedText], responses=ERRORS)
async def tokenize(body: TextsRequest, service: TheService) -> Response:
    """Split texts into tokens."""
    found = await service.reader.read(body.texts, body.tokenizer)
    return json_response([{"tokens": t, "offsets": o} for t, o in zip(found.tokens, found.offsets, strict=True)])


@router.post("/embed", response_model=list[list[float]], responses=FORMATS)
async def embed(body: EmbedRequest, request: Request, service: TheService) -> Response:
    """One vector per text."""
    media_type = chosen_format(request.headers.get("accept"))
    if body.layers == "all":
        raise refused("layers: expected top, average, a number or weights for a sentence vector, found all")
    found = await service.reader.read(body.texts, body.tokenizer)
    vectors = await service.embed(
        request,
        found.tokens,
        layers=body.layers,
        mix=body.mix,
        pooling=body.pooling,
        punctuation=body.punctuation,
        normalize=body.normalize,
    )
    return formats.sentence_vectors(vectors, media_type, body.encoding_format)


@router.post("/embed_all", response_model=list[EmbeddedText], responses=FORMATS)
async def embed_all(body: EmbedAllRequest, request: Request, service: TheService) -> Response:
    """Tokens, offsets, and a vector per layer and token."""
    media_type = chosen_format(request.headers.get("accept"))
    found = await service.reader.read(body.texts, body.tokenizer)
    chosen = check_selection(body.select, found.tokens)
    vectors = await service.embed(request, found.tokens, layers=body.layers, mix=body.mix, select=body.select)
    answer = TokenVectors(found.tokens, found.offsets, chosen, vectors)
    return formats.token_vectors(answer, media_type, body.encoding_format)


@router.post("/v1/embeddings", responses=ERRORS)
async def openai_embeddings(body: OpenAIRequest, request: Request, service: TheService) -> Response:
    """OpenAI's embeddings API: sentence vectors of length 1, the average of layers and tokens."""
    facts = (await service.pool.wait_until_ready(service.settings.timeout))["model"]
    if body.dimensions not in (None, facts["dim"]):
        raise refused(f"dimensions: expected {facts['dim']}, which the model has, found {body.dimensions}")
    found = await service.reader.read(body.input)
    vectors = await service.embed(request, found.tokens, layers="average", pooling="mean", normalize=True)
    base64 = body.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": k, "embedding": formats.base64_floats(vector) if base64 else vector}
        for k, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": found.count, "total_tokens": found.count}
    return json_response({"object": "list", "data": data, "model": facts["name"], "usage": usage})


@router.get("/v1/models", responses=ERRORS)
async def openai_models(service: TheService) -> Response:
    """The model that is served, in the form of OpenAI's API."""
    facts = (await service.pool.wait_until_ready(service.settings.timeout))["model"]
    model = {"id": facts["name"], "object": "model", "created": 0, "owned_by": "elmokit"}
    return json_response({"object": "list", "data": [model]})


def check_selection(select: list[list[int] | None] | None, sentences: list[list[str]]) -> list[list[int]]:
    """The wanted tokens of every sentence; 422 if there are no such tokens."""
    wanted = select if select is not None else [None] * len(sentences)
    if len(wanted) != len(sentences):
        raise refused(f"select: expected a list per text, {len(sentences)}, found {len(wanted)}")
    chosen: list[list[int]] = []
    for number, (places, tokens) in enumerate(zip(wanted, sentences, strict=True)):
        if places is not None and len(places) > len(tokens):
            raise refused(f"select: expected at most {len(tokens)} tokens of text {number}, found {len(places)}")
        for place in places or ():
            if not 0 <= place < len(tokens):
                raise refused(f"select: expected tokens 0 to {len(tokens) - 1} of text {number}, found {place}")
        chosen.append(list(range(len(tokens))) if places is None else places)
    return chosen
