"""Baseline ELMo as in the old libraries: every token convolved over 50 characters, a Python loop over padded steps.

Same numbers as the package, none of its shortcuts. Weights are those of a `BiLM`, in the layout of `nn.Linear`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.nn.bilm import BiLM
from elmokit.text.characters import BOS, EOS, ByteCharacters


class Straightforward:
    def __init__(self, bilm: BiLM) -> None:
        self.config = bilm.config
        chars = bilm.config.char_cnn
        assert chars is not None
        p = {name: tensor.detach().clone() for name, tensor in bilm.state_dict().items()}
        e = chars.embedding_dim
        self.characters = ByteCharacters(chars.max_characters)
        self.embedding = p["token_encoder.char_embedding"]
        self.convolutions = [
            (
                p[f"token_encoder.convolutions.{i}.weight"].view(width, e, count).permute(2, 1, 0).contiguous(),
                p[f"token_encoder.convolutions.{i}.bias"],
            )
            for i, (width, count) in enumerate(chars.filters)
        ]
        self.highways = [
            [
                (
                    p[f"token_encoder.highways.{k}.{part}.weight"].t().contiguous(),
                    p[f"token_encoder.highways.{k}.{part}_bias"],
                )
                for part in ("gate", "transform")
            ]
            for k in range(chars.n_highway)
        ]
        self.projection = (p["token_encoder.projection.weight"].t().contiguous(), p["token_encoder.projection_bias"])
        self.directions = [
            [
                {
                    "input": p[f"{side}_layers.{n}.input.weight"].t().contiguous(),
                    "state": p[f"{side}_layers.{n}.state.weight"].t().contiguous(),
                    "bias": p[f"{side}_layers.{n}.bias"],
                    "projection": p[f"{side}_layers.{n}.projection.weight"].t().contiguous(),
                }
                for n in range(bilm.config.lstm.n_layers)
            ]
            for side in ("forward", "backward")
        ]

    @torch.no_grad()
    def embed(self, sentences: list[list[str]]) -> list[Tensor]:
        """(L + 1, n, 2D) of every sentence of one padded batch, from zero state."""
        marked = [[BOS, *tokens, EOS] for tokens in sentences]
        longest = max(map(len, marked))
        ids = torch.zeros(len(marked), longest, self.characters.max_characters, dtype=torch.long)
        for b, tokens in enumerate(marked):
            ids[b, : len(tokens)] = torch.from_numpy(self.characters.encode(tokens))
        mask = (ids > 0).any(-1)
        vectors = self._encode(ids.flatten(0, 1)).view(len(marked), longest, -1)
        lengths = mask.sum(1).tolist()
        layers = [torch.cat((vectors, vectors), dim=-1)]
        flipped = _flip(vectors, lengths)
        forward, backward = self._stack(vectors, mask, 0), self._stack(flipped, mask, 1)
        layers += [torch.cat((f, _flip(b, lengths)), dim=-1) for f, b in zip(forward, backward, strict=True)]
        stacked = torch.stack(layers)  # (L + 1, B, T, 2D)
        return [stacked[:, b, 1 : n - 1].clone() for b, n in enumerate(lengths)]

    def _encode(self, ids: Tensor) -> Tensor:
        x = functional.embedding(ids, self.embedding).transpose(1, 2)  # (n, e, M)
        pooled = [functional.relu(functional.conv1d(x, w, b).amax(dim=-1)) for w, b in self.convolutions]
        x = torch.cat(pooled, dim=-1)
        for gate, transform in self.highways:
            g = torch.sigmoid(functional.linear(x, *gate))
            x = g * functional.relu(functional.linear(x, *transform)) + (1 - g) * x
        return functional.linear(x, *self.projection)

    def _stack(self, x: Tensor, mask: Tensor, direction: int) -> list[Tensor]:
        lstm = self.config.lstm
        outputs = []
        for n, p in enumerate(self.directions[direction]):
            m = x.new_zeros(len(x), lstm.projection_dim)
            c = x.new_zeros(len(x), lstm.dim)
            steps = []
            for t in range(x.shape[1]):
                gates = functional.linear(x[:, t], p["input"], p["bias"]) + functional.linear(m, p["state"])
                i, f, o, j = gates.chunk(4, dim=1)
                c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j)
                if lstm.cell_clip is not None:
                    c_new = c_new.clamp(-lstm.cell_clip, lstm.cell_clip)
                m_new = functional.linear(torch.sigmoid(o) * torch.tanh(c_new), p["projection"])
                if lstm.proj_clip is not None:
                    m_new = m_new.clamp(-lstm.proj_clip, lstm.proj_clip)
                alive = mask[:, t : t + 1]
                m, c = torch.where(alive, m_new, m), torch.where(alive, c_new, c)
                steps.append(m)
            y = torch.stack(steps, dim=1)
            x = y + x if n and lstm.skip_connections else y
            outputs.append(x)
        return outputs


def _flip(x: Tensor, lengths: list[int]) -> Tensor:
    return nn.utils.rnn.pad_sequence([row[:n].flip(0) for row, n in zip(x, lengths, strict=True)], batch_first=True)
