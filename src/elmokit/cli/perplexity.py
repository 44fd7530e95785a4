"""`elmo perplexity`: how well a model predicts a text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmokit.cli import training
from elmokit.cli.options import AsJson, ModelCorpusTokenizer, Overwrite, Quiet

if TYPE_CHECKING:
    from elmokit.pretrain.perplexity import Perplexity


def perplexity(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model with a softmax: folder, file, zip or name.")],
    inputs: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Text files, also .gz, .xz, .bz2, .zst; - is standard input.")
    ],
    tokenizer: ModelCorpusTokenizer = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Smaller vocabulary to score with, one word per line; all other words count as unknown. For "
            "comparing models with different vocabularies [that of the model].",
        ),
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="Evaluate as the published program: 256 rows that carry their state from sentence to sentence; the "
            "result is the geometric mean of both directions [zero state per sentence].",
        ),
    ] = False,
    encoding_errors: Annotated[
        Literal["strict", "replace", "ignore"], typer.Option(help="Handling of bytes that are not UTF-8.")
    ] = "strict",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="JSON", help="Also write the results to this file.")
    ] = None,
    overwrite: Overwrite = False,
    device: training.Device = None,
    threads: training.Threads = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute the perplexity of a model on text, for example: elmo perplexity run/ test.txt

    One sentence per line. Every token counts, words outside the vocabulary as <UNK>, as does the mark at the end of
    each sentence (forward) or at its start (backward). The softmax is over the whole vocabulary of the model.
    """
    import torch

    from elmokit import weights
    from elmokit.analysis.shared.results import (
        Results,
        check_target,
        command_line,
        file_facts,
        model_facts,
        write_results,
    )
    from elmokit.cli.progress import watch
    from elmokit.embed.embed_files import Progress
    from elmokit.embed.source import TextSource
    from elmokit.pretrain.distributed import choose_device
    from elmokit.pretrain.perplexity import perplexity as measure
    from elmokit.text.vocabulary import Vocabulary

    if output is not None:
        check_target(output, overwrite=overwrite)
    if threads is not None:
        torch.set_num_threads(threads)
    source = TextSource(inputs, encoding_errors=encoding_errors)
    words = None if vocabulary is None else Vocabulary.from_file(vocabulary).words
    loaded = weights.load(model)
    loaded.bilm.to(choose_device(device))
    n_read = 0  # sentences: some wait to be put into batches

    def lines() -> Iterator[str]:
        nonlocal n_read
        for n_read, line in enumerate(source, start=1):  # noqa: B007 (shown below)
            yield line.text

    with watch(quiet=quiet) as show:
        result = measure(
            loaded,
            lines(),
            tokenizer=tokenizer or loaded.config.corpus_tokenizer,
            state="carry" if published else "reset",
            words=words,
            progress=lambda sentences, tokens: show(
                Progress(
                    sentences,
                    tokens,
                    bytes_read=source.bytes_read * sentences // n_read,
                    bytes_total=source.bytes_total,
                )
            ),
        )
    facts = {
        "forward": result.forward,
        "backward": result.backward,
        "mean": result.mean,
        "geometric_mean": result.geometric_mean,
        "tokens": result.tokens,
        "sentences": result.sentences,
        "out_of_vocabulary": result.out_of_vocabulary,
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
    else:
        _print(result)
    if output is not None:
        data = file_facts(path for path in inputs if path != "-")
        numbers = {**facts, "published": published, "vocabulary": len(words or loaded.vocabulary or ())}
        results = Results("perplexity", command_line(), model_facts(loaded), data, numbers)
        write_results(output, results, overwrite=overwrite)


def _print(result: Perplexity) -> None:
    for name, value in (
        ("forward", f"{result.forward:.2f}"),
        ("backward", f"{result.backward:.2f}"),
        ("mean", f"{result.mean:.2f}"),
        ("geometric mean", f"{result.geometric_mean:.2f}"),
        ("tokens", f"{result.tokens:,}, of which {result.sentences:,} ends of sentences"),
        ("unknown", f"{result.out_of_vocabulary:.2%} of the words"),
    ):
        typer.echo(f"{name:<15} {value}")
