"""`elmo task pack`: a run as a tagger folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def pack(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a complete run of ner, pos, upos or sst.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Tagger folder to write.")],
    about: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Markdown on data and licenses, for the card (README.md).")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing tagger folder when the new one is complete.")
    ] = False,
) -> None:
    """Pack a run as a tagger for `elmo tag`, for example: elmo task pack runs/ner -o taggers/ner

    The folder has the labels, the weights at half precision, the scores and a card. The biLM is not included, but
    identified by its fingerprint.
    """
    from elmokit.disk.json_file import read_bytes
    from elmokit.tasks.runs.tagger_folder import pack_tagger

    text = read_bytes(about).decode("utf-8", "replace") if about is not None else ""
    folder = pack_tagger(run, output, about=text, overwrite=overwrite)
    size = sum(path.stat().st_size for path in folder.iterdir())
    typer.echo(f"{folder}: {size / 1e6:.1f} MB")
