"""`elmo predict`: the likeliest next words."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from elmokit.cli.options import ModelPath, ModelTokenizer


def predict(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Part of a sentence, with or without a gap.")],
    backward: Annotated[
        bool, typer.Option("--backward", help="Predict the word before the text, not after it.")
    ] = False,
    gap: Annotated[
        str, typer.Option(metavar="TOKEN", help="Token that marks a gap, which is filled from both sides.")
    ] = "___",
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Number of words.")] = 10,
    model: ModelPath = None,
    tokenizer: ModelTokenizer = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Predict words with their probabilities, for example: elmo predict "Let's stick to"

    </S> is the end of the sentence, and <S> its start.

    \b
    elmo predict --backward "sat on the mat ."
    elmo predict "The cat ___ on the mat ."
    """
    from dataclasses import asdict

    from elmokit import weights
    from elmokit.embed.predict import predict_next
    from elmokit.embed.word_reader import WordReader
    from elmokit.errors import ConfigError

    has_gap = gap in text
    if has_gap and backward:
        raise ConfigError(f"--backward: expected a text without {gap}, since a gap is filled from both sides")
    loaded = weights.load(model)
    predictions = predict_next(
        loaded,
        WordReader(loaded),
        text,
        top=top,
        gap=gap,
        tokenizer=tokenizer or loaded.config.default_tokenizer,
        direction="gap" if has_gap else "backward" if backward else "forward",
    )
    if as_json:
        typer.echo(json.dumps([asdict(prediction) for prediction in predictions], ensure_ascii=False, indent=2))
        return
    for prediction in predictions:
        typer.echo(f"{prediction.probability:8.3%}  {prediction.word}")
