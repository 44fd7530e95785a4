"""Packed sentences: different lengths as one matrix without padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """Layout of the tokens of a batch: time-major, as in torch's PackedSequence.

    Sentences come in descending length. Step t holds the t-th token of every sentence that has one, so a step is a
    prefix of the one before it, and running a recurrent net over the steps does no work on padding.
    """

    lengths: tuple[int, ...]  # of B sentences, descending, each at least 1
    offsets: tuple[int, ...]  # T + 1: step t is rows offsets[t] to offsets[t + 1]
    sentence: Tensor  # (N,) which sentence a row belongs to
    time: Tensor  # (N,) which token of it
    reverse: Tensor  # (N,) the row of the mirror token, counted from the sentence's other end; its own inverse

    @classmethod
    def from_lengths(cls, lengths: Sequence[int], device: torch.device | str = "cpu") -> Packing:
        """Lay out sentences of these lengths, which must not increase."""
        if not lengths or lengths[-1] < 1 or any(a < b for a, b in pairwise(lengths)):
            raise ValueError(
                f"expected one or more lengths in descending order, each at least 1, found {list(lengths)[:10]}"
            )
        length = torch.tensor(lengths)  # (B,)
        # sentences alive at step t: those longer than t
        alive = len(lengths) - torch.searchsorted(length.flip(0), torch.arange(lengths[0]), right=True)  # (T,)
        offset = torch.zeros(lengths[0] + 1, dtype=torch.long)
        torch.cumsum(alive, 0, out=offset[1:])
        time = torch.repeat_interleave(torch.arange(lengths[0]), alive)  # (N,)
        sentence = torch.arange(len(time)) - offset[time]  # (N,)
        reverse = offset[length[sentence] - 1 - time] + sentence  # (N,)
        return cls(tuple(lengths), tuple(offset.tolist()), sentence.to(device), time.to(device), reverse.to(device))

    def steps(self) -> list[tuple[int, int]]:
        """First and last row + 1 of each time step."""
        return list(pairwise(self.offsets))

    def blocks(self, rows: int) -> Iterator[list[tuple[int, int]]]:
        """Group consecutive steps into blocks of at most `rows` rows; a larger step is a block of its own."""
        group: list[tuple[int, int]] = []
        for start, stop in self.steps():
            if group and stop - group[0][0] > rows:
                yield group
                group = []
            group.append((start, stop))
        yield group

    @property
    def n_tokens(self) -> int:
        """Rows of a packed matrix, N."""
        return self.offsets[-1]

    def last(self) -> Tensor:
        """(B,) the row of every sentence's last token."""
        length = torch.tensor(self.lengths, device=self.sentence.device)
        offset = torch.tensor(self.offsets, device=self.sentence.device)
        return offset[length - 1] + torch.arange(len(self.lengths), device=self.sentence.device)

    def rows(self, sentence: int) -> Tensor:
        """(n,) the rows of one sentence's tokens, in order."""
        return torch.tensor(self.offsets[: self.lengths[sentence]]) + sentence

    def pad(self, packed: Tensor, n_steps: int | None = None) -> Tensor:
        """(N, ...) packed rows to a zero-padded (B, T, ...)."""
        shape = (len(self.lengths), n_steps or self.lengths[0], *packed.shape[1:])
        return packed.new_zeros(shape).index_put((self.sentence, self.time), packed)

    def pack(self, padded: Tensor) -> Tensor:
        """(B, T, ...) padded to (N, ...) packed rows."""
        return padded[self.sentence, self.time]
