"""`elmo tag`: entities, parts of speech or sentiment of text, with a ready-made tagger."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from elmokit.cli import training
from elmokit.cli.options import TOKENIZERS


def tag(
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT|FILE...", help="Text, or names of text files, also compressed; - is standard input."
        ),
    ] = None,
    kind: Annotated[
        Literal["ner", "pos", "upos", "sentiment"] | None,
        typer.Option(
            "--as",
            help="Entities, Penn Treebank or universal parts of speech, or sentiment [ner].",
        ),
    ] = None,
    tagger: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Tagger of your own: a folder of `elmo task pack`, or a run of `elmo task`."
        ),
    ] = None,
    output_format: Annotated[
        Literal["auto", "text", "json", "conll"],
        typer.Option(
            "--format",
            help="Text with colors, JSON lines, or CoNLL columns; auto is text on a terminal and JSON in a pipe.",
        ),
    ] = "auto",
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar=TOKENIZERS,
            help="Tokenizer; with spaces, every line is one sentence that is tokenized already [that of the model].",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="biLM of the tagger: folder, file, zip or name [the packaged model]."),
    ] = None,
    device: training.Device = None,
    threads: training.Threads = None,
) -> None:
    """Tag entities, parts of speech or sentiment, line by line, for example:

    \b
    elmo tag "Angela Merkel met Barack Obama in Berlin ."
    elmo tag --as upos news.txt.gz > news.jsonl
    cat news.txt | elmo tag --as pos --format conll
    """
    from rich.console import Console

    from elmokit.cli.task_options import set_threads
    from elmokit.errors import ConfigError
    from elmokit.tasks.tagged_output import colored, conll, require_tokens
    from elmokit.tasks.text_tagger import load_tagger

    if not texts and sys.stdin is not None and sys.stdin.isatty():
        raise ConfigError(
            'TEXT: expected a text or a file, as in elmo tag "Ada Lovelace lived in London .", found none'
        )
    shape = output_format
    if shape == "auto":
        shape = "text" if sys.stdout.isatty() else "json"
    if shape == "conll" and kind is not None:
        require_tokens(kind)
    set_threads(threads)
    loaded = load_tagger(tagger or kind or "ner", model=model, device=device)
    if kind is not None and loaded.kind != kind:
        raise ConfigError(f"--as: expected {loaded.kind}, as the tagger {tagger} is, found {kind}")
    if shape == "conll":
        require_tokens(loaded.kind)
    console = Console(soft_wrap=True, highlight=False)
    lines = _lines(texts or ["-"])
    interactive = "-" in (texts or ["-"]) and sys.stdin is not None and sys.stdin.isatty()
    results = (
        (result for line in lines for result in loaded.tag([line], tokenizer=tokenizer))  # an answer per line
        if interactive
        else loaded.stream(lines, tokenizer=tokenizer)
    )
    for result in results:
        if shape == "text":
            console.print(colored(loaded.kind, result))
        elif shape == "conll":
            typer.echo(conll(loaded.kind, result), nl=False)
        else:
            typer.echo(json.dumps(result, ensure_ascii=False))


def _lines(texts: list[str]) -> Iterator[str]:
    """The given texts, and the lines of the files among them; empty lines are left out."""
    from elmokit.text.lines import read_lines

    for text in texts:
        lines = read_lines(text) if text == "-" or _is_file(text) else iter([text])
        yield from (line for line in lines if line.strip())


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or a NUL in it
        return False
