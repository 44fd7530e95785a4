"""Sentences as the tensors of one training step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import torch
from torch import Tensor

from elmokit.nn.packing import Packing
from elmokit.text.characters import Characters
from elmokit.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class TrainingBatch:
    """Sentences w1 ... wn, each read in n + 1 steps, every distinct word of the batch held once.

    left  = <S> w1 ... wn: what the forward direction reads, and the backward direction predicts;
    right = w1 ... wn </S>: what the backward direction reads, and the forward direction predicts.
    """

    characters: Tensor | None  # (U, M) int64: character ids of the distinct words, marks included; None: not read
    word_ids: Tensor  # (U,) int64: their ids in the vocabulary
    left: Tensor  # (N,) int64: rows of the distinct words, in the order of `packing`
    right: Tensor  # (N,) int64
    packing: Packing  # of lengths n + 1, descending

    @property
    def n_tokens(self) -> int:
        """Predictions per direction, N."""
        return self.packing.n_tokens


def make_batch(
    sentences: Sequence[Sequence[str]],
    vocabulary: Vocabulary,
    characters: Characters | None,
    device: torch.device | str = "cpu",
) -> TrainingBatch:
    """Lay out one sentence or more, longest first; equally long ones keep their order. An empty one has one step.

    characters: how the model spells words; None for one that reads words alone, by their ids in the vocabulary.
    """
    ordered = sorted(sentences, key=len, reverse=True)
    begin, end, _ = vocabulary.marks
    words = list(chain.from_iterable((begin, *sentence, end) for sentence in ordered))
    distinct = list(dict.fromkeys((begin, end, *words)))
    row_of = {word: row for row, word in enumerate(distinct)}
    rows = np.fromiter(map(row_of.__getitem__, words), dtype=np.int64, count=len(words))
    packing = Packing.from_lengths([len(sentence) + 1 for sentence in ordered], device)
    first = torch.tensor([0, *accumulate(length + 1 for length in packing.lengths)], device=device)  # of a sentence
    place = first[packing.sentence] + packing.time  # (N,) in `words`
    row = torch.from_numpy(rows).to(device)
    spelled = None
    if characters is not None:  # the vocabulary may have other marks than the alphabet
        spelled = torch.from_numpy(characters.encode([characters.begin, characters.end, *distinct[2:]])).to(device)
    return TrainingBatch(
        characters=spelled,
        word_ids=torch.from_numpy(vocabulary.ids(distinct)).to(device),
        left=row[place],
        right=row[place + 1],
        packing=packing,
    )
