"""A corpus larger than memory: what training holds does not grow with it, and it starts at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import elmokit
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.training_batch import make_batch
from elmokit.text.characters import ByteCharacters
from elmokit.text.vocabulary import Vocabulary

PACKAGE = Path(elmokit.__file__).parent.resolve()
PYTHONPATH = os.pathsep.join(map(str, (PACKAGE.parent, Path(__file__).parents[1])))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": PYTHONPATH}
FIRST_BATCH = 30  # seconds

# Trains on the file, and prints the peak of its resident memory, in MB, each time that a window has been read.
SCRIPT = """
import json, re, sys
from pathlib import Path
import synthetic
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.loop import train

path, window_tokens, batch_tokens, n_windows = sys.argv[1], *map(int, sys.argv[2:])
n_steps = n_windows * -(-window_tokens // batch_tokens)
state = synthetic.state(Path(path), steps=n_steps, batch_tokens=batch_tokens, learning_rate=1e-3)
peaks = []
for step in train(state, Corpus(path, window_tokens=window_tokens)):
    if step.step % (n_steps // n_windows) == 0:
        status = Path("/proc/self/status").read_text()
        peaks.append(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024)
print(json.dumps(peaks))
"""


def write(path: Path, n_lines: int, n_words: int) -> Path:
    """Sentences of 20 tokens."""
    with path.open("w", encoding="utf-8") as file:
        for line in range(n_lines):
            file.write(" ".join(f"w{(line * 31 + i * i * 7) % n_words}" for i in range(20)) + "\n")
    return path


def peaks(path: Path, window_tokens: int, batch_tokens: int, n_windows: int) -> list[float]:
    """MB after each window."""
    if not Path("/proc/self/status").exists():
        pytest.skip("there is no /proc to ask for the peak of memory")
    sizes = map(str, (window_tokens, batch_tokens, n_windows))
    command = [sys.executable, "-c", SCRIPT, str(path), *sizes]
    result = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    assert result.returncode == 0, result.stderr
    found: list[float] = json.loads(result.stdout)
    return found


def test_memory_does_not_grow_with_the_steps(tmp_path: Path) -> None:
    """Five windows of 10,500 tokens. While one is read the one before is still there: so it is from the third on."""
    found = peaks(write(tmp_path / "a.txt", 3_000, 300), 10_500, 2_100, 5)
    assert found[-1] < found[2] + 8, found


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """Windows as they are by default, 2 million tokens: 12 million of them, of a file of 88 MB."""
    found = peaks(write(tmp_path / "a.txt", 600_000, 50_000), 2_000_000, 20_000, 6)
    print([round(peak) for peak in found], "MB")
    assert found[-1] < 1.05 * found[2], found


def test_the_first_batch_of_a_large_corpus(shared_data: Path) -> None:
    """54 million tokens in five files; the vocabulary is given. In seconds of work, since a test may have to wait."""
    before = sum(os.times()[:2])
    vocabulary = Vocabulary.from_file(PACKAGE / "models" / "base" / "vocabulary.txt")
    share = next(Corpus(shared_data / "lm" / "train-*.txt.xz").batches(batch_tokens=2_560))
    make_batch(share.sentences, vocabulary, ByteCharacters())
    assert sum(os.times()[:2]) - before < FIRST_BATCH
    assert share.n_tokens == pytest.approx(2_560, rel=0.1)


@pytest.mark.slow
def test_the_command_makes_its_first_step_soon(shared_data: Path, tmp_path: Path) -> None:
    """With a held-out text, of which all training text is asked whether it has its sentences."""
    lm = shared_data / "lm"
    command = [
        sys.executable,
        "-m",
        "elmokit",
        "pretrain",
        "--train",
        str(lm / "train-*.txt.xz"),
        "--heldout",
        str(lm / "heldout-dev.txt.xz"),
        "--vocabulary",
        str(PACKAGE / "models" / "base" / "vocabulary.txt"),
        "-o",
        str(tmp_path / "run"),
        "--preset",
        "tiny",
        "--threads",
        "1",
        "--log-every",
        "1",
        "--steps",
        "100000",
        "--heldout-every",
        "100000",
    ]
    metrics = tmp_path / "run" / "metrics.jsonl"
    before = sum(os.times()[2:4])  # of children
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None and not (metrics.exists() and metrics.read_text()):
                time.sleep(0.1)
        finally:
            process.kill()
    seconds = sum(os.times()[2:4]) - before
    print(f"{seconds:.1f} s")
    assert metrics.read_text() and seconds < FIRST_BATCH
