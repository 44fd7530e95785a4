"""Log-uniform sampling of word ids: the negative samples of the published trainer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from elmokit.errors import ConfigError


@dataclass(frozen=True)
class Sample:
    """Distinct words of a log-uniform sample: a word of rank k is drawn with p(k) = log((k+2)/(k+1)) / log(V+1)."""

    ids: Tensor  # (S,) ascending
    n_tries: int  # how many draws it took
    n_words: int  # V

    def log_expected_count(self, ids: Tensor) -> Tensor:
        """log(1 - (1 - p)^n_tries) for each id: log-probability of inclusion in the sample, in float64."""
        p = torch.log1p(1 / (ids.double() + 1)) / math.log(self.n_words + 1)
        return torch.log(-torch.expm1(self.n_tries * torch.log1p(-p)))


def draw_log_uniform(n_words: int, n_samples: int, generator: torch.Generator | None = None) -> Sample:
    """Draw distinct ids below `n_words`; repeated draws are rejected."""
    if not 0 < n_samples < n_words:
        raise ConfigError(
            f"negative samples: expected 1 to {n_words - 1}, fewer than there are words, found {n_samples}"
        )
    device = generator.device if generator is not None else "cpu"
    draws = torch.empty(0, dtype=torch.long, device=device)
    while True:
        u = torch.rand(max(2 * n_samples, len(draws)), dtype=torch.double, generator=generator, device=device)
        draws = torch.cat((draws, torch.exp(u * math.log(n_words + 1)).long().sub_(1).clamp_(max=n_words - 1)))
        first = draws.new_full((n_words,), len(draws))  # the try at which each word came first
        first.scatter_reduce_(0, draws, torch.arange(len(draws), device=device), "amin")
        n_tries = int(first.kthvalue(n_samples).values) + 1
        if n_tries <= len(draws):
            return Sample((first < n_tries).nonzero().squeeze(1), n_tries, n_words)
