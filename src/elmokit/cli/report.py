"""`elmo report`: results beside the paper's, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli.options import Overwrite


def report(
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT...", help="Results (.json), and folders of results, of task runs or of `elmo ablate`."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="HTML", help="HTML page to write; Markdown and figures go next to it."),
    ],
    model: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Model of the results, to include its size and card."),
    ] = None,
    mixed: Annotated[bool, typer.Option("--mixed", help="Allow results of different models on one page.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Compare results with every table and figure of the paper, for example:

    elmo report wsd.json probe.json play.json ablate-snli less-snli weights.json runs/ -o report.html

    Missing results are marked as not measured. The page needs no other file; report.md has the same as Markdown, with
    figures as files. Every result has the command that made it. Results of different models are rejected, unless
    --mixed allows them; each then names its model.
    """
    from elmokit import weights
    from elmokit.analysis.report.full_report import check_page, make_page, write_page
    from elmokit.analysis.report.report_inputs import gather
    from elmokit.cli.task_options import warnings
    from elmokit.errors import ConfigError

    check_page(output, overwrite=overwrite)
    with warnings():
        gathered = gather(inputs, mixed=mixed)
    models = gathered.models()
    loaded = weights.load(model) if models or model else None
    if model is not None and loaded is not None and loaded.fingerprint not in models:
        raise ConfigError(f"--model: expected the model of the results, found another ({loaded.fingerprint[:12]})")
    for path in write_page(make_page(gathered, loaded), output, overwrite=overwrite):
        typer.echo(str(path))
