"""Output layers of the language models: full, sampled and adaptive softmax."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.errors import ConfigError
from elmokit.nn.log_uniform import draw_log_uniform

SCORES_AT_ONCE = 2**25  # 128 MB: rows are taken in parts, or the scores of a large vocabulary would not fit into memory

ADAPTIVE_CUTOFFS = (2_000, 10_000, 100_000)
ADAPTIVE_SHRINK = 2.0  # D of a tier / D of the next


class SoftmaxLoss(nn.Module):
    """Softmax losses shared by all heads."""

    def full_loss(self, x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        """-log softmax(x W^T + b) of the targets: x (n, D), W (V, D), b (V,), targets (n,) to (n,)."""
        with torch.autocast(x.device.type, enabled=False):  # sums over so many words need full precision
            height = max(1, SCORES_AT_ONCE // len(weight))
            x = x.to(weight.dtype)
            losses = []
            for rows, wanted in zip(x.split(height), targets.split(height), strict=True):  # type: ignore[no-untyped-call]
                scores = functional.linear(rows, weight, bias)  # (height, V)
                losses.append(functional.cross_entropy(scores, wanted, reduction="none"))
            return torch.cat(losses)

    def sampled_loss(self, x: Tensor, rows: Tensor, bias: Tensor, own: Tensor, own_bias: Tensor, hit: Tensor) -> Tensor:
        """log(exp(t_i) + sum_k exp(s_ik)) - t_i, for t_i = x_i own_i + own_bias_i and s = x rows^T + bias.

        x, own: (n, D); rows: (K, D), bias: (K,); own_bias: (n,); hit: (n,) a column of s to leave out, or -1. Returns
        (n,).
        """
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(rows.dtype)
            t = (x * own).sum(dim=1) + own_bias
            left_out = torch.arange(len(rows), device=x.device) == hit.unsqueeze(1)  # (n, K)
            s = functional.linear(x, rows, bias).masked_fill(left_out, -math.inf)
            return torch.logsumexp(torch.cat((t.unsqueeze(1), s), dim=1), dim=1) - t


class SoftmaxHead(SoftmaxLoss):
    """-log p(w | x) = log sum_v exp(x W_v + b_v) - (x W_w + b_w), one W for both directions (Peters et al. 2018)."""

    def __init__(self, *, n_words: int, dim: int) -> None:
        super().__init__()
        # Whether `sampled` gives W a sparse gradient, of the sampled rows alone. A dense one is written and read at
        # every step: at V = 800,000 and D = 512 that is 1.6 GB. torch's Adagrad supports a sparse one, but
        # `clip_grad_norm_` does not.
        self.sparse = False
        self.weight = nn.Parameter(torch.empty(n_words, dim))
        self.bias = nn.Parameter(torch.empty(n_words))

    @property
    def n_words(self) -> int:
        """V."""
        return len(self.bias)

    @property
    def dim(self) -> int:
        """D."""
        return self.weight.shape[1]

    def initialize(self, generator: torch.Generator | None = None) -> None:
        """Fill a new layer as the published trainer did."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5, generator=generator)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """x: (n, D), targets: (n,) ids. Returns -log p, (n,), exactly."""
        return self.full_loss(x, self.weight, self.bias, targets)

    def sampled(self, x: Tensor, targets: Tensor, n_samples: int, generator: torch.Generator | None = None) -> Tensor:
        """x: (n, D), targets: (n,) ids. Returns -log p among each row's target and one sample of words, (n,).

        Only for training: ids must be in the order of frequency, and the loss is not comparable with the exact one.
        """
        sample = draw_log_uniform(len(self.weight), n_samples, generator)
        ids = sample.ids.to(targets.device)
        # Frequent words are overrepresented in the sample: log counts correct their scores (Jean et al. 2015)
        chosen = torch.cat((ids, targets))
        bias = self.bias.index_select(0, chosen) - sample.log_expected_count(chosen).to(self.bias.dtype)
        rows = functional.embedding(chosen, self.weight, sparse=self.sparse)  # (S + n, D)
        place = torch.searchsorted(ids, targets).clamp_(max=n_samples - 1)
        hit = torch.where(ids[place] == targets, place, -1)  # the target's column, if it is in the sample
        return self.sampled_loss(x, rows[:n_samples], bias[:n_samples], rows[n_samples:], bias[n_samples:], hit)

    def log_probabilities(self, x: Tensor) -> Tensor:
        """(n, D) to log p of every word, (n, V)."""
        return torch.log_softmax(functional.linear(x.to(self.weight.dtype), self.weight, self.bias), dim=1)


class AdaptiveHead(SoftmaxLoss):
    """Adaptive softmax (Grave et al. 2017): a full softmax of frequent words, clusters of rare ones."""

    def __init__(self, *, n_words: int, dim: int, cutoffs: Sequence[int] | None = None) -> None:
        """cutoffs: ids, in the order of frequency, at which a new cluster starts."""
        super().__init__()
        if cutoffs is None:
            cutoffs = [cutoff for cutoff in ADAPTIVE_CUTOFFS if cutoff < n_words] or [n_words // 2]
        try:
            self.tiers = nn.AdaptiveLogSoftmaxWithLoss(dim, n_words, list(cutoffs), ADAPTIVE_SHRINK, head_bias=True)
        except ValueError:
            raise ConfigError(
                f"cutoffs: expected ascending ids between 0 and {n_words}, found {list(cutoffs)}"
            ) from None

    @property
    def n_words(self) -> int:
        """V."""
        return self.tiers.n_classes

    @property
    def dim(self) -> int:
        """D."""
        return self.tiers.in_features

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """x: (n, D), targets: (n,) ids. Returns -log p, (n,): of the word or cluster, and within the cluster."""
        starts = self.tiers.cutoffs[:-1]
        tier = torch.bucketize(targets, targets.new_tensor(starts), right=True)  # (n,) 0: among the frequent words
        head = self.tiers.head
        losses = self.full_loss(x, head.weight, head.bias, torch.where(tier == 0, targets, starts[0] - 1 + tier))
        for k, (start, tail) in enumerate(zip(starts, self.tiers.tail, strict=True), start=1):
            rows = (tier == k).nonzero().squeeze(1)
            shorten, words = tail.parameters()  # (d, D), (V_k, d)
            short = functional.linear(x[rows].to(shorten.dtype), shorten)
            inside = self.full_loss(short, words, words.new_zeros(len(words)), targets[rows] - start)
            losses = losses.index_add(0, rows, inside)
        return losses

    def log_probabilities(self, x: Tensor) -> Tensor:
        """(n, D) to log p of every word, (n, V)."""
        log_p: Tensor = self.tiers.log_prob(x.to(self.tiers.head.weight.dtype))
        return log_p


Head = SoftmaxHead | AdaptiveHead  # both: `forward`, `log_probabilities`, `n_words`, `dim`


def assemble_head(tensors: Mapping[str, Tensor]) -> Head:
    """The head whose `state_dict` this is, without gradients; nothing is copied.

    Its kind and its cutoffs follow from the names and sizes; other tensors are a ConfigError.
    """
    try:
        with torch.device("meta"):
            if "tiers.head.weight" in tensors:
                n_tiers = sum(name.startswith("tiers.tail.") for name in tensors) // 2
                front, dim = tensors["tiers.head.weight"].shape  # the tiers themselves come after the frequent words
                sizes = [len(tensors[f"tiers.tail.{k}.1.weight"]) for k in range(n_tiers)]
                *cutoffs, n_words = accumulate(sizes, initial=front - n_tiers)
                head: Head = AdaptiveHead(n_words=n_words, dim=dim, cutoffs=cutoffs)
            else:
                head = SoftmaxHead(n_words=len(tensors["weight"]), dim=tensors["weight"].shape[1])
        head.load_state_dict(tensors, assign=True)
    except (KeyError, IndexError, TypeError, ValueError, RuntimeError):
        found = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items()) or "none"
        raise ConfigError(f"softmax: expected weight (V, D) and bias (V,), or tiers, found {found}") from None
    return head.requires_grad_(False)
