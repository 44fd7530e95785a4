"""`elmo neighbors`: the occurrences of a corpus that are nearest to a word in its sentence."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmokit.cli.options import TOKENIZERS, AsJson, MaxTokens, Overwrite, Quiet

if TYPE_CHECKING:
    from elmokit.analysis.search.neighbors import FoundNeighbors
    from elmokit.analysis.search.static_vectors import NearWord


def neighbors(
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="Sentence that contains the word.")],
    word: Annotated[str, typer.Option(metavar="WORD", help="Token of the sentence; WORD#2 is its second occurrence.")],
    corpus: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Text to search, one sentence per line; also compressed; repeatable."),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Index made by `elmo index build`, instead of --corpus.")
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            "--layer",
            "--layers",
            metavar="average|top|0,1|all",
            help="Layers; all is every layer and their average [average, or that of the index].",
        ),
    ] = None,
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
        typer.Option(
            metavar="PATH", help="Model: folder, file, zip or name [that of the index, or the packaged model]."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar=TOKENIZERS,
            help="Tokenizer [sentence: that of the model; corpus: spaces, or the han or spacy:xx of the model].",
        ),
    ] = None,
    max_tokens: MaxTokens = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="JSON", help="Also write the results to this file.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the nearest neighbors of a word in its sentence (Table 4 of the paper), for example:

    elmo neighbors --corpus corpus.txt.xz "The actor was praised in the play ." --word play

    Every token of the corpus is a candidate, as in the paper: the nearest are mostly the same word in the same sense,
    followed by words that could replace it. --same-word keeps the former only. Sentences equal to the given one are
    excluded, and equal occurrences are shown once. The corpus is embedded each time; `elmo index build` does it once.
    """
    from elmokit.analysis.search.neighbors import make_query, scan
    from elmokit.analysis.search.tokenized_corpus import TokenizedCorpus
    from elmokit.analysis.shared.layers import views
    from elmokit.analysis.shared.results import check_target
    from elmokit.cli.progress import watch
    from elmokit.embed.elmo import Elmo
    from elmokit.errors import ConfigError

    if (index is None) == (not corpus):
        raise ConfigError("expected --corpus or --index, found both" if corpus else "expected --corpus or --index")
    if output is not None:
        check_target(output, overwrite=overwrite)
    if index is not None:
        if max_tokens is not None:
            raise ConfigError("--max-tokens: expected --corpus, found --index, whose size is fixed")
        found, elmo = search_index(index, sentence, word, layer, k, same_word, model, tokenizer, substring=substring)
        static = near_words(vectors, found.query.occurrence.word, k)
    else:
        text = TokenizedCorpus(corpus or [], tokenizer=tokenizer or "spaces", max_tokens=max_tokens)
        elmo = Elmo.from_pretrained(model)  # after the corpus: it may be missing
        text.use(tokenizer or elmo.config.corpus_tokenizer)
        chosen = views(layer or "average", elmo.config.n_vectors)
        query = make_query(elmo, sentence, word, chosen, tokenizer=tokenizer or elmo.tokenizer, substring=substring)
        static = near_words(vectors, query.occurrence.word, k)  # before the corpus is read: it may have no such word
        with watch(quiet=quiet) as progress:
            found = scan(elmo, query, text, k, same_word=same_word, progress=progress)
    report(found, elmo, corpus or [], index, vectors, static, output=output, overwrite=overwrite, as_json=as_json)


def search_index(
    folder: Path,
    sentence: str,
    word: str,
    layer: str | None,
    k: int,
    same_word: bool,
    model: str | None,
    tokenizer: str | None,
    *,
    substring: bool = False,
) -> tuple[FoundNeighbors, Any]:
    """Load an index, and its model or the given one, and search for the word."""
    from elmokit.analysis.search.neighbors import make_query, search
    from elmokit.analysis.search.vector_index import VectorIndex
    from elmokit.analysis.shared.layers import views
    from elmokit.embed.elmo import Elmo

    opened = VectorIndex(folder)
    elmo = Elmo.from_pretrained(model or opened.facts.model, state=opened.facts.state)
    opened.require_model(elmo)
    chosen = [opened.facts.view] if layer is None else views(layer, elmo.config.n_vectors)
    query = make_query(elmo, sentence, word, chosen, tokenizer=tokenizer or elmo.tokenizer, substring=substring)
    return search(opened, elmo, query, k, same_word=same_word), elmo


def near_words(vectors: Path | None, word: str, k: int) -> list[NearWord]:
    """The static neighbors of a word, if a file of vectors was given."""
    from elmokit.analysis.search.static_vectors import load_static

    return load_static(vectors).neighbors(word, k) if vectors else []


def report(
    found: FoundNeighbors,
    elmo: Any,
    corpus: list[str],
    index: Path | None,
    vectors: Path | None,
    static: list[NearWord],
    *,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Print the results, and write them to `output` if given."""
    from dataclasses import asdict

    from elmokit.analysis.shared.results import Results, command_line, file_facts, model_facts, write_results

    facts = found.to_json() | ({"static": [asdict(near) for near in static]} if vectors else {})
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        _print(found, static, vectors)
    if output is not None:
        files = [Path(path) for path in corpus if path != "-"] + ([index / "index.json"] if index else [])
        data = file_facts(files + ([vectors] if vectors else []))
        results = Results("neighbors", command_line(), model_facts(elmo.model), data, facts)
        write_results(output, results, overwrite=overwrite)


def bold(word: str) -> str:
    """Mark a word: bold on a terminal, **so** elsewhere."""
    return typer.style(word, bold=True) if sys.stdout.isatty() else f"**{word}**"


def _print(found: FoundNeighbors, static: list[NearWord], vectors: Path | None) -> None:
    word = found.query.occurrence.word
    count = f"{found.occurrences:,} times" if found.occurrences != 1 else "once"
    typer.echo(found.query.occurrence.marked(bold))
    typer.echo(f"{word!r} occurs {count} among {found.tokens:,} tokens of {found.sentences:,} sentences")
    for view, nearest in zip(found.query.views, found.neighbors, strict=True):
        typer.echo(f"\n{view.name}")
        for near in nearest:
            typer.echo(f"  {near.similarity:.3f}  {near.occurrence.marked(bold)}")
    if vectors is not None:
        typer.echo(f"\nstatic, in any sentence: {vectors.name}")
        for other in static:
            typer.echo(f"  {other.similarity:.3f}  {other.word}")
