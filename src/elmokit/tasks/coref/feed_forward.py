"""Feed-forward scorer of coreference: the layers after the first one, which each scorer computes in its own way."""

from __future__ import annotations

from torch import nn


def score_layers(n_hidden: int, dropout: float) -> nn.Sequential:
    """v relu(V relu(x)): (..., H) before the first nonlinearity to a score (..., 1), with dropout (Lee et al. 2017)."""
    return nn.Sequential(
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(n_hidden, n_hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(n_hidden, 1),
    )
