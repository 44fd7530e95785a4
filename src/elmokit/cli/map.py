"""`elmo map`: the occurrences of a word on a plane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from elmokit.cli.options import AsJson, ModelPath, ModelTokenizer, Overwrite


def map_word(
    word: Annotated[str, typer.Argument(metavar="WORD", help="Word whose occurrences are drawn; case is ignored.")],
    corpus: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Sentences, one per line; or sense and sentence, separated by a tab."),
    ],
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", metavar="OUT", help="Map (.png, .svg, .pdf) or results (.json); repeatable."),
    ] = None,
    layer: Annotated[str, typer.Option(metavar="average|top|N", help="Layer whose vectors are drawn.")] = "average",
    method: Annotated[Literal["pca", "umap"], typer.Option(help="Projection; umap needs umap-learn.")] = "pca",
    model: ModelPath = None,
    tokenizer: ModelTokenizer = None,
    as_json: AsJson = False,
    overwrite: Overwrite = False,
) -> None:
    """Draw the occurrences of a word as points, colored by sense where the text has senses, for example:

    \b
    elmo map bank --corpus examples/senses.txt -o bank.svg

    The nearest occurrence of each is that with the highest cosine in all dimensions, of which the picture shows two.
    """
    from elmokit.analysis.senses.word_map import draw_map, make_map, read_occurrences
    from elmokit.analysis.shared.layers import views
    from elmokit.analysis.shared.plots import check_picture, save_picture
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
    from elmokit.text.lines import read_lines
    from elmokit.text.tokenizer import get_tokenizer

    for path in output or []:
        (check_target if path.suffix == ".json" else check_picture)(path, overwrite=overwrite)
    elmo = Elmo.from_pretrained(model)
    (view, *more) = views(layer, elmo.config.n_vectors)
    if more or view.minus is not None:
        raise ConfigError(f"--layer: expected average, top or the number of one layer, found {layer!r}")
    occurrences = read_occurrences(read_lines(corpus), word, get_tokenizer(tokenizer or elmo.tokenizer))
    drawn = make_map(elmo, word, occurrences, view, method)
    facts = drawn.to_json()
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        for k, near in enumerate(drawn.nearest):
            sense = f"{drawn.senses[k]}: " if drawn.senses[k] else ""
            typer.echo(f"{sense}{drawn.occurrences[k].marked(bold)}")
            typer.echo(f"    nearest: {drawn.occurrences[near].marked(bold)}")
        if drawn.same_sense is not None:
            typer.echo(
                f"{drawn.same_sense} of {len(drawn.senses)} have the sense of their nearest occurrence; "
                f"by chance it would be {drawn.by_chance:.0f}"
            )
    for path in output or []:
        if path.suffix == ".json":
            results = Results("map", command_line(), model_facts(elmo.model), file_facts([corpus]), facts)
            write_results(path, results, overwrite=overwrite)
        else:
            save_picture(draw_map(facts), path, overwrite=overwrite)
