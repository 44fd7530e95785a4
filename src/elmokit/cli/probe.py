"""`elmo probe`: what a linear classifier reads off the vectors of each layer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmokit.cli.options import InferenceDevice, ModelPath, Overwrite, Quiet
from elmokit.cli.output import print_table, results_table

if TYPE_CHECKING:
    from rich.table import Table

    from elmokit.analysis.probe.probe_run import ProbeReport


def probe(
    train: Annotated[
        Path, typer.Option(metavar="FILE", help="Training data: CoNLL-U (.conllu) or CoNLL columns; also compressed.")
    ],
    test: Annotated[Path, typer.Option(metavar="FILE", help="Test data in the same format.")],
    column: Annotated[
        str,
        typer.Option(
            metavar="NAME|NUMBER", help="Column of the tags: upos, xpos, deprel, ... of CoNLL-U, or its number from 1."
        ),
    ] = "upos",
    word_column: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="Column of the words [2 in CoNLL-U, else 1].")
    ] = None,
    model: ModelPath = None,
    layers: Annotated[
        str,
        typer.Option(
            metavar="all|0,1,2-1,top,average",
            help="Layers: all is every layer and their average; 2-1 is layer 2 minus layer 1.",
        ),
    ] = "all",
    control: Annotated[
        bool, typer.Option("--control", help="Also probe a model of the same shape with random weights.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="JSON", help="Also write the results to this file.")
    ] = None,
    overwrite: Overwrite = False,
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Epochs over the training data.")] = 10,
    batch_size: Annotated[int, typer.Option(metavar="N", min=1, help="Tokens per batch.")] = 256,
    learning_rate: Annotated[
        float, typer.Option(metavar="RATE", help="Initial learning rate of Adam; it decays to zero.")
    ] = 0.005,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Random seed of the token order and of the weights of --control.")
    ] = 1,
    device: InferenceDevice = None,
    quiet: Quiet = False,
) -> None:
    """Probe the layers for syntax with a linear classifier (Table 6 of the paper), for example:

    elmo probe --train en-train.conllu --test en-test.conllu --column xpos --control -o probe.json

    The vectors are frozen. Scores are accuracies in percent; the baseline gives every word its most frequent tag. Any
    column of tags can be probed, such as --column 3 for the chunks of CoNLL-2000.
    """

    from elmokit.analysis.probe.probe_fit import ProbeSettings
    from elmokit.analysis.probe.probe_run import probe as run
    from elmokit.analysis.shared.layers import views
    from elmokit.analysis.shared.results import (
        Results,
        check_target,
        command_line,
        file_facts,
        model_facts,
        write_results,
    )
    from elmokit.cli.progress import watch
    from elmokit.embed.elmo import Elmo
    from elmokit.text.tagged_text import read_tagged

    if output is not None:
        check_target(output, overwrite=overwrite)
    settings = ProbeSettings(epochs, batch_size, learning_rate, seed)
    texts = read_tagged(train, column, word_column), read_tagged(test, column, word_column)
    elmo = Elmo.from_pretrained(model, device=device)
    chosen = views(layers, elmo.config.n_vectors)
    with watch(quiet=quiet) as progress:
        report = run(elmo, *texts, chosen, settings=settings, control=control, progress=progress)
    print_table(_table(report))
    for line in _notes(report):
        typer.echo(line, err=True)
    if output is not None:
        numbers = {"column": column, **report.to_json()}
        write_results(
            output,
            Results(
                "probe", command_line(), model_facts(elmo.model), file_facts([train, test]), numbers, seeds=(seed,)
            ),
            overwrite=overwrite,
        )


def _table(report: ProbeReport) -> Table:
    control = () if report.control is None else ("random weights, %",)
    table = results_table("", "accuracy, %", *control)
    table.add_row("most frequent tag of the word", f"{report.majority:.2f}")
    for name, accuracy in report.accuracy.items():
        table.add_row(name, f"{accuracy:.2f}", *([f"{report.control[name]:.2f}"] if report.control is not None else []))
    return table


def _notes(report: ProbeReport) -> list[str]:
    """Notes on the figures."""
    notes = [
        f"{report.training_tokens:,} tokens with {report.n_tags} tags to learn from, {report.test_tokens:,} to test on,"
        f" {report.unknown_words:.1f}% of them unknown words; embedded at {report.tokens_per_second:,.0f} tokens/s"
    ]
    if report.unseen_tags:
        tags = ", ".join(f"{tag} ({count:,})" for tag, count in sorted(report.unseen_tags.items()))
        notes.append(f"note: tags that --train does not have, counted as errors: {tags}")
    return notes
