"""Ids that a model's token encoder reads: characters, words or both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import many_langs
import models
import numpy as np
import pytest
import torch

from elmokit import weights
from elmokit.embed.word_reader import WordReader
from elmokit.errors import FormatError
from elmokit.text.characters import BOS, EOS, ByteCharacters


def test_characters(tmp_path: Path) -> None:
    model = weights.load(models.write_variant(tmp_path, "usual")[0])
    reader = WordReader(model)
    ids = reader(["cat", "Über"])
    assert ids.words is None and ids.characters is not None
    np.testing.assert_array_equal(ids.characters.numpy(), ByteCharacters().encode(["cat", "Über"]))
    marks = reader.marks()
    assert marks.characters is not None
    np.testing.assert_array_equal(marks.characters.numpy(), ByteCharacters().encode([BOS, EOS]))


def test_words_and_characters(tmp_path: Path) -> None:
    model = weights.load(many_langs.write(tmp_path / "de", *many_langs.random_tensors()))
    reader = WordReader(model)
    ids = reader([reader.begin, "never seen before", reader.end])
    assert ids.characters is not None and ids.words is not None and reader.vocabulary is not None
    assert len(ids.characters) == len(ids.words) == 3
    np.testing.assert_array_equal(ids.words.numpy(), reader.vocabulary.ids([reader.begin, "?", reader.end]))
    marks = reader.marks()
    assert marks.words is not None and torch.equal(marks.words, ids.words[[0, 2]])


def test_a_word_table_without_its_vocabulary(tmp_path: Path) -> None:
    model = weights.load(models.write_variant(tmp_path, "words")[0])
    with pytest.raises(FormatError, match=r"reads words: put its vocabulary\.txt beside the weights"):
        WordReader(replace(model, vocabulary=None))
