"""Training and embedding speed of model shapes, compared with MiniLM.

    python benchmarks/shapes.py --train 'mixed/train-*.txt' --vocabulary words.txt --text dev.txt

The results are written to docs/results/shapes.json. Weights are random: speed does not depend on them. Everything runs
on one thread and is counted in CPU seconds, in turns, and the best of the rounds counts. Embedding is measured with
words that the engine has seen before.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import encoders
import results as files
import torch

from elmokit import Elmo, weights
from elmokit.config import CharCnnConfig, LstmConfig, ModelConfig
from elmokit.pretrain.corpus import Corpus
from elmokit.pretrain.loop import train
from elmokit.pretrain.training_settings import TrainingSettings
from elmokit.pretrain.training_state import TrainingState
from elmokit.text.lines import read_lines
from elmokit.text.vocabulary import Vocabulary

FILTERS = {
    512: ((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128)),
    1024: ((1, 32), (2, 64), (3, 128), (4, 256), (5, 256), (6, 288)),
}
SHAPES = [(512, 128, 512), (640, 256, 1024), (768, 192, 1024), (768, 256, 1024), (1024, 192, 1024), (1024, 256, 1024)]
STEPS = 6  # the first two are not counted


def config(cells: int, projection: int, filters: int) -> ModelConfig:
    """A shape with one highway layer."""
    lstm = LstmConfig(dim=cells, projection_dim=projection)
    return ModelConfig(lstm=lstm, char_cnn=CharCnnConfig(filters=FILTERS[filters], n_highway=1), state="reset")


def training_rate(state: TrainingState, corpus: Corpus) -> float:
    """Tokens per CPU second of a training step."""
    tokens = began = 0.0
    for step in islice(train(state, corpus), STEPS):
        if step.step == 2:
            tokens, began = step.tokens, time.process_time()
    return (state.tokens - tokens) / (time.process_time() - began)


def embedding_rate(encoder: encoders.Encoder, sentences: list[list[str]]) -> float:
    """Tokens per CPU second on a text that was embedded before."""
    began = time.process_time()
    n = sum(len(sentence.tokens) for sentence in encoder.embed(sentences))
    return n / (time.process_time() - began)


def main() -> None:
    """Measure all shapes in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True)
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, metavar="JSON", help="by default docs/results/shapes.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    words = Vocabulary.from_file(arguments.vocabulary)
    sentences = [line.split() for line in islice(read_lines(arguments.text), 1_000)]
    settings = TrainingSettings(
        train=(arguments.train,), batch_tokens=4_096, loss="adaptive", dropout=0.0, decay="none", learning_rate=1e-3
    )
    rows: dict[str, dict[str, float]] = {}
    embedders: dict[str, encoders.Encoder] = {"MiniLM-L6": encoders.MiniLM()}
    with tempfile.TemporaryDirectory() as folder:
        for cells, projection, filters in SHAPES:
            name = f"{cells} cells, projection {projection}, {filters} filters"
            state = TrainingState.begin(config(cells, projection, filters), settings, words)
            rows[name] = {
                "lstm_and_encoder": sum(p.numel() for p in state.bilm.parameters()),
                "softmax": sum(p.numel() for p in state.head.parameters()),
                "training": training_rate(state, Corpus(arguments.train)),
            }
            place = Path(folder) / f"{cells}-{projection}-{filters}"
            weights.save(state.model(), place)
            embedders[name] = Elmo.from_pretrained(place)
        for number in range(arguments.rounds + 1):
            for name, encoder in embedders.items():
                rate = embedding_rate(encoder, sentences)
                row = rows.setdefault(name, {})
                if number:  # the first round only fills caches
                    row["embedding"] = max(rate, row.get("embedding", 0.0))
    lines = [
        "| | million weights, with softmax | training, tokens/s | embedding, tokens/s | beside MiniLM |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        size = (row["lstm_and_encoder"] + row["softmax"]) / 1e6 if "softmax" in row else 0.0
        ratio = row["embedding"] / rows["MiniLM-L6"]["embedding"]
        first = f"{size:.1f} | {row['training']:,.0f}" if size else " | "
        lines.append(f"| {name} | {first} | {row['embedding']:,.0f} | {ratio:.2f} |")
    table = "\n".join(lines)
    print(table)
    files.write("shapes", {"shapes": rows}, files=[arguments.text], table=table, output=arguments.output)


if __name__ == "__main__":
    main()
