"""Training steps in bfloat16 and float32, in turns, from the same weights on the same batches.

    python benchmarks/precision.py --train 'corpus/*.txt' --steps 600    writes docs/results/precision.json

Prints tokens per second of each, their ratio, and the relative difference of their mean losses over the last half of
the steps. The CPU needs AVX-512 BF16; elsewhere the command says so.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from statistics import fmean, median

import results as files
import torch

from elmokit import weights
from elmokit.nn.cpu.operators import has_bfloat16
from elmokit.pretrain.loop import TrainingStep, train
from elmokit.pretrain.presets import get_preset
from elmokit.pretrain.pretrain_run import corpus_of, grown_state
from elmokit.training.memory import keep_freed_memory

PRECISIONS = ("float32", "bfloat16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="training text, one sentence per line")
    parser.add_argument(
        "--model", default="base", help="model whose weights, made as wide as the preset, both start from"
    )
    parser.add_argument("--preset", default="base")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-tokens", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    if not has_bfloat16():
        sys.exit("this CPU has no bfloat16 products: nothing to compare")
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    preset = get_preset(arguments.preset)
    settings = preset.settings.changed(
        train=(arguments.train,), batch_tokens=arguments.batch_tokens, learning_rate=1e-3
    )
    runs = {}
    for precision in PRECISIONS:
        own = settings.changed(precision=precision)
        runs[precision] = train(grown_state(arguments.model, preset.config, own), corpus_of(own))
    seconds: dict[str, list[float]] = {precision: [] for precision in PRECISIONS}
    steps: dict[str, list[TrainingStep]] = {precision: [] for precision in PRECISIONS}
    for number in range(arguments.steps + 3):
        for precision, run in runs.items():
            started = time.perf_counter()
            steps[precision].append(next(run))
            if number >= 3:  # warm
                seconds[precision].append(time.perf_counter() - started)
        if number % 50 == 49:
            shown = "  ".join(f"{name} {kept[-1].perplexity:.2f}" for name, kept in steps.items())
            print(f"step {number + 1} of {arguments.steps + 3}: perplexity {shown}", file=sys.stderr, flush=True)
    speed = {name: arguments.batch_tokens / median(times) for name, times in seconds.items()}
    losses = {name: fmean(step.loss for step in kept[-arguments.steps // 2 :]) for name, kept in steps.items()}
    ratio, difference = speed["bfloat16"] / speed["float32"], losses["bfloat16"] / losses["float32"] - 1
    for name in PRECISIONS:
        print(f"{name:<10}{speed[name]:8.0f} tokens/s   loss {losses[name]:.4f}")
    print(f"bfloat16: {ratio:.2f} times the speed, loss {difference:+.3%}")
    numbers = {
        "tokens_per_second": speed,
        "ratio": ratio,
        "loss": losses,
        "loss_difference": difference,
        "steps": arguments.steps,
        "batch_tokens": arguments.batch_tokens,
    }
    files.write("precision", numbers, model=weights.load(arguments.model), output=arguments.output)


if __name__ == "__main__":
    main()
