"""Options that several commands share. Those of training commands are in `training.py` and `task_options.py`."""

from __future__ import annotations

from typing import Annotated

import typer

TOKENIZERS = "words|han|spaces|spacy:xx"  # as `elmokit.text.tokenizer.get_tokenizer` reads them

ModelPath = Annotated[
    str | None, typer.Option(metavar="PATH", help="Model: folder, file, zip or name [the packaged model].")
]
ModelTokenizer = Annotated[str | None, typer.Option(metavar=TOKENIZERS, help="Tokenizer [that of the model].")]
ModelCorpusTokenizer = Annotated[
    str | None,
    typer.Option(metavar=TOKENIZERS, help="Tokenizer [spaces; for a model of han or spacy:xx, that one]."),
]
CorpusTokenizer = Annotated[str, typer.Option(metavar=TOKENIZERS, help="Tokenizer; spaces is for tokenized text.")]
InferenceDevice = Annotated[str | None, typer.Option(metavar="NAME", help="Device: cpu, cuda, cuda:1 or mps [cpu].")]
MaxTokens = Annotated[int | None, typer.Option(metavar="N", min=1, help="Maximum number of corpus tokens [all].")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace an existing output file once the new one is complete.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress, only warnings and errors.")]
