"""Interleave text files line by line into mixed shards, and split held-out texts off the last input.

    python recipes/mix_corpus.py lm/train-*.txt.xz lm2/train-*.txt.xz -o mixed/ --heldout-tokens 150000

The lines of every input are spread evenly over the shards, whatever its length, so that each shuffle window of a
training run contains all sources. The dev and test texts are the end of the last input. A few lines at each boundary
are left out of all files, because they may belong to a document on both sides of it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path

from elmokit.text.lines import read_lines

GAP = 50  # lines left out at each boundary: longer than most paragraphs
RUN = 10_000  # lines before switching to the next shard


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


def placed(lines: Iterator[str], size: int) -> Iterator[tuple[float, str]]:
    """Lines of an input with their relative position in it, from 0 to 1."""
    return ((position / size, line) for position, line in enumerate(lines))


def mixed(inputs: list[tuple[Iterator[str], int]]) -> Iterator[list[str]]:
    """Blocks of lines, interleaved from all inputs (lines, number of lines) by relative position."""
    merged = merge(*(placed(lines, size) for lines, size in inputs), key=itemgetter(0))
    lines = (line for _, line in merged)
    while run := list(islice(lines, RUN)):
        yield run


def main() -> None:
    """Count the lines of the inputs, then read them in parallel and write the shards."""
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
        inputs = [(iter(read_lines(path)), sum(1 for _ in read_lines(path))) for path in others]
        inputs.append((iter(train), len(train)))
        for number, run in enumerate(mixed(inputs)):
            shards[number % len(shards)].writelines(f"{line}\n" for line in run)


if __name__ == "__main__":
    main()
