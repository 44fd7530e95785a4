"""Model folders of transformers, from models of any format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging

from elmokit.integrations.transformers.model import ElmoModel
from elmokit.integrations.transformers.tokenizer import ElmoTokenizer
from elmokit.weights.files import new_model_folder
from elmokit.weights.locate import ModelName, load
from elmokit.weights.model import Model
from elmokit.weights.native import write_card


def save_folder(model: ModelName | Model | None, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a folder for `AutoModel.from_pretrained` and `SentenceTransformer`, atomically.

    model: a model of any format that elmokit reads; None is the packaged model. The softmax stays behind.
    """
    loaded = model if isinstance(model, Model) else load(model)
    with new_model_folder(folder, overwrite=overwrite) as fresh, _without_progress():
        ElmoModel.from_elmokit(loaded).save_pretrained(fresh)
        ElmoTokenizer.from_elmokit(loaded).save_pretrained(fresh)
        write_card(loaded, fresh)


@contextmanager
def _without_progress() -> Iterator[None]:
    """Leave the progress lines of transformers out: one file is written."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
