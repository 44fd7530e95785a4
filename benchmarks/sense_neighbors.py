"""Table 4, counted: how many of the five nearest occurrences of a word have its sense.

    python benchmarks/sense_neighbors.py base    writes docs/results/sense_neighbors.json

The sentences are those of the explorer's map: eight words with labeled senses, none of which a model has read in
training. Each occurrence asks for the five others that are nearest by cosine, in every layer. Printed per word: the
mean number with the same sense, and by chance; in the JSON also the share of occurrences with four or more.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import results as files

from elmokit import Elmo
from elmokit.analysis.senses.word_map import read_occurrences
from elmokit.text.lines import read_lines
from elmokit.text.tokenizer import get_tokenizer

SENTENCES = Path(__file__).parents[1] / "src/elmokit/serve/page/data/occurrences.tsv"
NEAREST = 5
ENOUGH = 4  # of the five: the paper's story holds


def words_of(path: Path) -> list[str]:
    """The words of a labeled file, in order."""
    return list(dict.fromkeys(line.split("\t")[0] for line in read_lines(path) if line and not line.startswith("#")))


def same_sense(vectors: np.ndarray[Any, Any], senses: Sequence[str | None]) -> np.ndarray[Any, Any]:
    """Per layer and occurrence, how many of the five nearest others have its sense; vectors: (L, n, D) to (L, n)."""
    unit = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    cosines = unit @ unit.transpose(0, 2, 1) - 3 * np.eye(len(senses))  # never its own neighbor
    nearest = np.argsort(-cosines, axis=-1, kind="stable")[..., :NEAREST]  # (L, n, 5)
    labels = np.array(senses)
    same: np.ndarray[Any, Any] = (labels[nearest] == labels[:, None]).sum(axis=-1)
    return same


def by_chance(senses: Sequence[str | None]) -> float:
    """Expected number if the five were any other occurrences."""
    n = len(senses)
    return NEAREST * sum(count * (count - 1) for count in Counter(senses).values()) / (n * (n - 1))


def measure(elmo: Elmo, path: Path) -> dict[str, Any]:
    """Figures per word, by layer."""
    found = {}
    for word in words_of(path):
        occurrences = read_occurrences(read_lines(path), word, get_tokenizer(elmo.tokenizer))
        senses, places = [sense for sense, _ in occurrences], [one for _, one in occurrences]
        embedded = elmo.embed([list(one.tokens) for one in places], progress=False)
        vectors = np.stack([s.layers[:, one.position] for s, one in zip(embedded, places, strict=True)], axis=1)
        same = same_sense(vectors, senses)
        found[word] = {
            "occurrences": len(senses),
            "same": same.mean(axis=1).tolist(),
            "share_with_four": (same >= ENOUGH).mean(axis=1).tolist(),
            "by_chance": by_chance(senses),
        }
    return found


def table(words: dict[str, Any]) -> str:
    """Mean number of the five nearest with the same sense, per word and layer, as Markdown."""
    n_layers = len(next(iter(words.values()))["same"])
    lines = [
        "| | " + " | ".join(f"layer {k}" for k in range(n_layers)) + " | by chance |",
        "|---" * (n_layers + 2) + "|",
    ]
    for word, facts in words.items():
        cells = [f"{same:.1f}" for same in (*facts["same"], facts["by_chance"])]
        lines.append(f"| *{word}* | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--sentences", type=Path, default=SENTENCES, help="lines of word, sense and sentence, by tabs")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    elmo = Elmo.from_pretrained(arguments.model)
    words = measure(elmo, arguments.sentences)
    print(table(words))
    files.write(
        "sense_neighbors",
        {"nearest": NEAREST, "words": words},
        files=[arguments.sentences],
        model=elmo.model,
        table=table(words),
        output=arguments.output,
    )


if __name__ == "__main__":
    main()
