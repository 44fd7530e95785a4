"""Linear-chain conditional random field: log-likelihood, marginals and Viterbi decoding, batched over sentences.

Lafferty et al. 2001; in this form Lample et al. 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from elmokit.tasks.shared.tags import may_follow

IMPOSSIBLE = -1e4  # effectively -inf, but finite, so that differences are never NaN


@dataclass(frozen=True)
class Constraints:
    """Allowed start, end and transition labels, as scores of 0 (allowed) or IMPOSSIBLE."""

    start: Tensor  # (K,)
    end: Tensor  # (K,)
    transitions: Tensor  # (K, K): from row label to column label

    @classmethod
    def of_tags(cls, tags: Sequence[str], scheme: Literal["IOB2", "BIOES"]) -> Constraints:
        """Constraints of a tagging scheme."""

        def score(before: str | None, after: str | None) -> float:
            return 0.0 if may_follow(before, after, scheme) else IMPOSSIBLE

        return cls(
            torch.tensor([score(None, tag) for tag in tags]),
            torch.tensor([score(tag, None) for tag in tags]),
            torch.tensor([[score(before, after) for after in tags] for before in tags]),
        )

    @classmethod
    def none(cls, n_labels: int) -> Constraints:
        """No constraints."""
        return cls(torch.zeros(n_labels), torch.zeros(n_labels), torch.zeros(n_labels, n_labels))


class Crf(nn.Module):
    """Linear-chain CRF: p(y | x) = exp(start_y1 + sum_t x_t,yt + sum_t transition_yt,yt+1 + end_yn) / Z."""

    start_rule: Tensor
    end_rule: Tensor
    transition_rule: Tensor

    def __init__(self, *, n_labels: int, constraints: Constraints | None = None) -> None:
        super().__init__()
        rules = constraints or Constraints.none(n_labels)
        self.register_buffer("start_rule", rules.start, persistent=False)
        self.register_buffer("end_rule", rules.end, persistent=False)
        self.register_buffer("transition_rule", rules.transitions, persistent=False)
        self.start = nn.Parameter(torch.zeros(n_labels))
        self.end = nn.Parameter(torch.zeros(n_labels))
        self.transitions = nn.Parameter(torch.zeros(n_labels, n_labels))

    def scores(self) -> Constraints:
        """Learned scores plus the constraints."""
        return Constraints(
            self.start + self.start_rule, self.end + self.end_rule, self.transitions + self.transition_rule
        )

    def forward(self, emissions: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Log-likelihood of labels (B, T) given emissions (B, T, K); mask: (B, T), at least one token. Returns (B,)."""
        scores = self.scores()
        return path_score(emissions, labels, mask, scores) - log_partition(emissions, mask, scores)

    def marginals(self, emissions: Tensor, mask: Tensor) -> Tensor:
        """Marginal label probabilities, (B, T, K); emissions: (B, T, K), mask: (B, T)."""
        return marginals(emissions, mask, self.scores())

    def viterbi(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The most probable label sequence of every sentence; emissions: (B, T, K), mask: (B, T)."""
        return viterbi(emissions, mask, self.scores())


def path_score(emissions: Tensor, labels: Tensor, mask: Tensor, scores: Constraints) -> Tensor:
    """Score of the given path of each sentence, (B,)."""
    labels = labels.masked_fill(~mask, 0)
    last = labels.gather(1, mask.sum(dim=1, keepdim=True) - 1).squeeze(1)  # (B,)
    of_tokens = emissions.gather(2, labels.unsqueeze(2)).squeeze(2)  # (B, T)
    of_pairs = scores.transitions[labels[:, :-1], labels[:, 1:]]  # (B, T - 1)
    inside = (of_tokens * mask).sum(dim=1) + (of_pairs * mask[:, 1:]).sum(dim=1)
    return inside + scores.start[labels[:, 0]] + scores.end[last]


def log_partition(emissions: Tensor, mask: Tensor, scores: Constraints) -> Tensor:
    """Log-partition function log Z, (B,), by the forward algorithm."""
    return torch.logsumexp(_forward(emissions, mask, scores)[-1] + scores.end, dim=1)


def _forward(emissions: Tensor, mask: Tensor, scores: Constraints) -> list[Tensor]:
    """Forward variables, T times (B, K): log-sum-exp over all prefixes that end in each label."""
    alphas = [scores.start + emissions[:, 0]]
    for t in range(1, emissions.shape[1]):
        following = torch.logsumexp(alphas[-1].unsqueeze(2) + scores.transitions, dim=1) + emissions[:, t]
        alphas.append(torch.where(mask[:, t, None], following, alphas[-1]))  # unchanged past the end of a sentence
    return alphas


@torch.no_grad()
def marginals(emissions: Tensor, mask: Tensor, scores: Constraints) -> Tensor:
    """Marginal probabilities, (B, T, K), by the forward-backward algorithm."""
    beta = scores.end.expand_as(emissions[:, 0])  # (B, K): backward variables
    betas = [beta]
    for t in range(emissions.shape[1] - 1, 0, -1):
        before = torch.logsumexp(scores.transitions + (beta + emissions[:, t]).unsqueeze(1), dim=2)
        beta = torch.where(mask[:, t, None], before, beta)
        betas.append(beta)
    return torch.softmax(torch.stack(_forward(emissions, mask, scores), 1) + torch.stack(betas[::-1], 1), dim=2)


@torch.no_grad()
def viterbi(emissions: Tensor, mask: Tensor, scores: Constraints) -> list[list[int]]:
    """Viterbi decoding; emissions: (B, T, K), mask: (B, T). An empty sentence has an empty path."""
    n_steps, n_labels = emissions.shape[1:]
    best = scores.start + emissions[:, 0]  # (B, K): score of the best prefix that ends in each label
    stay = torch.arange(n_labels, device=best.device)
    origins = []  # n_steps - 1 times (B, K): back-pointers
    for t in range(1, n_steps):
        value, origin = (best.unsqueeze(2) + scores.transitions).max(dim=1)  # (B, K)
        goes_on = mask[:, t, None]
        best = torch.where(goes_on, value + emissions[:, t], best)
        origins.append(torch.where(goes_on, origin, stay))  # past the end of a sentence, a path keeps its label
    label = (best + scores.end).argmax(dim=1, keepdim=True)  # (B, 1)
    path = [label]
    for origin in reversed(origins):
        label = origin.gather(1, label)
        path.append(label)
    labels = torch.cat(path[::-1], dim=1).tolist()
    return [row[:n] for row, n in zip(labels, mask.sum(dim=1).tolist(), strict=True)]
