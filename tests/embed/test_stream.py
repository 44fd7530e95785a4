"""Streams of sentences, and the progress line."""

from __future__ import annotations

from collections.abc import Iterator

import models
import numpy as np
import pytest

import elmokit
from elmokit import Elmo

TEXTS = ["I will buy you a present.", "", "Live in the present!"]


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    folder = models.write_variant(tmp_path_factory.mktemp("model"), "usual")[0]
    return elmokit.load(folder, state="reset")


def test_a_stream_says_what_to_do_instead_of_indexing_it(elmo: Elmo) -> None:
    stream = elmo.embed(TEXTS)
    for wrong in (lambda: stream[0], lambda: len(stream), lambda: np.array(stream)):
        with pytest.raises(TypeError, match="computes sentences while you iterate"):
            wrong()
    with pytest.raises(AttributeError, match="vectors belongs to one sentence"):
        _ = stream.vectors
    assert "list(elmo.embed(...))" in repr(stream) and stream
    assert [s.tokens for s in stream] == elmo.tokens(TEXTS)  # none of this has used it up
    assert list(stream) == []


def test_a_stream_is_lazy(elmo: Elmo) -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "a sentence ."

    assert next(elmo.embed(endless(), batch_tokens=10)).tokens == ["a", "sentence", "."]


def test_progress_is_a_line_that_disappears(
    elmo: Elmo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from elmokit.embed import stream

    list(elmo.embed(TEXTS))
    assert capsys.readouterr().err == ""  # no terminal
    monkeypatch.setattr(stream, "PIPE_SECONDS", 0.0)
    list(elmo.embed(TEXTS, progress=True, batch_size=1))
    assert " 33%  1 of 3 sentences" in capsys.readouterr().err
    monkeypatch.setattr(stream, "_has_screen", lambda: True)
    elmo.encode(TEXTS)
    assert capsys.readouterr().err == ""  # too short
    monkeypatch.setattr(stream, "FIRST_SECONDS", -1.0)
    monkeypatch.setattr(stream, "SCREEN_SECONDS", 0.0)
    elmo.encode(TEXTS)
    shown = capsys.readouterr().err
    assert shown.startswith("\r") and "3 of 3" in shown and shown.endswith(" \r") and "\n" not in shown
    elmo.encode(TEXTS, progress=False)
    assert capsys.readouterr().err == ""


def test_progress_is_shown_while_the_first_window_is_computed(
    elmo: Elmo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from elmokit.embed import stream

    monkeypatch.setattr(stream, "PIPE_SECONDS", 0.0)
    next(elmo.embed(TEXTS, progress=True, batch_size=1))
    assert "3 of 3 sentences" in capsys.readouterr().err  # all were computed before the first was handed over
