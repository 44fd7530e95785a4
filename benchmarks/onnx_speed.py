"""Speed of an exported ONNX file on onnxruntime, relative to the engine: single sentences and batches.

    python benchmarks/onnx_speed.py TEXT [--model PATH] [--rounds N]

TEXT: a file of real sentences, one per line, tokens separated by spaces; plain or compressed. Both contenders run in
turns, each in its own process with the same number of threads; a ratio is the median over the rounds of the ratios
within a round. Ratios above 1 mean that onnxruntime is faster. Takes a minute. Needs elmokit[onnx].
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any

import onnxruntime
import torch
from isolated import Worker, contender

from elmokit import Elmo, __version__
from elmokit.integrations.onnx import OnnxElmo
from elmokit.integrations.onnx_export import export_onnx
from elmokit.text.lines import read_lines

WARM_UP, SINGLE, BATCHED = 50, 100, 1500  # sentences


def worker(path: str | None, onnx: str | None, threads: int, sentences: list[list[str]]) -> Worker:
    """Answers "single" with seconds per sentence, one at a time, and "batch" with seconds for all of them."""
    elmo: Any
    if onnx is None:
        torch.set_num_threads(threads)
        elmo = Elmo.from_pretrained(path)
    else:
        elmo = OnnxElmo(onnx, threads=threads)
    for _ in elmo.embed(sentences[:WARM_UP]):
        pass

    def measure(order: str) -> float:
        if order == "single":
            seconds = []
            for sentence in sentences[WARM_UP : WARM_UP + SINGLE]:
                started = time.perf_counter()
                list(elmo.embed([sentence]))
                seconds.append(time.perf_counter() - started)
            return statistics.median(seconds)
        started = time.perf_counter()
        for _ in elmo.embed(sentences[WARM_UP + SINGLE :]):
            pass
        return time.perf_counter() - started

    return measure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text")
    parser.add_argument("--model", help="folder, file or name of a model; by default the packaged one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    lines = (line.split() for line in read_lines(options.text))
    sentences = list(islice((line for line in lines if line), WARM_UP + SINGLE + BATCHED))
    tokens = sum(map(len, sentences[WARM_UP + SINGLE :]))
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        export_onnx(Elmo.from_pretrained(options.model), path)
        with (
            contender(worker, options.model, None, options.threads, sentences) as engine,
            contender(worker, options.model, path, options.threads, sentences) as runtime,
        ):
            rounds = [
                {order: (engine(order), runtime(order)) for order in ("single", "batch")} for _ in range(options.rounds)
            ]
    print(
        f"elmokit {__version__}, torch {torch.__version__}, onnxruntime {onnxruntime.__version__}, "
        f"{options.threads} threads; medians of {options.rounds} rounds\n"
    )
    print("| | engine | onnxruntime | onnxruntime / engine |\n|---|---|---|---|")
    for order, label in (("single", "one sentence at a time, sentences/s"), ("batch", "batches, tokens/s")):
        amount = 1 if order == "single" else tokens
        ours, theirs = (statistics.median(amount / each[order][k] for each in rounds) for k in (0, 1))
        ratio = statistics.median(each[order][0] / each[order][1] for each in rounds)
        print(f"| {label} | {ours:,.0f} | {theirs:,.0f} | {ratio:.2f}x |")


if __name__ == "__main__":
    main()
