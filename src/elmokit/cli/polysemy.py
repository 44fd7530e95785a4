"""`elmo polysemy`: whether a model tells the senses of a word apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli.options import AsJson, ModelPath, Overwrite


def polysemy(
    model: ModelPath = None,
    triples: Annotated[
        Path | None,
        typer.Option(
            metavar="JSON",
            help="Triples to judge [the packaged ones]: a list of "
            "{word, sense, other_sense, same: [SENTENCE, SENTENCE], other: SENTENCE}.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="JSON", help="Also write the results to this file.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Judge whether a model separates word senses, for example: elmo polysemy --model run/

    Each triple has two sentences with one sense of a word, and one with another sense. The three numbers are cosines:
    between the two occurrences of the same sense, and between each of them and the third. A triple is right (+) if the
    first is the largest; the second sign is the same for Euclidean distances. Layer 0 does not see the sentence: its
    three cosines are equal, so it is never right.
    """
    from dataclasses import asdict

    from elmokit.analysis.senses.polysemy import judge, load_triples
    from elmokit.analysis.shared.layers import views
    from elmokit.analysis.shared.results import (
        Results,
        check_target,
        command_line,
        file_facts,
        model_facts,
        write_results,
    )
    from elmokit.embed.elmo import Elmo

    if output is not None:
        check_target(output, overwrite=overwrite)
    chosen_triples = load_triples(triples)
    elmo = Elmo.from_pretrained(model)
    *layers, average = views("all", elmo.config.n_vectors)
    chosen = [average, *layers]
    judged = judge(elmo, chosen_triples, chosen)
    right = {view.name: sum(views[view.name].right for views in judged) for view in chosen}
    by_distance = {view.name: sum(views[view.name].right_by_distance for views in judged) for view in chosen}
    facts = {
        "triples": [
            asdict(triple) | {"views": {name: asdict(one) for name, one in views.items()}}
            for triple, views in zip(chosen_triples, judged, strict=True)
        ],
        "right": right,
        "right_by_distance": by_distance,
    }
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
    else:
        width = max(11, *(len(triple.word) for triple in chosen_triples))
        typer.echo(f"{'':<{width}}" + "".join(f"  {view.name:<20}" for view in chosen).rstrip())
        for triple, views_of in zip(chosen_triples, judged, strict=True):
            cells = "".join(
                f"  {one.same:5.2f} {one.first_other:5.2f} {one.second_other:5.2f} "
                f"{_sign(one.right)}{_sign(one.right_by_distance)}"
                for one in views_of.values()
            )
            typer.echo(f"{triple.word:<{width}}{cells}".rstrip())
        for name, counts in (("by cosine", right), ("by distance", by_distance)):
            totals = "".join(f"  {f'{counts[view.name]} of {len(judged)}':<20}" for view in chosen)
            typer.echo(f"{name:<{width}}{totals}".rstrip())
    if output is not None:
        data = file_facts([triples] if triples else [])
        results = Results("polysemy", command_line(), model_facts(elmo.model), data, facts)
        write_results(output, results, overwrite=overwrite)


def _sign(right: bool) -> str:
    return "+" if right else "-"
