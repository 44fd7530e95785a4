"""Bidirectional language-model loss: the negative log-likelihood of every word in both directions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from elmokit.nn.bilm import BiLM
from elmokit.nn.softmax import AdaptiveHead, Head
from elmokit.pretrain.training_batch import TrainingBatch


@dataclass(frozen=True)
class Loss:
    """Summed negative log-likelihoods of a batch, in nats."""

    forward: Tensor  # () words and sentence ends, given the left context
    backward: Tensor  # () words and sentence starts, given the right context
    n_tokens: int  # predictions per direction

    def mean(self) -> Tensor:
        """Mean loss per prediction over both directions, the training objective; its exp is the perplexity."""
        return (self.forward + self.backward) / (2 * self.n_tokens)


def bilm_loss(
    bilm: BiLM,
    head: Head,
    batch: TrainingBatch,
    *,
    n_samples: int | None = None,
    generator: torch.Generator | None = None,
) -> Loss:
    """Loss of a batch; with `n_samples`, of a sampled softmax whose negatives both directions share."""
    words = bilm.token_encoder(batch.characters, batch.word_ids)  # (U, D): each distinct word once, for both directions
    output = bilm(words, batch.left, batch.packing, backward_index=batch.right)
    x = torch.cat((output.forward[-1], output.backward[-1]))  # (2N, D)
    # each direction predicts the tokens that the other one reads
    targets = batch.word_ids[torch.cat((batch.right, batch.left))]
    if n_samples is None or isinstance(head, AdaptiveHead):
        losses = head(x, targets)
    else:
        losses = head.sampled(x, targets, n_samples, generator)
    forward, backward = losses.view(2, -1).sum(dim=1)
    return Loss(forward, backward, batch.n_tokens)
