"""How many occurrences of a word are nearest to one of the same sense, by layer.

    python benchmarks/nearest_sense.py ko 눈이 examples/senses-ko.txt    writes docs/results/nearest_sense_ko.json

Every sentence has the word once, and the sentences alternate between its two senses. Similarity is the cosine;
chance is just under one half.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import results as files

from elmokit import Elmo


def count_right(elmo: Elmo, word: str, lines: list[str]) -> list[int]:
    """For every layer, the number of occurrences whose nearest neighbor has the same sense."""
    vectors = np.stack([sentence.layers[:, sentence.tokens.index(word)] for sentence in elmo.embed(lines)], axis=1)
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)  # (layers, sentences, 2D)
    cosines = unit @ unit.transpose(0, 2, 1) - 2 * np.eye(len(lines))  # never its own neighbor
    same = (cosines.argmax(axis=-1) - np.arange(len(lines))) % 2 == 0
    return [int(right) for right in same.sum(axis=-1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("word")
    parser.add_argument("sentences", type=Path)
    parser.add_argument("-o", "--output", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    elmo = Elmo.from_pretrained(arguments.model)
    lines = arguments.sentences.read_text(encoding="utf-8").splitlines()
    right = count_right(elmo, arguments.word, lines)
    for layer, number in enumerate(right):
        print(f"layer {layer}: {number} of {len(lines)}")
    name = f"nearest_sense_{elmo.model.short_name}"
    numbers = {"sentences": len(lines), "right": right}
    files.write(name, numbers, files=[arguments.sentences], model=elmo.model, output=arguments.output)


if __name__ == "__main__":
    main()
