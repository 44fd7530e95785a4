"""Entity recognition in spaCy with and without ELMo: F1 after a few training steps on a part of CoNLL-2003.

Trains `spacy.TransitionBasedParser.v2` twice with the same settings, seed and batches: once over
`spacy.HashEmbedCNN.v2` and once over `elmokit.Tok2Vec.v1`. Data in the CoNLL-2003 column format:

    python benchmarks/spacy_ner.py --train eng.train.gz --test eng.testa [--sentences 1500] [--steps 200]
"""

from __future__ import annotations

import argparse
import gzip
import random
import time
from collections.abc import Iterator
from pathlib import Path

import spacy
from spacy.tokens import Doc
from spacy.training import Example, iob_to_biluo
from spacy.util import fix_random_seed, minibatch

SHAPE = {"width": 96, "depth": 4, "embed_size": 2000, "window_size": 1, "maxout_pieces": 3, "subword_features": True}
ARCHITECTURES = {
    "spacy.HashEmbedCNN.v2": {**SHAPE, "pretrained_vectors": None},
    "elmokit.Tok2Vec.v1": SHAPE,
}


def read(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        tokens: list[str] = []
        tags: list[str] = []
        for line in lines:
            columns = line.split()
            if columns and columns[0] != "-DOCSTART-":
                tokens.append(columns[0])
                tags.append(columns[-1])
            elif tokens:
                yield tokens, tags
                tokens, tags = [], []
        if tokens:
            yield tokens, tags


def begin_tags(tags: list[str]) -> list[str]:
    """IOB1, in which CoNLL-2003 is published, to IOB2: an entity always starts with B."""
    before = ["O", *tags]
    return [f"B{tag[1:]}" if tag[0] == "I" and before[k][1:] != tag[1:] else tag for k, tag in enumerate(tags)]


def examples(nlp: spacy.Language, sentences: list[tuple[list[str], list[str]]]) -> list[Example]:
    return [
        Example.from_dict(Doc(nlp.vocab, words=tokens), {"entities": iob_to_biluo(begin_tags(tags))})
        for tokens, tags in sentences
    ]


def f1(architecture: str, arguments: argparse.Namespace) -> tuple[float, float]:
    """F1 on the test sentences after training, and the seconds of training."""
    fix_random_seed(arguments.seed)
    nlp = spacy.blank("en")
    tok2vec = {"@architectures": architecture, **ARCHITECTURES[architecture]}
    parser = {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": "ner",
        "extra_state_tokens": False,
        "hidden_width": 64,
        "maxout_pieces": 2,
        "use_upper": True,
        "nO": None,
        "tok2vec": tok2vec,
    }
    nlp.add_pipe("ner", config={"model": parser})
    train = examples(nlp, list(read(arguments.train))[: arguments.sentences])
    test = examples(nlp, list(read(arguments.test))[: arguments.test_sentences])
    optimizer = nlp.initialize(lambda: train)
    batches = random.Random(arguments.seed)
    step, started = 0, time.perf_counter()
    while step < arguments.steps:
        batches.shuffle(train)
        for batch in minibatch(train, arguments.batch_size):
            if step == arguments.steps:
                break
            nlp.update(batch, sgd=optimizer, drop=0.1)
            step += 1
    seconds = time.perf_counter() - started
    return 100 * nlp.evaluate(test)["ents_f"], seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="Training file.")
    parser.add_argument("--test", type=Path, required=True, help="Test file.")
    parser.add_argument("--sentences", type=int, default=1500, help="Training sentences [1500].")
    parser.add_argument("--test-sentences", type=int, default=1500, help="Test sentences [1500].")
    parser.add_argument("--steps", type=int, default=200, help="Training steps [200].")
    parser.add_argument("--batch-size", type=int, default=32, help="Sentences per step [32].")
    parser.add_argument("--seed", type=int, default=0, help="Random seed [0].")
    arguments = parser.parse_args()
    for architecture in ARCHITECTURES:
        score, seconds = f1(architecture, arguments)
        print(f"{architecture:24} F1 {score:.1f} after {arguments.steps} steps, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
