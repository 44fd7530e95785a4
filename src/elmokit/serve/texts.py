"""Texts of a request to token lists, within the limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from elmokit.serve.api_errors import refused, too_large
from elmokit.serve.settings import ServeSettings
from elmokit.text.tokenizer import Tokenizer, get_tokenizer, tokenize

LONG = 20_000  # characters from which on text is tokenized in a thread, so that others need not wait


@dataclass(frozen=True)
class Sentences:
    """Tokenized texts of a request, with offsets where they are known."""

    tokens: list[list[str]]
    offsets: list[list[tuple[int, int]] | None]

    @property
    def count(self) -> int:
        """Total number of tokens."""
        return sum(map(len, self.tokens))


class TextReader:
    """Tokenizes texts and enforces the limits of a request."""

    def __init__(self, settings: ServeSettings, model_tokenizer: Callable[[], Awaitable[str]]) -> None:
        """model_tokenizer: name of the model's own tokenizer, once the model is loaded."""
        self._settings, self._model_tokenizer = settings, model_tokenizer
        self._default = None if settings.tokenizer is None else get_tokenizer(settings.tokenizer)

    async def read(self, texts: str | Sequence[str | list[str]], tokenizer: str | None = None) -> Sentences:
        """Tokens of one text or several; 413 or 422 if they are too many, or none."""
        items = [texts] if isinstance(texts, str) else texts
        if not items:
            raise refused("texts: expected at least one text, found none")
        if len(items) > self._settings.max_sentences:
            raise too_large(
                f"texts: expected at most {self._settings.max_sentences:,} per request, found {len(items):,}; "
                "send several requests"
            )
        if tokenizer is None and self._default is None:
            self._default = get_tokenizer(await self._model_tokenizer())
        chosen = self._default if tokenizer is None else get_tokenizer(tokenizer)
        assert chosen is not None
        if sum(len(item) for item in items if isinstance(item, str)) > LONG:
            found = await asyncio.to_thread(_tokenize, items, chosen)
        else:
            found = _tokenize(items, chosen)
        if found.count > self._settings.max_tokens:
            raise too_large(
                f"texts: expected at most {self._settings.max_tokens:,} tokens per request, found {found.count:,}; "
                "send several requests"
            )
        return found


def _tokenize(items: Sequence[str | list[str]], tokenizer: Tokenizer) -> Sentences:
    pairs = [tokenize(item, tokenizer) if isinstance(item, str) else (item, None) for item in items]
    return Sentences([tokens for tokens, _ in pairs], [offsets for _, offsets in pairs])
