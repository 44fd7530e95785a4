"""`elmo report`: results beside the paper's, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli.output import Overwrite


def report(
    inputs: Annotated[
        list[Path],
        typer.Argument(metavar="RESULT...", help="Results (.json), and folders of results, of runs, of `elmo ablate`."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="HTML", help="The page; Markdown and pictures go beside it.")
    ],
    model: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The model that the results are of, to tell its size and card."),
    ] = None,
    mixed: Annotated[bool, typer.Option("--mixed", help="Allow results of different models on one page.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Set results beside those of the paper, every table and figure of it, for example:

    elmo report wsd.json probe.json play.json ablate-snli less-snli weights.json runs/ -o report.html

    What is not given is called not measured. The page needs no other file; report.md has the same for Markdown, with
    pictures as files. Under each figure is the command that made it. Results of different models are refused, unless
    --mixed says that they belong on one page; each then names its model.
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
