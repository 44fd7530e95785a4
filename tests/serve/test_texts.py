"""Texts of a request: which tokenizer reads them, and the limits."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
from elmokit.errors import InputError
from elmokit.serve.api_errors import ApiError
from elmokit.serve.settings import ServeSettings
from elmokit.serve.texts import LONG, Sentences, TextReader

TEXT = "我喜欢play ."


def reader(settings: ServeSettings, asked: list[str] | None = None) -> TextReader:
    async def model_tokenizer() -> str:
        if asked is not None:
            asked.append("model")
        return "han"

    return TextReader(settings, model_tokenizer)


def read(found: TextReader, *arguments: object) -> Sentences:
    """In a thread of its own: in this one, playwright may have a loop that runs."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, found.read(*arguments)).result()  # type: ignore[arg-type]


def test_the_request_the_server_and_the_model_choose_in_this_order() -> None:
    by_model, asked = ["我", "喜", "欢", "play", "."], []
    found = reader(ServeSettings(), asked)
    assert read(found, TEXT, "spaces").tokens == [TEXT.split()] and not asked
    assert read(found, TEXT).tokens == read(found, [TEXT]).tokens == [by_model]
    assert asked == ["model"]  # once
    asked.clear()
    assert read(reader(ServeSettings(tokenizer="spaces"), asked), TEXT).tokens == [TEXT.split()] and not asked


def test_tokens_stay_as_they_are() -> None:
    found = read(reader(ServeSettings()), [["我喜欢", "play"], "a b"])
    assert found.tokens == [["我喜欢", "play"], ["a", "b"]] and found.offsets == [None, [(0, 1), (2, 3)]]
    assert found.count == 4


def test_long_texts_are_read_in_a_thread() -> None:
    assert read(reader(ServeSettings(max_tokens=LONG, queue_tokens=LONG)), "a " * LONG).count == LONG


@pytest.mark.parametrize(
    ("texts", "status", "message"),
    [
        ([], 422, "at least one text, found none"),
        (["a"] * 4, 413, "at most 3 per request, found 4"),
        (["a b c"] * 2, 413, "at most 5 tokens per request, found 6"),
    ],
)
def test_limits(texts: list[str], status: int, message: str) -> None:
    with pytest.raises(ApiError, match=message) as caught:
        read(reader(ServeSettings(max_sentences=3, max_tokens=5)), texts)
    assert caught.value.status == status


def test_a_wrong_tokenizer_is_told_before_the_model_is_loaded() -> None:
    with pytest.raises(InputError, match="tokenizer: expected words"):
        reader(ServeSettings(tokenizer="letters"))
