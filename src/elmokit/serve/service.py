"""Shared state of the routes: the engines, the limits and the metrics."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request

from elmokit.serve.api_errors import engine_failed
from elmokit.serve.batching import EMBED, BatchDone
from elmokit.serve.engine_pool import EnginePool
from elmokit.serve.formats import Floats
from elmokit.serve.limits import SLOT, Admission
from elmokit.serve.metrics import Metrics
from elmokit.serve.schemas import LayerChoice, Mix
from elmokit.serve.settings import ServeSettings
from elmokit.serve.texts import TextReader


class Service:
    """The parts of a server."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.admission, self.metrics = Admission(settings), Metrics()
        self.reader = TextReader(settings, self._model_tokenizer)
        self.pool = EnginePool(settings, self._count, self.metrics.restarts.inc)
        self.metrics.queue_requests.set_function(lambda: self.admission.requests)
        self.metrics.queue_tokens.set_function(lambda: self.admission.tokens)
        self.metrics.body_bytes.set_function(lambda: self.admission.body_bytes)
        self.metrics.workers.set_function(lambda: self.pool.n_ready)

    def _count(self, batch: BatchDone) -> None:
        self.metrics.count_batch(batch)
        self.admission.measured(batch.tokens, batch.seconds)

    async def _model_tokenizer(self) -> str:
        info = await self.pool.wait_until_ready(self.settings.timeout)
        return str(info["model"]["tokenizer"])

    async def ask(self, request: Request, call: str, argument: dict[str, Any], tokens: int = 1) -> Any:
        """The engine's answer to a request; the request keeps its place in the queue until its response is sent."""
        request.scope[SLOT] = self.admission.enter(max(1, tokens))
        return await self.pool.ask(call, argument, max(1, tokens), request.receive)

    async def embed(
        self,
        request: Request,
        sentences: list[list[str]],
        *,
        layers: LayerChoice,
        mix: Mix | None = None,
        pooling: str | None = None,
        punctuation: bool = True,
        normalize: bool = False,
        select: list[list[int] | None] | None = None,
    ) -> Floats:
        """(sentences, D) if pooled, else (layers, tokens, D)."""
        argument = {
            "sentences": sentences,
            "layers": layers,
            "mix": None if mix is None else (mix.weights, mix.gamma),
            "pooling": pooling,
            "punctuation": punctuation,
            "normalize": normalize,
            "select": select,
        }
        vectors: Floats = await self.ask(request, EMBED, argument, sum(map(len, sentences)))
        if not abs(float(vectors.sum())) < float("inf"):  # JSON has no NaN, and nobody can use one
            raise engine_failed("the vectors have values that are not finite; use smaller weights")
        return vectors


async def _service(request: Request) -> Service:  # async, because FastAPI runs sync dependencies in threads
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]
