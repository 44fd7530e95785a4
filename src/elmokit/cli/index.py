"""`elmo index`: the token vectors of a corpus, stored so that a search takes milliseconds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli.options import (
    AsJson,
    InferenceDevice,
    MaxTokens,
    ModelCorpusTokenizer,
    ModelPath,
    ModelTokenizer,
    Quiet,
)
from elmokit.config import IndependentState

index = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@index.callback()
def _index() -> None:
    """Build and search an index over the token vectors of a corpus."""


@index.command(short_help="Embed a corpus into a folder that can be searched.")
def build(
    corpus: Annotated[
        list[str],
        typer.Option(
            metavar="FILE", help="Text, one sentence per line; also compressed; repeatable; - is standard input."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="INDEX", help="Folder to write.")],
    model: ModelPath = None,
    layer: Annotated[
        str,
        typer.Option("--layer", metavar="average|top|N", help="Layer of the vectors, or the average of all."),
    ] = "average",
    state: Annotated[
        IndependentState | None,
        typer.Option(help="Initial LSTM state of a sentence: zero, or one fixed warm state [that of the model]."),
    ] = None,
    tokenizer: ModelCorpusTokenizer = None,
    max_tokens: MaxTokens = None,
    approximate: Annotated[
        bool,
        typer.Option(
            "--approximate",
            help="Search a part of the vectors only, for tens of millions of them; the recall is measured and printed "
            "[exact search].",
        ),
    ] = False,
    device: InferenceDevice = None,
    quiet: Quiet = False,
) -> None:
    """Embed a corpus into a folder that can be searched, for example:

    elmo index build --corpus corpus.txt.xz -o corpus.index

    Each vector is stored at half precision: two bytes per dimension. The folder appears when it is complete, and
    records its model, layer and state.
    """
    from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
    from elmokit.analysis.search.vector_index import build_index
    from elmokit.analysis.shared.layers import views
    from elmokit.cli.progress import watch
    from elmokit.embed.elmo import Elmo
    from elmokit.errors import ConfigError

    text = TokenizedCorpus(corpus, tokenizer=tokenizer or "spaces", max_tokens=max_tokens)
    elmo = Elmo.from_pretrained(model, state=state, device=device)  # after the corpus: it may be missing
    text.use(tokenizer or elmo.config.corpus_tokenizer)
    chosen = views(layer, elmo.config.n_vectors)
    if len(chosen) > 1 or chosen[0].minus is not None:
        raise ConfigError(f"--layer: expected average, top or the number of one layer, found {layer!r}")
    if model is not None and Path(model).exists():
        model = str(Path(model).absolute())  # as a search may be asked for elsewhere
    started = time.monotonic()
    with watch(quiet=quiet) as progress:
        facts = build_index(elmo, text, output, view=chosen[0], model=model, approximate=approximate, progress=progress)
    if not quiet:
        seconds = time.monotonic() - started
        kind = "exact"
        if facts.approximate:
            kind = f"approximate, finds {facts.recall:.1%} of the ten nearest"
        typer.echo(
            f"{output}: {facts.sentences:,} sentences, {facts.tokens:,} tokens, {facts.view.name}, {kind}; in "
            f"{seconds:.1f} s ({facts.tokens / max(seconds, 1e-9):,.0f} tokens/s)",
            err=True,
        )


@index.command(short_help="Find the nearest neighbors of a word in its sentence.")
def search(
    folder: Annotated[Path, typer.Argument(metavar="INDEX", help="Folder made by `elmo index build`.")],
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="Sentence that contains the word.")],
    word: Annotated[str, typer.Option(metavar="WORD", help="Token of the sentence; WORD#2 is its second occurrence.")],
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of neighbors.")] = 5,
    same_word: Annotated[
        bool, typer.Option("--same-word", help="Find only occurrences of the same word [any token].")
    ] = False,
    substring: Annotated[
        bool, typer.Option("--substring", help="Let WORD be a part of a token, such as 눈 of 눈이.")
    ] = False,
    vectors: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Static vectors (GloVe or word2vec) whose neighbors are shown as well."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Model of the index, if it has moved since [the one at build time]."),
    ] = None,
    tokenizer: ModelTokenizer = None,
    as_json: AsJson = False,
) -> None:
    """Find the nearest neighbors of a word in its sentence, as `elmo neighbors --index` does, for example:

    elmo index search corpus.index "The actor was praised in the play ." --word play
    """
    from elmokit.cli.neighbors import near_words, report, search_index

    found, elmo = search_index(folder, sentence, word, None, k, same_word, model, tokenizer, substring=substring)
    static = near_words(vectors, found.query.occurrence.word, k)
    report(found, elmo, [], folder, vectors, static, output=None, overwrite=False, as_json=as_json)
