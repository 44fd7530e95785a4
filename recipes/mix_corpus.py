"""Interleave text files line by line into mixed shards, and split held-out texts off the last input.

    python recipes/mix_corpus.py lm/train-*.txt.xz lm2/train-*.txt.xz -o mixed/ --heldout-tokens 150000

Line i of every input ends up near line i of the others, so that each shuffle window of a training run contains all
sources. The dev and test texts are the end of the last input. A few lines at each boundary are left out of all files,
because they may belong to a document on both sides of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path

from elmokit.text.lines import read_lines

GAP = 50  # lines left out at each boundary: longer than most paragraphs
RUN = 1_000  # lines from every input before switching to the next shard


def cut_heldout(lines: list[str], n_tokens: int) -> tuple[list[str], list[str], list[str]]:
    """Lines to train on, a dev text and a test text of about `n_tokens` tokens each, taken from the end."""
    texts = []
    for _ in range(2):
        text: list[str] = []
        size = 0
        while lines and size < n_tokens:
            text.append(lines.pop())
            size += len(text[-1].split())
        del lines[max(0, len(lines) - GAP) :]
        texts.append(text[::-1])
    return lines, texts[1], texts[0]


def mixed(inputs: list[Iterator[str]]) -> Iterator[list[str]]:
    """Blocks of lines, interleaved from all inputs."""
    run: list[str] = []
    for row in zip_longest(*inputs):
        run.extend(line for line in row if line is not None)
        if len(run) >= RUN * len(inputs):
            yield run
            run = []
    yield run


def main() -> None:
    """Read the inputs once, in parallel, and write the shards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--shards", type=int, default=12)
    parser.add_argument("--heldout-tokens", type=int, default=150_000, help="tokens per held-out text (dev, test)")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True)
    *others, last = arguments.inputs
    train, dev, test = cut_heldout(list(read_lines(last)), arguments.heldout_tokens)
    for name, lines in (("heldout-dev", dev), ("heldout-test", test)):
        (arguments.output / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with ExitStack() as stack:
        names = [arguments.output / f"train-{number:02}.txt" for number in range(arguments.shards)]
        shards = [stack.enter_context(name.open("w", encoding="utf-8")) for name in names]
        inputs = [iter(read_lines(path)) for path in others] + [iter(train)]
        for number, run in enumerate(mixed(inputs)):
            shards[number % len(shards)].writelines(f"{line}\n" for line in run)


if __name__ == "__main__":
    main()
