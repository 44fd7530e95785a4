"""Index over token vectors: build speed relative to the engine alone, and query latency.

python benchmarks/index.py corpus.txt.xz --tokens 1000000    writes docs/results/index.json

Engine and builds take turns, each in a process of its own, and what is told is the median over the rounds. Let nothing
else run beside it. 10 minutes with the packaged model.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import results as files

from elmokit import weights
from elmokit.analysis.search.neighbors import make_query, search
from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
from elmokit.analysis.search.vector_index import VectorIndex, build_index
from elmokit.analysis.senses.polysemy import load_triples
from elmokit.analysis.shared.layers import View
from elmokit.embed.elmo import Elmo

AVERAGE = View("average", None)
Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def embed_alone(corpus: TokenizedCorpus, model: str | None) -> int:
    return sum(len(sentence.tokens) for sentence in Elmo.from_pretrained(model).embed(corpus, layers="average"))


def query_seconds(index: VectorIndex, elmo: Elmo, same_word: bool) -> float:
    """Median over the first ten words of the polysemy list, after one warm-up query each."""
    triples = load_triples()[:10]
    queries = [make_query(elmo, triple.same[0], triple.word, [AVERAGE], tokenizer="spaces") for triple in triples]
    found = [query for query in queries if len(index.sentences.rows(query.occurrence.word))]
    seconds = [timed(lambda query=query: search(index, elmo, query, 5, same_word=same_word))[1] for query in found * 2]
    return median(seconds[len(found) :])


def measure_engine(corpus: TokenizedCorpus, model: str | None) -> tuple[int, float]:
    """Number of tokens, and seconds to embed them."""
    return timed(lambda: embed_alone(corpus, model))


def measure_index(
    corpus: TokenizedCorpus, model: str | None, approximate: bool
) -> tuple[float, float, int, float, float]:
    """Build time, recall, number of probes, query time, and query time restricted to the same word."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "index"
        elmo = Elmo.from_pretrained(model)
        facts, seconds = timed(lambda: build_index(elmo, corpus, folder, view=AVERAGE, approximate=approximate))
        index = VectorIndex(folder)
        queries = (query_seconds(index, elmo, same_word) for same_word in (False, True))
        return seconds, facts.recall, facts.probes, *queries


def alone(work: Callable[..., Result], *arguments: object) -> Result:
    """Run in a separate process, like a command: threads of an earlier search would slow down the network."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="+")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model")
    parser.add_argument("-o", "--output", type=Path, metavar="JSON", help="by default docs/results/index.json")
    options = parser.parse_args()
    corpus = TokenizedCorpus(options.corpus, max_tokens=options.tokens)
    engine: list[tuple[int, float]] = []
    built: dict[str, list[tuple[float, float, int, float, float]]] = {"exact": [], "approximate": []}
    for number in range(options.rounds):
        engine.append(alone(measure_engine, corpus, options.model))
        for name, results in built.items():
            results.append(alone(measure_index, corpus, options.model, name == "approximate"))
        took = ", ".join(f"{name} {results[-1][0]:.1f}" for name, results in built.items())
        print(f"round {number + 1}, seconds: engine {engine[-1][1]:.1f}, {took}", flush=True)
    tokens = engine[0][0]
    rate = tokens / median(s for _, s in engine)
    numbers: dict[str, Any] = {"tokens": tokens, "engine_tokens_per_second": rate}
    print(f"engine alone        {tokens:,} tokens, {rate:,.0f} tokens/s")
    for name, results in built.items():
        ratio = median(own[1] / result[0] for own, result in zip(engine, results, strict=True))
        seconds, recall, probes, query, same = (median(column) for column in zip(*results, strict=True))
        print(f"{name:<12} build  {tokens / seconds:,.0f} tokens/s, {ratio:.2f} of the engine's speed")
        print(f"{'':<12} finds  {recall:.1%} of the ten nearest, with {probes:.0f} parts of a file looked at")
        print(f"{'':<12} query  {1000 * query:.1f} ms; of the same word alone, {1000 * same:.1f} ms")
        numbers[name] = {
            "tokens_per_second": tokens / seconds,
            "of_engine": ratio,
            "recall": recall,
            "query_ms": 1000 * query,
            "same_word_query_ms": 1000 * same,
        }
    model = weights.load(options.model)
    files.write("index", numbers, files=map(Path, options.corpus), model=model, output=options.output)


if __name__ == "__main__":
    main()
