"""The best path through BIO tags whose only rule is that I-X follows B-X or I-X."""

from __future__ import annotations

import torch
from torch import Tensor

from elmokit.nn.packing import Packing


@torch.no_grad()
def bio_viterbi(scores: Tensor, packing: Packing) -> Tensor:
    """scores: (N, K) of packed tokens, for the tags O, B-1, I-1, B-2, I-2, ... Returns (N,) tags.

    O and B may follow anything, so that a step looks at every tag once, and not at every pair: with the 150 tags of
    PropBank it is a hundred times less work than for rules of any kind.
    """
    steps = packing.steps()
    best = scores[: steps[0][1]].clone()  # (B, K): of the paths that end in this tag so far
    best[:, 2::2] = -torch.inf  # nothing begins inside
    tag = torch.empty(len(best), dtype=torch.long, device=scores.device)  # (B,): the last of every sentence, for now
    origins: list[tuple[Tensor, Tensor]] = []
    for start, stop in steps[1:]:
        n = stop - start
        tag[n : len(best)] = best[n:].argmax(dim=1)  # sentences that ended
        value, origin = best[:n].max(dim=1)  # (n,): the tag before O and B
        begin, inside = best[:n, 1::2], best[:n, 2::2]  # (n, R)
        origins.append((origin, inside > begin))
        step = scores[start:stop] + value.unsqueeze(1)  # (n, K)
        step[:, 2::2] = scores[start:stop, 2::2] + torch.maximum(begin, inside)
        best = step
    tag[: len(best)] = best.argmax(dim=1)
    path = torch.empty(len(scores), dtype=torch.long, device=scores.device)
    for (start, stop), (origin, goes_on) in zip(steps[:0:-1], reversed(origins), strict=True):
        n = stop - start
        path[start:stop] = now = tag[:n]
        role = (now.clamp(min=1) - 1) // 2  # B-r is 2r + 1, I-r is 2r + 2
        is_inside = (now > 0) & (now % 2 == 0)
        before = now - 1 + goes_on.gather(1, role.unsqueeze(1)).squeeze(1).long()  # B-r, or I-r itself
        tag[:n] = torch.where(is_inside, before, origin)
    path[: steps[0][1]] = tag
    return path
