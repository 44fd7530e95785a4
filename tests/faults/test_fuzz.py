"""Mutated files of every kind: read, or refused in one line; never a traceback, a crash, a hang or a full memory.

The ordinary tests make a few hundred; `make faults` makes ten thousand. FAULTS_SEED and FAULTS_FILES choose others.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kinds
import pytest
import text_kinds
import torch
from limits import limited, limited_each
from mutate import mutated

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")

SEED = os.environ.get("FAULTS_SEED", "0")
FILES = int(os.environ.get("FAULTS_FILES", "10000"))
NAMES = (
    "published model", "native model", "Transformers folder", "AllenNLP state dict", "zip of a model",
    "ELMoForManyLangs", "ELMoForManyLangs, legacy", "data of ner", "data of pos", "data of upos", "data of squad",
    "data of snli", "data of sst",
    "data of srl", "data of coref", "text.gz", "text.xz", "text.bz2", "text.zst", "text to embed", "text to train on",
    "vocabulary", "word vectors", "word vectors, binary", "API key", "options", "sense corpus", "WordNet",
    "WordNet, packed", "tagged text", "triples", "results", "report", "checkpoints", "checkpoints, mended",
    "complete run", "tagger", "results of a run", "run in a comparison", "unfinished run", "unfinished run, mended",
    "metrics", "index", "layer cache", "resume spool", "settings of a spool", "ONNX file", "aligning matrix",
    "plan of shards",
)  # fmt: skip


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, kinds.Kind]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("examples")
    made = [
        *kinds.make_models(folder),
        *text_kinds.make_tasks(folder),
        *text_kinds.make_texts(folder, folder / "native"),
        *text_kinds.make_analyses(folder),
        *kinds.make_runs(folder, folder / "native"),
        *kinds.make_exports(folder, folder / "native"),
    ]
    assert tuple(kind.name for kind in made) == NAMES
    return {kind.name: kind for kind in made}


def read_mutated(kind: kinds.Kind, place: Path, rng: random.Random) -> Any:
    """Change one file of an example, and read it."""
    path = kinds.copied(kind, place)
    files = [path]
    if path.is_dir():
        files = sorted({file for pattern in kind.files for file in path.rglob(pattern) if file.is_file()})
        files = [file for file in files if file.name not in ("lock", ".lock")]
    file = rng.choice(files)
    file.write_bytes(mutated(file.read_bytes(), rng))
    if kind.mend is not None:
        kind.mend(path)
    return kind.read(path)


def campaign(kind: kinds.Kind, place: Path, n_files: int, record: Callable[[str, object], None]) -> None:
    if kind.missing:
        pytest.skip(f"needs elmokit[{kind.missing}]")
    record("mutated files", n_files)
    record("seed", SEED)
    whole = limited(lambda: kind.read(kinds.copied(kind, place / "whole")))
    assert whole.kind == "result", (kind.name, whole)
    counts: Counter[str] = Counter()
    faults, longest = [], 0.0

    def work(number: int) -> Any:
        folder = place / f"file{number}"
        try:
            return read_mutated(kind, folder, random.Random(f"{SEED}-{kind.name}-{number}"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    for number, outcome in enumerate(limited_each(n_files, work)):
        counts[outcome.kind] += 1
        longest = max(longest, outcome.seconds)
        if outcome.kind not in ("result", "refused"):
            faults.append(f"seed {SEED}-{kind.name}-{number}: {outcome.kind} {outcome.value}")
        elif kind.exact and outcome.kind == "result" and outcome.value != whole.value:
            faults.append(f"seed {SEED}-{kind.name}-{number}: a silent difference")
    shown = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{kind.name}, seed {SEED}: {shown}, at most {longest:.1f} s, {len(faults)} faults", flush=True)
    assert not faults, f"{len(faults)} faults; the first: " + "\n".join(faults[:5])


@pytest.mark.parametrize("name", NAMES)
def test_some_mutated_files(
    examples: dict[str, kinds.Kind], name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    campaign(examples[name], tmp_path, 4, record_property)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", NAMES)
def test_thousands_of_mutated_files(
    examples: dict[str, kinds.Kind], name: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    campaign(examples[name], tmp_path, -(-FILES // len(NAMES)), record_property)
