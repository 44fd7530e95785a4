"""`elmo compare`: a word in two sentences, layer by layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli.options import AsJson, ModelPath, ModelTokenizer, Overwrite


def compare(
    first: Annotated[str, typer.Argument(metavar="SENTENCE", help="First sentence.")],
    second: Annotated[str, typer.Argument(metavar="SENTENCE", help="Second sentence.")],
    word: Annotated[
        list[str],
        typer.Option(
            metavar="WORD", help="Token of both sentences; or two, one for each. WORD#2 is its second occurrence."
        ),
    ],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="Heat map of all pairs (.png, .svg, .pdf) or results (.json); repeatable.",
        ),
    ] = None,
    layer: Annotated[str, typer.Option(metavar="average|top|N", help="Layer shown in the heat map.")] = "average",
    vectors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Static vectors (GloVe or word2vec) to compare as well.")
    ] = None,
    model: ModelPath = None,
    tokenizer: ModelTokenizer = None,
    substring: Annotated[
        bool, typer.Option("--substring", help="Let WORD be a part of a token, such as 눈 of 눈이.")
    ] = False,
    as_json: AsJson = False,
    overwrite: Overwrite = False,
) -> None:
    """Compare a word in two sentences by the cosine of its vectors, in each layer and in their average, for example:

    \b
    elmo compare "I will buy you a present" "Live in the present , not the past" --word present -o heatmap.png
    elmo compare "I will buy you a present" "A gift from me" --word present --word gift

    Layer 0 does not see the sentence: for the same word its cosine is always 1.
    """
    from elmokit.analysis.search.static_vectors import load_static
    from elmokit.analysis.senses.word_similarity import compare as measure
    from elmokit.analysis.shared.layers import views
    from elmokit.analysis.shared.plots import check_picture, heat_map, save_picture
    from elmokit.analysis.shared.results import (
        Results,
        check_target,
        command_line,
        file_facts,
        model_facts,
        write_results,
    )
    from elmokit.cli.neighbors import bold
    from elmokit.embed.elmo import Elmo
    from elmokit.errors import ConfigError

    for path in output or []:
        (check_target if path.suffix == ".json" else check_picture)(path, overwrite=overwrite)
    elmo = Elmo.from_pretrained(model)
    (view, *more) = views(layer, elmo.config.n_vectors)
    if more or view.minus is not None:
        raise ConfigError(f"--layer: expected average, top or the number of one layer, found {layer!r}")
    result = measure(elmo, first, second, word, tokenizer=tokenizer or elmo.tokenizer, substring=substring)
    facts = result.to_json()
    if vectors is not None:
        static = load_static(vectors)
        facts["static"] = float(static.vector(result.first.word) @ static.vector(result.second.word))
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        typer.echo(result.first.marked(bold))
        typer.echo(result.second.marked(bold))
        for name, value in result.similarities.items():
            typer.echo(f"{name:<8} {value:6.3f}")
        if vectors is not None:
            typer.echo(f"{'static':<8} {facts['static']:6.3f}")
    for path in output or []:
        if path.suffix == ".json":
            data = file_facts([vectors] if vectors else [])
            results = Results("compare", command_line(), model_facts(elmo.model), data, facts)
            write_results(path, results, overwrite=overwrite)
        else:
            figure = heat_map(
                result.matrix(view.name),
                result.first.tokens,
                result.second.tokens,
                value_name="cosine",
                title=f"{view.name}: cosine of every pair",
                marked=(result.first.position, result.second.position),
            )
            save_picture(figure, path, overwrite=overwrite)
