"""What training makes smaller: both directions' surprise at every word."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from elmokit.nn.bilm import BiLM
from elmokit.nn.softmax import AdaptiveHead, Head
from elmokit.pretrain.batch import TrainingBatch


@dataclass(frozen=True)
class Loss:
    """Negative log-likelihoods of a batch, in nats, summed."""

    forward: Tensor  # () of each word and the end, given what stands before
    backward: Tensor  # () of each word and the begin, given what stands after
    n_tokens: int  # predictions of each direction

    def mean(self) -> Tensor:
        """A prediction's loss, averaged over both directions: what is minimised; exp of it is the perplexity."""
        return (self.forward + self.backward) / (2 * self.n_tokens)


def bilm_loss(
    bilm: BiLM, head: Head, batch: TrainingBatch, *, n_samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Loss:  # fmt: skip
    """Loss of a batch; with `n_samples` that of the sampled softmax, whose negatives both directions share."""
    words = bilm.token_encoder(batch.characters, batch.word_ids)  # (U, D): each distinct word once, for both directions
    output = bilm(words, batch.left, batch.packing, backward_index=batch.right)
    x = torch.cat((output.forward[-1], output.backward[-1]))  # (2N, D)
    targets = batch.word_ids[torch.cat((batch.right, batch.left))]  # each direction must say what the other one reads
    if n_samples is None or isinstance(head, AdaptiveHead):
        losses = head(x, targets)
    else:
        losses = head.sampled(x, targets, n_samples, generator)
    forward, backward = losses.view(2, -1).sum(dim=1)
    return Loss(forward, backward, batch.n_tokens)
