"""Records of sentences with random vectors, and a writer for them: tests of output formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from elmokit.embed.record import Record, RecordLayout
from elmokit.embed.writers import Format, open_writer

RNG = np.random.default_rng(7)
DIM = 4
TEXTS = ["A cat .", "", 'Ünïcode 東京 🐈\t"q" \\ \u0000', "A cat .", "  padded  "]


def records(n_layers: int | None = 3, dtype: str = "float32", *, pooled: bool = False) -> list[Record]:
    result = []
    for text in TEXTS:
        tokens = text.split()
        n = len(tokens)
        shape = (DIM,) if pooled else (n, DIM) if n_layers is None else (n_layers, n, DIM)
        spans = [(k, k + 1) for k in range(n)]
        result.append(Record(text, tokens, spans, RNG.standard_normal(shape).astype(dtype)))
    return result


def write(path: Path, format: Format, layout: RecordLayout, stored: list[Record], **options: object) -> Path:
    with open_writer(path, format, layout, **options) as writer:  # type: ignore[arg-type]
        for record in stored:
            writer.write(record)
    return path
