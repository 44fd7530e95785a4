"""`elmo static`: vectors that a word has whatever its sentence, trained or loaded."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from elmokit.analysis.search.static_vectors import NearWord

static = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Vectors = Annotated[
    Path, typer.Argument(metavar="VECTORS", help="GloVe text, word2vec text or binary (.bin), also compressed.")
]
Many = Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many words.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON array.")]


@static.callback()
def _static() -> None:
    """Train static vectors (word2vec), and ask these or others for neighbors and analogies."""


@static.command(short_help="Train word2vec on a corpus.")
def train(
    corpus: Annotated[
        list[str], typer.Option(metavar="FILE", help="Text, also compressed; may be given several times.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="File to write: word2vec text, or binary if .bin.")
    ],
    algorithm: Annotated[
        Literal["cbow", "skipgram"],
        typer.Option(help="Guess a word from those around it, or those around it from the word."),
    ] = "cbow",
    dim: Annotated[int, typer.Option(metavar="N", min=1, help="Numbers of a vector.")] = 100,
    window: Annotated[int, typer.Option(metavar="N", min=1, help="Words on either side that count.")] = 5,
    min_count: Annotated[int, typer.Option(metavar="N", min=1, help="Leave out rarer words.")] = 5,
    negative: Annotated[int, typer.Option(metavar="N", min=1, help="Negative samples per word.")] = 5,
    sample: Annotated[
        float,
        typer.Option(metavar="X", min=0, help="Read words less often that are more than this part of the text; 0: no."),
    ] = 1e-3,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Passes over the corpus.")] = 5,
    lowercase: Annotated[bool, typer.Option("--lowercase", help="Words in lower case.")] = False,
    tokenizer: Annotated[
        str,
        typer.Option(metavar="spaces|words|han|spacy:xx", help="How lines become tokens; by default they are already."),
    ] = "spaces",
    seed: Annotated[int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="Random seed.")] = 1,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, max=4096, help="Threads; with more than one, no two runs are the same.")
    ] = 1,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Maximum number of corpus tokens [all].")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUT, which stays until the new one is complete.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only errors.")] = False,
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
    word: Annotated[str, typer.Argument(metavar="WORD", help="A word.")],
    k: Many = 10,
    as_json: AsJson = False,
) -> None:
    """Print the nearest words, for example: elmo static neighbors vectors.txt play"""
    from elmokit.analysis.search.static_vectors import load_static

    _print(load_static(vectors).neighbors(word, k), as_json)


@static.command(short_help="Print the words that complete an analogy.")
def analogy(
    vectors: Vectors,
    a: Annotated[str, typer.Argument(metavar="A", help="As king.")],
    b: Annotated[str, typer.Argument(metavar="B", help="As man.")],
    c: Annotated[str, typer.Argument(metavar="C", help="As woman.")],
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
