"""`elmo task weights`: which layers the tasks chose."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli.options import Overwrite
from elmokit.cli.output import print_table, results_table


def weights(
    folders: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders that contain runs.")
    ],
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "-o", "--output", metavar="OUT", help="Heat map (.png, .svg, .pdf) or results (.json); repeatable."
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Show the learned weights of the layers, after the softmax (Figure 2 of the paper), for example:

    elmo task weights runs/snli runs/srl -o weights.png -o weights.json

    One line per task and place; runs that differ only in the seed are averaged. Runs without ELMo, or with its top
    layer only, have no weights and are skipped.
    """
    from elmokit.analysis.shared.plots import check_picture, save_picture
    from elmokit.analysis.shared.results import Results, check_target, command_line, write_results
    from elmokit.analysis.studies.layer_weights import layer_weights, weights_map
    from elmokit.cli.task_options import warnings

    for path in output or []:
        (check_target if path.suffix == ".json" else check_picture)(path, overwrite=overwrite)
    with warnings():
        facts, model = layer_weights(folders)
    n_layers = len(facts["rows"][0]["weights"])
    table = results_table("", *(f"layer {j}" for j in range(n_layers)), "gamma", "runs")
    for row in facts["rows"]:
        table.add_row(
            row["name"], *(f"{weight:.2f}" for weight in row["weights"]), f"{row['gamma']:.2f}", str(len(row["runs"]))
        )
    print_table(table)
    for path in output or []:
        if path.suffix == ".json":
            write_results(path, Results("weights", command_line(), model, (), facts), overwrite=overwrite)
        else:
            save_picture(weights_map(facts), path, overwrite=overwrite)
