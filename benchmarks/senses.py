"""Speed of computing sense vectors, relative to the engine alone.

python benchmarks/senses.py semcor.data.xml --train-key semcor.gold.key.txt --wordnet WordNet-3.0/dict --tokens 200000

All senses of the text are computed, more than any evaluation needs. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import results as files
from index import timed

from elmokit.analysis.senses.sense_corpus import SenseCorpus, read_corpus
from elmokit.analysis.senses.sense_vectors import SenseInventory, sense_vectors
from elmokit.analysis.senses.wordnet import read_wordnet
from elmokit.analysis.shared.layers import Meter, views
from elmokit.embed.elmo import Elmo


def beginning(corpus: SenseCorpus, tokens: int) -> SenseCorpus:
    """First sentences with at least the given number of tokens."""
    lengths = accumulate(map(len, corpus.sentences), initial=0)
    sentences = [sentence for sentence, before in zip(corpus.sentences, lengths, strict=False) if before < tokens]
    end = sum(map(len, sentences))
    return replace(corpus, sentences=sentences, instances=[each for each in corpus.instances if each.end <= end])


def embed_alone(corpus: SenseCorpus, model: str | None) -> int:
    return sum(len(sentence.tokens) for sentence in Elmo.from_pretrained(model).embed(corpus.sentences, layers="all"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("--train-key", type=Path)
    parser.add_argument("--wordnet", type=Path)
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--model")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON", help="by default docs/results/senses.json")
    options = parser.parse_args()
    corpus = beginning(read_corpus(options.train, options.train_key), options.tokens)
    senses = SenseInventory.of(corpus.instances, corpus.instances, read_wordnet(options.wordnet))
    tokens, alone = timed(lambda: embed_alone(corpus, options.model))
    elmo = Elmo.from_pretrained(options.model)
    chosen = views("0,1,2,average", elmo.config.n_vectors)
    _, seconds = timed(lambda: sense_vectors(elmo, corpus, senses, chosen, Meter(None, tokens)))
    print(f"engine alone   {tokens:,} tokens, {tokens / alone:,.0f} tokens/s")
    print(f"sense vectors  {tokens / seconds:,.0f} tokens/s, {alone / seconds:.2f} of the engine's speed")
    numbers = {"tokens": tokens, "engine_tokens_per_second": tokens / alone, "tokens_per_second": tokens / seconds}
    numbers |= {"of_engine": alone / seconds}
    files.write("senses", numbers, files=[options.train], model=elmo.model, output=options.output)


if __name__ == "__main__":
    main()
