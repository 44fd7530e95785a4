"""The output layer of the language models: -log p of the next word, with all words, with a sample of them, or in tiers.

What costs time is one matrix of n x V scores. It is made in blocks of rows that stay in the cache, and while a block is
there its gradients are made too: no score is computed twice, and none is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmokit.errors import ConfigError
from elmokit.nn.matmul import plain, product_of_rows, repeated, rounded

BLOCK = 2**22  # scores at a time: 16 MB, which a cache holds
FEWEST_ROWS = 256  # below that, adding to the gradients of all words would cost more than the scores
LARGEST_BLOCK = 2**25  # but no more than 128 MB

ADAPTIVE_CUTOFFS = (2_000, 10_000, 100_000)
ADAPTIVE_SHRINK = 2.0  # D of a tier / D of the next


class SoftmaxHead(nn.Module):
    """-log p(w | x) = log sum_v exp(x W_v + b_v) - (x W_w + b_w), one W for both directions (Peters et al. 2018)."""

    def __init__(self, *, n_words: int, dim: int) -> None:
        super().__init__()
        # `sampled` gives W a gradient of the rows that it used instead of one of all V. The latter is written and read
        # at every step: at V = 800,000 and D = 512 that is 1.6 GB. The former suits torch's Adagrad, but not its
        # `clip_grad_norm_`.
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

    def initialise(self, generator: torch.Generator | None = None) -> None:
        """Fill a new layer as the published trainer did."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5, generator=generator)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """x: (n, D), targets: (n,) ids. Returns -log p, (n,), exactly."""
        return _all_words(x, self.weight, self.bias, targets)

    def sampled(self, x: Tensor, targets: Tensor, n_samples: int, generator: torch.Generator | None = None) -> Tensor:
        """x: (n, D), targets: (n,) ids. Returns -log p among each row's target and one sample of words, (n,).

        Only for training: ids must be in the order of frequency, and the loss is not comparable with the exact one.
        """
        n_words = len(self.weight)
        sample = draw(n_words, n_samples, generator)
        ids = sample.ids.to(targets.device)
        # A sample has frequent words more often than rare ones: their scores are lowered by as much (Jean et al. 2015)
        chosen = torch.cat((ids, targets))
        bias = self.bias.index_select(0, chosen) - sample.log_expected_count(chosen).to(self.bias.dtype)
        rows = functional.embedding(chosen, self.weight, sparse=self.sparse)  # (S + n, D)
        place = torch.searchsorted(ids, targets).clamp_(max=n_samples - 1)
        hit = torch.where(ids[place] == targets, place, -1)  # the target's column, if it is in the sample
        return _losses(x, rows[:n_samples], bias[:n_samples], rows[n_samples:], bias[n_samples:], hit)

    def log_probabilities(self, x: Tensor) -> Tensor:
        """(n, D) to log p of every word, (n, V)."""
        return torch.log_softmax(functional.linear(x.to(self.weight.dtype), self.weight, self.bias), dim=1)


class AdaptiveHead(nn.Module):
    """Frequent words in a full softmax, the others in tiers of ever shorter vectors (Grave et al. 2017)."""

    def __init__(self, *, n_words: int, dim: int, cutoffs: Sequence[int] | None = None) -> None:
        """cutoffs: ids, in the order of frequency, at which a new tier begins."""
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
        """x: (n, D), targets: (n,) ids. Returns -log p, (n,): of the word or its tier, and of the word in its tier."""
        starts = self.tiers.cutoffs[:-1]
        tier = torch.bucketize(targets, targets.new_tensor(starts), right=True)  # (n,) 0: among the frequent words
        head = self.tiers.head
        losses = _all_words(x, head.weight, head.bias, torch.where(tier == 0, targets, starts[0] - 1 + tier))
        for k, (start, tail) in enumerate(zip(starts, self.tiers.tail, strict=True), start=1):
            rows = (tier == k).nonzero().squeeze(1)
            shorten, words = tail.parameters()  # (d, D), (V_k, d)
            short = functional.linear(x[rows].to(shorten.dtype), shorten)
            inside = _all_words(short, words, words.new_zeros(len(words)), targets[rows] - start)
            losses = losses.index_add(0, rows, inside)
        return losses

    def log_probabilities(self, x: Tensor) -> Tensor:
        """(n, D) to log p of every word, (n, V)."""
        log_p: Tensor = self.tiers.log_prob(x.to(self.tiers.head.weight.dtype))
        return log_p


Head = SoftmaxHead | AdaptiveHead  # both: `forward`, `log_probabilities`, `n_words`, `dim`


def assemble_head(tensors: Mapping[str, Tensor]) -> Head:
    """The head whose `state_dict` this is, without gradients; nothing is copied.

    Which kind it is, and where its tiers begin, follows from the names and sizes; tensors that make no head are a
    ConfigError.
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


@dataclass(frozen=True)
class Sample:
    """Distinct words, drawn until there were enough; a word of rank k comes with p(k) = log((k+2)/(k+1)) / log(V+1)."""

    ids: Tensor  # (S,) ascending
    n_tries: int  # how many draws it took
    n_words: int  # V

    def log_expected_count(self, ids: Tensor) -> Tensor:
        """log(1 - (1 - p)^n_tries) for each id: how likely a word was to get into the sample. In double precision."""
        p = torch.log1p(1 / (ids.double() + 1)) / math.log(self.n_words + 1)
        return torch.log(-torch.expm1(self.n_tries * torch.log1p(-p)))


def draw(n_words: int, n_samples: int, generator: torch.Generator | None = None) -> Sample:
    """Draw distinct ids below `n_words`, log-uniformly: as one by one, with those that come again put back."""
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


def _all_words(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """-log p of the targets (n,) among all rows of W (V, D)."""
    return _losses(x, weight, bias, functional.embedding(targets, weight), bias[targets], targets)


def _losses(x: Tensor, rows: Tensor, *others: Tensor) -> Tensor:
    with torch.autocast(x.device.type, enabled=False):  # sums over so many words want all the digits
        losses: Tensor = _Loss.apply(x.to(rows.dtype), rows, *others)  # type: ignore[no-untyped-call]
    return losses


class _Loss(torch.autograd.Function):
    """log(exp(t_i) + sum_k exp(s_ik)) - t_i, for t_i = x_i own_i + own_bias_i and s = x rows^T + bias but s_i,hit(i).

    The gradients are made in the forward pass as if of a sum, and scaled in the backward pass: exact for x and own
    whatever the losses are multiplied with; for rows and bias only if with one number, else they are made again.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, rows: Tensor, bias: Tensor, own: Tensor, own_bias: Tensor, hit: Tensor
    ) -> Tensor:  # fmt: skip
        """x, own: (n, D); rows: (K, D), bias: (K,); own_bias: (n,); hit: (n,) a column to leave out, or -1."""
        wanted = any(ctx.needs_input_grad)
        losses, gradients = _read_blocks(
            x, rows, bias, own, own_bias, hit, torch.ones_like(own_bias) if wanted else None
        )
        ctx.save_for_backward(x, rows, bias, own, own_bias, hit, *gradients)
        return losses

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        x, rows, bias, own, own_bias, hit, grad_x, grad_rows, grad_bias, surprise = ctx.saved_tensors
        one = scale[:1] if len(scale) else scale.new_ones(1)
        if (scale == one).all():  # a sum or a mean, as losses are
            grad_rows, grad_bias = grad_rows * one, grad_bias * one
        else:
            _, (_, grad_rows, grad_bias, _) = _read_blocks(x, rows, bias, own, own_bias, hit, scale)
        per_row = (surprise * scale).unsqueeze(1)
        return (grad_x * scale.unsqueeze(1) - per_row * own, grad_rows, grad_bias, -per_row * x, -per_row[:, 0], None)


def _read_blocks(
    x: Tensor, rows: Tensor, bias: Tensor, own: Tensor, own_bias: Tensor, hit: Tensor, scale: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The losses (n,); and, with a factor (n,) for each of them, gradients through s of x (not scaled), rows and bias,
    and 1 - p of the target, (n,)."""
    n, n_columns = len(x), len(rows)
    height = max(1, min(max(FEWEST_ROWS, BLOCK // n_columns), LARGEST_BLOCK // n_columns))
    height = next(r for r in range(height, 0, -1) if r == rounded(r))
    form = repeated if height < n and rows.numel() <= LARGEST_BLOCK else plain
    to_scores, to_x = form(rows.t(), bias), None if scale is None else form(rows)
    t = (x * own).sum(dim=1) + own_bias
    losses, surprise, grad_x = torch.empty_like(t), torch.empty_like(t), torch.empty_like(x)
    grad_rows = None if scale is None else x.new_zeros(x.shape[1] + 1, n_columns)  # (D + 1, K): of bias in the last row
    for start in range(0, n, height):
        part = slice(start, start + height)
        x_, t_, hit_ = x[part], t[part], hit[part]
        s = to_scores(x_)  # (r, K)
        hits = (hit_ >= 0).nonzero().squeeze(1)
        s[hits, hit_[hits]] = -math.inf
        top = torch.maximum(s.amax(dim=1), t_)
        s.sub_(top.unsqueeze(1)).exp_()
        others, itself = s.sum(dim=1), torch.exp(t_ - top)
        total = others + itself
        losses[part] = torch.log(total) + top - t_
        if scale is not None and to_x is not None and grad_rows is not None:
            surprise[part] = others / total
            torch.div(to_x(s), total.unsqueeze(1), out=grad_x[part])
            weight = (scale[part] / total).unsqueeze(1)
            grad_rows += product_of_rows(torch.cat((x_ * weight, weight), dim=1), s)
        del s  # its memory is that of the next block
    if grad_rows is None:
        return losses, ()
    return losses, (grad_x, grad_rows[:-1].t().contiguous(), grad_rows[-1], surprise)
