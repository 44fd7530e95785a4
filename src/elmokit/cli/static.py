"""`elmo static`: static word vectors, trained or loaded."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmokit.cli.options import CorpusTokenizer, MaxTokens, Quiet

if TYPE_CHECKING:
    from elmokit.analysis.search.static_vectors import NearWord

static = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Vectors = Annotated[
    Path, typer.Argument(metavar="VECTORS", help="GloVe text, word2vec text or binary (.bin), also compressed.")
]
Many = Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of words.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON array.")]


@static.callback()
def _static() -> None:
    """Train static vectors (word2vec), and find neighbors and analogies in these or others."""


@static.command(short_help="Train word2vec on a corpus.")
def train(
    corpus: Annotated[
        list[str], typer.Option(metavar="FILE", help="Text, one sentence per line; also compressed; repeatable.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="File to write: word2vec text, or binary if .bin.")
    ],
    algorithm: Annotated[
        Literal["cbow", "skipgram"],
        typer.Option(help="Predict a word from its context (cbow), or its context from the word (skipgram)."),
    ] = "cbow",
    dim: Annotated[int, typer.Option(metavar="N", min=1, help="Dimension of the vectors.")] = 100,
    window: Annotated[int, typer.Option(metavar="N", min=1, help="Context words on each side.")] = 5,
    min_count: Annotated[int, typer.Option(metavar="N", min=1, help="Minimum number of occurrences of a word.")] = 5,
    negative: Annotated[int, typer.Option(metavar="N", min=1, help="Negative samples per word.")] = 5,
    sample: Annotated[
        float,
        typer.Option(
            metavar="X", min=0, help="Threshold of subsampling frequent words, as a fraction of the text; 0 for none."
        ),
    ] = 1e-3,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Epochs over the corpus.")] = 5,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Convert words to lower case.")] = False,
    tokenizer: CorpusTokenizer = "spaces",
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Random seed.")] = 1,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, max=4096, help="Threads; with more than one, runs are not reproducible.")
    ] = 1,
    max_tokens: MaxTokens = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT once the new file is complete.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train word2vec on a corpus, for example:

    elmo static train --corpus corpus.txt -o vectors.txt --algorithm skipgram
    """
    from elmokit.analysis.search.static_vectors import train as fit
    from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
    from elmokit.cli.progress import watch

    text = TokenizedCorpus(corpus, tokenizer=tokenizer, max_tokens=max_tokens)
    started = time.monotonic()
    with watch(quiet=quiet) as progress:
        words = fit(
            text,
            output,
            algorithm=algorithm,
            dim=dim,
            window=window,
            min_count=min_count,
            negative=negative,
            sample=sample,
            epochs=epochs,
            seed=seed,
            workers=workers,
            lowercase=lowercase,
            overwrite=overwrite,
            progress=progress,
        )
    if not quiet:
        typer.echo(f"{output}: {words:,} words of {dim}, {algorithm}, in {time.monotonic() - started:.1f} s", err=True)


@static.command(short_help="Print the nearest words.")
def neighbors(
    vectors: Vectors,
    word: Annotated[str, typer.Argument(metavar="WORD", help="Word to look up.")],
    k: Many = 10,
    as_json: AsJson = False,
) -> None:
    """Print the nearest words, for example: elmo static neighbors vectors.txt play"""
    from elmokit.analysis.search.static_vectors import load_static

    _print(load_static(vectors).neighbors(word, k), as_json)


@static.command(short_help="Print the words that complete an analogy.")
def analogy(
    vectors: Vectors,
    a: Annotated[str, typer.Argument(metavar="A", help="Word to add, such as king.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Word to subtract, such as man.")],
    c: Annotated[str, typer.Argument(metavar="C", help="Word to add, such as woman.")],
    k: Many = 10,
    as_json: AsJson = False,
) -> None:
    """Print the words nearest to A - B + C, for example: elmo static analogy vectors.txt king man woman"""
    from elmokit.analysis.search.static_vectors import load_static

    _print(load_static(vectors).analogy(a, b, c, k), as_json)


def _print(words: list[NearWord], as_json: bool) -> None:
    from dataclasses import asdict

    if as_json:
        typer.echo(json.dumps([asdict(word) for word in words], ensure_ascii=False, indent=2))
        return
    for near in words:
        typer.echo(f"{near.similarity:.3f}  {near.word}")
