"""Word senses: how fast their vectors are made beside the engine alone.

python benchmarks/senses.py semcor.data.xml --train-key semcor.gold.key.txt --wordnet WordNet-3.0/dict --tokens 200000

Every sense of the text is asked for, more than any evaluation asks. Let nothing else run beside it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from index import timed

from elmokit.analysis.layers import Meter, views
from elmokit.analysis.senses import SenseInventory, sense_vectors
from elmokit.analysis.senses_data import SenseCorpus, read_corpus
from elmokit.analysis.wordnet import read_wordnet
from elmokit.embed.elmo import Elmo


def beginning(corpus: SenseCorpus, tokens: int) -> SenseCorpus:
    """The first sentences, with so many tokens or a few more."""
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
    options = parser.parse_args()
    corpus = beginning(read_corpus(options.train, options.train_key), options.tokens)
    senses = SenseInventory.of(corpus.instances, corpus.instances, read_wordnet(options.wordnet))
    tokens, alone = timed(lambda: embed_alone(corpus, options.model))
    elmo = Elmo.from_pretrained(options.model)
    chosen = views("0,1,2,average", elmo.config.n_vectors)
    _, seconds = timed(lambda: sense_vectors(elmo, corpus, senses, chosen, Meter(None, tokens)))
    print(f"engine alone   {tokens:,} tokens, {tokens / alone:,.0f} tokens/s")
    print(f"sense vectors  {tokens / seconds:,.0f} tokens/s, {alone / seconds:.2f} of the engine's speed")


if __name__ == "__main__":
    main()
