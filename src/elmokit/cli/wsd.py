"""`elmo wsd`: how well the vectors of each layer tell word senses apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmokit.cli.options import InferenceDevice, ModelPath, Overwrite, Quiet
from elmokit.cli.output import print_table, results_table

if TYPE_CHECKING:
    from rich.table import Table

    from elmokit.analysis.senses.sense_scores import SenseReport


def wsd(
    train: Annotated[
        Path, typer.Option(metavar="XML", help="Training text with senses, such as semcor.data.xml; also compressed.")
    ],
    evaluate: Annotated[
        list[Path],
        typer.Option("--eval", metavar="XML|FOLDER", help="Test data, or a folder of it; repeatable."),
    ],
    model: ModelPath = None,
    wordnet: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="WordNet: folder or tar file [/usr/share/wordnet]."),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(
            metavar="all|0,1,2-1,top,average",
            help="Layers: all is every layer and their average; 2-1 is layer 2 minus layer 1.",
        ),
    ] = "all",
    train_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sense keys of --train [*.gold.key.txt next to it].")
    ] = None,
    eval_key: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Sense keys of --eval, in the same order [*.gold.key.txt next to each]."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="JSON", help="Also write the results to this file.")
    ] = None,
    overwrite: Overwrite = False,
    device: InferenceDevice = None,
    quiet: Quiet = False,
) -> None:
    """Disambiguate word senses by the nearest sense vector (Table 5 of the paper), for example:

    elmo wsd --train semcor.data.xml --eval Evaluation_Datasets -o wsd.json

    Data is in the unified format of Raganato et al. 2017. The vector of a sense is the mean of its occurrences in
    --train; the vector of a word of several tokens is their mean. Lemmas that are not in --train get WordNet's first
    sense, which is also the baseline. ALL is the union of all data sets; test is all but semeval2007, as in the paper.
    """

    from elmokit.analysis.senses.sense_corpus import find_corpora, read_corpus
    from elmokit.analysis.senses.sense_scores import evaluate_senses
    from elmokit.analysis.senses.wordnet import read_wordnet
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
    from elmokit.errors import ConfigError

    if output is not None:
        check_target(output, overwrite=overwrite)
    elmo = Elmo.from_pretrained(model, device=device)
    chosen = views(layers, elmo.config.n_vectors)
    files = find_corpora(evaluate)
    if eval_key and len(eval_key) != len(files):
        raise ConfigError(f"--eval-key: expected {len(files)}, one for each data set of --eval, found {len(eval_key)}")
    senses = read_wordnet(wordnet)
    keys: list[Path | None] = [*eval_key] if eval_key else [None] * len(files)
    sets = [read_corpus(path, key) for path, key in zip(files, keys, strict=True)]
    training = read_corpus(train, train_key)
    with watch(quiet=quiet) as progress:
        report = evaluate_senses(elmo, training, sets, senses, chosen, progress)
    print_table(_table(report))
    for line in _notes(report):
        typer.echo(line, err=True)
    if output is not None:
        data = file_facts([*(path for corpus in (training, *sets) for path in corpus.files), *senses.files])
        results = Results("wsd", command_line(), model_facts(elmo.model), data, report.to_json())
        write_results(output, results, overwrite=overwrite)


def _table(report: SenseReport) -> Table:

    from elmokit.analysis.senses.sense_scores import ALL

    sets = next(iter(report.scores.values()))
    parts = [pos for pos in sets[report.main] if pos != ALL]
    table = results_table("", *sets, *parts, title="F1", caption=f"parts of speech: of {report.main}")
    for system, scores in report.scores.items():
        cells = [scores[name][ALL] for name in sets] + [scores[report.main][pos] for pos in parts]
        table.add_row(system, *(f"{cell.f1:.1f}" for cell in cells))
    return table


def _notes(report: SenseReport) -> list[str]:
    """Notes on the figures."""
    notes = [
        f"{report.tokens:,} tokens at {report.tokens_per_second:,.0f} tokens/s; {report.training_senses:,} senses;"
        f" {report.backed_off:,} of {report.instances:,} instances have a lemma that --train lacks: first sense"
    ]
    if report.unanswered:
        notes.append(f"note: {report.unanswered:,} instances have a lemma that WordNet lacks, too: no answer")
    if report.not_in_wordnet:
        notes.append(
            f"note: {report.not_in_wordnet:,} instances have no gold sense that this WordNet has; the published data"
            " sets are for version 3.0"
        )
    return notes
