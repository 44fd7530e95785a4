"""The cache of layers: right, shared, bounded, and never of another model."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
from toy_elmo import DIM, N_LAYERS, ToyElmo, token_layers
from typer.testing import CliRunner

from elmokit.cli import app
from elmokit.embed.elmo import Elmo
from elmokit.errors import ConfigError, FormatError, OutputError
from elmokit.tasks.runs import layer_cache
from elmokit.tasks.runs.layer_cache import LayerCache, LiveLayers

ROW = 2 * N_LAYERS * DIM  # bytes of a token
TEXT = [["the", "cat", "sat"], ["a"], [], ["the", "cat", "sat"], ["Grüße", "a b", "\n"]]


class CountingElmo(ToyElmo):
    """Remembers which sentences it was asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[list[str]] = []

    def embed(self, sentences: Iterable[Any], **options: Any) -> Iterator[Any]:
        for sentence in sentences:
            self.asked.append(list(sentence))
            yield from super().embed([sentence], **options)


def layers(cache: LayerCache, elmo: Any, text: Sequence[Sequence[str]], **options: Any) -> torch.Tensor:
    return cache.layers(elmo, text, **options).rows(text)


def expected(text: Sequence[Sequence[str]]) -> torch.Tensor:
    """(N, N_LAYERS, DIM) of all tokens, one after another."""
    return torch.from_numpy(
        np.concatenate([token_layers(tokens).astype(np.float16) for tokens in text], axis=1)
    ).movedim(1, 0)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.npy"))


def test_what_is_kept_is_what_was_computed(tmp_path: Path) -> None:
    elmo = CountingElmo()
    assert torch.equal(layers(LayerCache(tmp_path), elmo, TEXT), expected(TEXT))
    assert elmo.asked == [TEXT[0], TEXT[1], TEXT[4]]  # distinct sentences, and none without tokens
    again = layers(LayerCache(tmp_path), elmo, TEXT[::-1])
    assert torch.equal(again, expected(TEXT[::-1])) and len(elmo.asked) == 3


def test_live_layers_are_the_same(tmp_path: Path) -> None:
    elmo: Any = ToyElmo()
    assert torch.equal(LiveLayers(elmo).rows(TEXT), layers(LayerCache(tmp_path), elmo, TEXT))


def test_other_texts_share_their_sentences(tmp_path: Path) -> None:
    elmo = CountingElmo()
    cache = LayerCache(tmp_path)
    cache.layers(elmo, TEXT)  # type: ignore[arg-type]
    more = [*TEXT, ["a", "new", "one"]]
    assert torch.equal(layers(cache, elmo, more), expected(more))
    assert elmo.asked[3:] == [["a", "new", "one"]]
    assert size(tmp_path) == (3 + 1 + 3 + 3) * ROW + 2 * 128


@pytest.mark.parametrize("other", [{"fingerprint": "e" * 64}, {"state": "warm"}])
def test_another_model_or_state_is_never_used(tmp_path: Path, other: dict[str, str]) -> None:
    cache, elmo = LayerCache(tmp_path), CountingElmo(**other)
    cache.layers(ToyElmo(), TEXT)  # type: ignore[arg-type]
    cache.layers(elmo, TEXT)  # type: ignore[arg-type]
    assert len(elmo.asked) == 3
    assert [entry.sentences for entry in cache.entries()] == [3, 3]


def damage_data(path: Path) -> None:
    content = bytearray(path.with_suffix(".npy").read_bytes())
    content[-5] ^= 1
    path.with_suffix(".npy").write_bytes(content)


def move_first_sentence(path: Path) -> None:
    """The rows of a sentence are others, in an index that is valid otherwise."""
    content = path.read_text()
    assert content.count("[0, 3]") == 1
    path.write_text(content.replace("[0, 3]", "[1, 3]"))


DAMAGE = {
    "a bit": damage_data,
    "cut off": lambda path: path.with_suffix(".npy").write_bytes(path.with_suffix(".npy").read_bytes()[:-3]),
    "no data": lambda path: path.with_suffix(".npy").unlink(),
    "not an array": lambda path: path.with_suffix(".npy").write_bytes(b"text"),
    "a pickle": lambda path: np.save(path.with_suffix(".npy"), np.array([{}], dtype=object)),
    "index cut off": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "another index": lambda path: path.write_text("[1]"),
    "another version": lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 0})),
    "index gone": lambda path: path.unlink(),
    "another place": move_first_sentence,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_broken_files_are_rebuilt(tmp_path: Path, damage: str) -> None:
    cache, elmo = LayerCache(tmp_path), CountingElmo()
    cache.layers(ToyElmo(), TEXT)  # type: ignore[arg-type]
    [index] = tmp_path.rglob("*.json")
    DAMAGE[damage](index)
    assert torch.equal(layers(cache, elmo, TEXT), expected(TEXT))
    assert len(elmo.asked) == 3
    assert len(list(tmp_path.rglob("*.npy"))) == len(list(tmp_path.rglob("*.json"))) == 1


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    texts = [[[f"{name}{k}" for k in range(50)]] for name in "abcd"]
    cache = LayerCache(tmp_path, limit=3 * (50 * ROW + 400))  # three texts with their indices, and not a fourth
    now = time.time()
    for age, text in enumerate(texts[:3]):
        cache.layers(ToyElmo(), text)  # type: ignore[arg-type]
        newest = max(tmp_path.rglob("*.json"), key=lambda path: path.stat().st_mtime)
        os.utime(newest, (now - 100 + age, now - 100 + age))
    elmo = CountingElmo()
    cache.layers(elmo, texts[0])  # type: ignore[arg-type]
    assert elmo.asked == []
    cache.layers(elmo, texts[3])  # type: ignore[arg-type]
    assert size(tmp_path) <= cache.limit
    for text in (texts[0], texts[2], texts[3]):
        cache.layers(elmo, text)  # type: ignore[arg-type]
    assert elmo.asked == [texts[3][0]]
    cache.layers(elmo, texts[1])  # type: ignore[arg-type]
    assert elmo.asked == [texts[3][0], texts[1][0]]


def test_a_text_that_cannot_fit_is_told_at_once(tmp_path: Path) -> None:
    elmo = CountingElmo()
    with pytest.raises(ConfigError, match="cache_limit: expected room for the"):
        LayerCache(tmp_path, limit=ROW).layers(elmo, TEXT)  # type: ignore[arg-type]
    assert elmo.asked == []


def test_a_run_that_was_killed_loses_one_file_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_cache, "FILE_BYTES", 4 * ROW)
    text = [[f"word{k}", "again"] for k in range(10)]

    class Killed(CountingElmo):
        def embed(self, sentences: Iterable[Any], **options: Any) -> Iterator[Any]:
            for k, sentence in enumerate(super().embed(sentences, **options)):
                if k == 7:
                    raise KeyboardInterrupt
                yield sentence

    with pytest.raises(KeyboardInterrupt):
        LayerCache(tmp_path).layers(Killed(), text)  # type: ignore[arg-type]
    elmo = CountingElmo()
    seen: list[tuple[int, int]] = []
    found = layers(LayerCache(tmp_path), elmo, text, progress=lambda *step: seen.append(step))
    assert torch.equal(found, expected(text)) and elmo.asked == text[6:]
    assert seen[0] == (0, 8) and seen[-1] == (8, 8)


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(layer_cache.np.lib.format, "write_array_header_1_0", full)
    with pytest.raises(OutputError, match=r"No space left on device; free space, or choose another cache_dir"):
        LayerCache(tmp_path).layers(ToyElmo(), TEXT)  # type: ignore[arg-type]
    assert not list(tmp_path.rglob("*.n*"))


def test_layers_that_do_not_stay_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when another process, with a small limit, makes room at the wrong moment."""
    monkeypatch.setattr(LayerCache, "_compute", lambda *_: None)
    with pytest.raises(OutputError, match=r"expected the layers that were just written, found them damaged or deleted"):
        LayerCache(tmp_path).layers(ToyElmo(), TEXT)  # type: ignore[arg-type]


def test_numbers_past_half_precision_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toy_elmo.token_layers", lambda tokens: np.full((N_LAYERS, len(tokens), DIM), 1e6, np.float32))
    with pytest.raises(FormatError, match="above 65,504"), np.errstate(over="ignore"):
        LayerCache(tmp_path).layers(ToyElmo(), [["a"]])  # type: ignore[arg-type]


def test_clearing(tmp_path: Path) -> None:
    cache = LayerCache(tmp_path)
    assert cache.entries() == [] and cache.clear() == 0
    cache.layers(ToyElmo(), TEXT)  # type: ignore[arg-type]
    cache.layers(ToyElmo(fingerprint="e" * 64), TEXT[:2])  # type: ignore[arg-type]
    cache.clear("eeee")
    [entry] = cache.entries()
    assert (entry.model, entry.state, entry.sentences, entry.tokens) == ("f" * 64, "reset", 3, 7)
    assert entry.bytes == cache.clear() > 7 * ROW
    assert cache.entries() == [] and not size(tmp_path)


def test_a_file_in_the_place_of_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    for command in ("list", "clear"):
        result = CliRunner().invoke(app, ["cache", command, "--cache-dir", str(tmp_path / "file")])
        assert result.exit_code == 2 and "expected the folder of a layer cache, found something else" in result.stderr
    assert (tmp_path / "file").read_text() == "precious"
    assert CliRunner().invoke(app, ["cache", "clear", "--cache-dir", str(tmp_path / "missing")]).exit_code == 0


def test_the_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert LayerCache().root == tmp_path / "elmokit" / "layers"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert LayerCache().root == tmp_path / "home" / ".cache" / "elmokit" / "layers"


def test_a_real_model(tmp_path: Path) -> None:
    elmo = Elmo.from_pretrained(models.write_variant(tmp_path / "model", "usual")[0], state="reset")
    text = [["The", "cat"], ["in", "the", "present", "."]]
    found = layers(LayerCache(tmp_path / "cache"), elmo, text)
    exact = torch.cat([torch.from_numpy(sentence.layers) for sentence in elmo.embed(text)], dim=1).movedim(1, 0)
    torch.testing.assert_close(found.float(), exact, atol=1e-3, rtol=1e-3)


def test_who_comes_second_waits_and_finds_what_the_first_has_made(tmp_path: Path) -> None:
    """Two threads stand for two processes: locks are those of open files."""

    class Slow(CountingElmo):
        def embed(self, sentences: Iterable[Any], **options: Any) -> Iterator[Any]:
            for sentence in super().embed(sentences, **options):
                time.sleep(0.02)
                yield sentence

    elmos = [Slow(), Slow()]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda elmo: layers(LayerCache(tmp_path), elmo, TEXT), elmos))
    assert torch.equal(found[0], expected(TEXT)) and torch.equal(found[1], expected(TEXT))
    assert sorted(len(elmo.asked) for elmo in elmos) == [0, 3]
