"""Which vectors are looked at, and the blocks that they come in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_elmo import WordElmo

from elmokit.analysis.shared import layers
from elmokit.analysis.shared.layers import Meter, View, token_blocks, views
from elmokit.embed.embed_files import Progress
from elmokit.errors import ConfigError


def test_views() -> None:
    assert [view.name for view in views("all", 3)] == ["layer 0", "layer 1", "layer 2", "average"]
    assert views("1, top ,average,2", 3) == [View("layer 1", 1), View("layer 2", 2), View("average", None)]
    array = np.arange(12.0).reshape(3, 2, 2)
    assert View("layer 1", 1).of(array).tolist() == [[4, 5], [6, 7]]
    assert View("average", None).of(array).tolist() == [[4, 5], [6, 7]]
    (added,) = views("2-0", 3)
    assert added.name == "layer 2 - 0" and added.of(array).tolist() == [[8, 8], [8, 8]]


@pytest.mark.parametrize("choice", ["3", "", "last", "1,,2", "-1", "1.5", "3-2", "1-1", "1-2", "2-", "2-1-0"])
def test_layers_that_are_not_there(choice: str) -> None:
    with pytest.raises(ConfigError, match="layers: expected all, or some of 0 to 2, top, average"):
        views(choice, 3)


def test_speed_is_that_of_the_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 12.0, 100.0, 103.0])  # made, begun, counted; and after a long time begun and counted again
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    meter = Meter(None, 50)
    for _ in range(2):
        list(token_blocks(WordElmo(), [["a"] * 25], meter))  # type: ignore[arg-type]
    assert (meter.seconds, meter.tokens_per_second) == (5, 10)


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5)), st.integers(1, 9))
def test_blocks_are_all_tokens_in_order(sentences: list[list[str]], size: int) -> None:
    seen: list[Progress] = []
    meter = Meter(seen.append, 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "BLOCK_TOKENS", size)
        blocks = list(token_blocks(WordElmo(), sentences, meter))  # type: ignore[arg-type]
    expected = [sentence.layers for sentence in WordElmo().embed(sentences)]
    if sentences:
        np.testing.assert_array_equal(np.concatenate(blocks, axis=1), np.concatenate(expected, axis=1))
    assert (meter.sentences, meter.tokens) == (len(sentences), sum(map(len, sentences)))
    assert [progress.bytes_total for progress in seen] == [100] * len(blocks)
    assert all(block.shape[1] >= size for block in blocks[:-1])
