"""Training batches: tensors of one training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Batch of sentences w1 ... wn, each of n + 1 steps; every distinct word is encoded once.

    left  = <S> w1 ... wn: inputs of the forward direction, targets of the backward direction;
    right = w1 ... wn </S>: inputs of the backward direction, targets of the forward direction.
    """

    characters: Tensor | None  # (U, M) int64: character ids of the distinct words; None without characters
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
    *,
    misspell: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> TrainingBatch:
    """Build a batch of at least one sentence, sorted stably by descending length. An empty sentence has one step.

    characters: character encoder of the model; None for a model that reads word ids alone.
    misspell: maps the tokens of a sentence to noisy inputs. The targets stay clean, so a misspelled word is a row of
        its own, with the characters of the input and the id of the target.
    """
    ordered = sorted(sentences, key=len, reverse=True)
    begin, end, _ = vocabulary.marks
    words = list(chain.from_iterable((begin, *sentence, end) for sentence in ordered))
    read = words
    if misspell is not None:
        read = list(chain.from_iterable((begin, *misspell(sentence), end) for sentence in ordered))
    pairs = list(zip(read, words, strict=True))  # (input, target)
    distinct = list(dict.fromkeys(((begin, begin), (end, end), *pairs)))
    row_of = {pair: row for row, pair in enumerate(distinct)}
    rows = np.fromiter(map(row_of.__getitem__, pairs), dtype=np.int64, count=len(pairs))
    packing = Packing.from_lengths([len(sentence) + 1 for sentence in ordered], device)
    first = torch.tensor([0, *accumulate(length + 1 for length in packing.lengths)], device=device)  # of a sentence
    place = first[packing.sentence] + packing.time  # (N,) in `words`
    row = torch.from_numpy(rows).to(device)
    spelled = None
    if characters is not None:  # vocabulary and alphabet may have different boundary tokens
        spellings = [characters.begin, characters.end, *(spelling for spelling, _ in distinct[2:])]
        spelled = torch.from_numpy(characters.encode(spellings)).to(device)
    return TrainingBatch(
        characters=spelled,
        word_ids=torch.from_numpy(vocabulary.ids([word for _, word in distinct])).to(device),
        left=row[place],
        right=row[place + 1],
        packing=packing,
    )
