"""Weight initialization."""

from __future__ import annotations

import torch
from torch import nn

from elmokit.nn.bilm import BiLM


def initialize(bilm: BiLM, generator: torch.Generator | None = None) -> None:
    """Initialize a new network as the published trainer did.

    Character embeddings are uniform in (-1, 1); filters uniform in (-0.05, 0.05) before a relu; other matrices normal
    with standard deviation 1 / sqrt(fan-in). Highway gates start nearly closed (bias -2), forget gates open (1).
    """
    chars = bilm.config.char_cnn
    for name, parameter in bilm.named_parameters():
        if name.endswith("char_embedding"):
            nn.init.uniform_(parameter, -1, 1, generator=generator)
            parameter.data[0] = 0  # padded tokens
        elif ".convolutions." in name and parameter.dim() == 2 and chars is not None and chars.activation == "relu":
            nn.init.uniform_(parameter, -0.05, 0.05, generator=generator)
        elif parameter.dim() == 2:
            nn.init.normal_(parameter, std=parameter.shape[0] ** -0.5, generator=generator)
        else:
            nn.init.zeros_(parameter)
            if name.endswith("gate_bias"):
                nn.init.constant_(parameter, -2)
            elif "_layers." in name:
                parameter.data.chunk(4)[1].fill_(1)  # blocks are i, f, o, j
