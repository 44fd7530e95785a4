"""Memory of writing: it does not grow with the number of sentences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import language_model
import numpy as np
import pytest
import torch
from limits import Outcome, limited

from elmokit import Elmo
from elmokit.embed.embed_files import embed_files
from elmokit.embed.record import Record, RecordLayout
from elmokit.embed.writers import Format, open_writer

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")

DIM = 16
LAYOUTS: dict[str, tuple[Format, bool]] = {
    "npz": ("npz", False),
    "npz, pooled": ("npz", True),
    "parquet": ("parquet", False),
    "parquet, pooled": ("parquet", True),
}


def status(name: str) -> float:
    """VmRSS, the memory now, or VmHWM, the most so far, in MB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(name))


def peak(work: Callable[[], Any]) -> float:
    """Most memory of a piece of work beyond what was there before, in MB."""

    def measured() -> float:
        before = status("VmRSS")
        work()
        return status("VmHWM") - before

    outcome: Outcome = limited(measured)
    assert outcome.kind == "result", outcome
    return float(outcome.value)


def records(n: int, *, pooled: bool) -> Iterator[Record]:
    vectors = np.ones(DIM, np.float32) if pooled else np.ones((3, 8, DIM), np.float32)
    for number in range(n):
        tokens = [f"token{number % 1000 + k}" for k in range(8)]
        yield Record(" ".join(tokens), tokens, [(k, k + 5) for k in range(8)], vectors)


@pytest.mark.parametrize("name", LAYOUTS)
def test_writers_need_no_more_for_more_sentences(name: str, tmp_path: Path) -> None:
    format, pooled = LAYOUTS[name]
    layout = RecordLayout(DIM, None if pooled else 3, pooled=pooled)

    def write(n: int) -> None:
        rows = "sentences" if pooled else "tokens"
        with open_writer(tmp_path / "out", format, layout, rows=rows, count=n) as writer:  # type: ignore[arg-type]
            for record in records(n, pooled=pooled):
                writer.write(record)

    few, many = (peak(lambda n=n: write(n)) for n in (12_000, 36_000))  # type: ignore[misc]
    print(f"{name}: {few:.0f} MB for 12,000 sentences, {many:.0f} MB for 36,000")
    assert many < few + 10


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", LAYOUTS)
def test_embedding_needs_no_more_for_more_sentences(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("limits.SECONDS", 1000)
    monkeypatch.setattr("limits.WAITING", 1000)
    torch.set_num_threads(1)
    format, pooled = LAYOUTS[name]
    model = language_model.write(tmp_path / "model").folder
    for n in (30_000, 300_000):
        with open(tmp_path / f"{n}.txt", "w") as file:
            file.writelines(f"the cat sat on the mat {k % 1000} .\n" for k in range(n))

    def embed(n: int) -> None:
        output = tmp_path / f"{n}.{format}"
        embed_files(Elmo.from_pretrained(model), [tmp_path / f"{n}.txt"], output, pool="mean" if pooled else None)
        output.unlink()

    few, many = (peak(lambda n=n: embed(n)) for n in (30_000, 300_000))  # type: ignore[misc]
    print(f"{name}: {few:.0f} MB for 30,000 sentences, {many:.0f} MB for 300,000")
    assert many < few + 40
