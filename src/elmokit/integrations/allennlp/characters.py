"""Token encoder with AllenNLP's names: `char_conv_0`, `_highways._layers.0`, `_projection`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.errors import InputError
from elmokit.integrations.allennlp.indexer import characters
from elmokit.integrations.allennlp.pretrained import PathLike, Pretrained, read
from elmokit.integrations.allennlp.submodules import SubmoduleLists, Submodules
from elmokit.integrations.allennlp.util import add_sentence_boundary_token_ids
from elmokit.text.characters import BOS, EOS

CHUNK = 4096  # words convolved at a time, to bound memory


class Highway(nn.Module):
    """Highway layers (Srivastava et al., 2015): y = g x + (1 - g) f(x W + b), each with one matrix for f and g."""

    def __init__(
        self, input_dim: int, num_layers: int = 1, activation: Callable[[Tensor], Tensor] = functional.relu
    ) -> None:
        super().__init__()
        self._input_dim, self._activation = input_dim, activation
        self._layers = nn.ModuleList(nn.Linear(input_dim, 2 * input_dim) for _ in range(num_layers))
        for layer in self._layers:  # carry gate initially open
            layer.bias[input_dim:].data.fill_(1.0)  # type: ignore[index, operator]

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, F) to (n, F)."""
        for layer in self._layers:
            transformed, gate = layer(inputs).chunk(2, dim=-1)
            gate = torch.sigmoid(gate)
            inputs = gate * inputs + (1 - gate) * self._activation(transformed)
        return inputs


class _ElmoCharacterEncoder(SubmoduleLists):
    """Context-independent token encoder: character CNN (Kim et al., 2016; Peters et al., 2018).

    The layers are torch's own, because old code hooks, freezes and replaces them by name.
    """

    _convolutions = Submodules("char_conv_")

    def __init__(self, options_file: PathLike, weight_file: PathLike, requires_grad: bool = False) -> None:
        super().__init__()
        self._build(read(options_file, weight_file), requires_grad)

    @classmethod
    def _from_pretrained(cls, pretrained: Pretrained, requires_grad: bool) -> Self:
        encoder = cls.__new__(cls)
        nn.Module.__init__(encoder)
        encoder._build(pretrained, requires_grad)
        return encoder

    def _build(self, pretrained: Pretrained, requires_grad: bool) -> None:
        config, chars = pretrained.config, pretrained.config.char_cnn
        assert chars is not None
        self._options, self._weight_file = pretrained.options, pretrained.weight_file
        self.output_dim, self.requires_grad = config.lstm.projection_dim, requires_grad
        self.max_characters = chars.max_characters
        with torch.device("meta"):  # the published weights are loaded next
            self._char_embedding_weights = nn.Parameter(torch.empty(chars.n_characters, chars.embedding_dim))
            for n, (width, count) in enumerate(chars.filters):
                self.add_module(f"char_conv_{n}", nn.Conv1d(chars.embedding_dim, count, kernel_size=width))
            self._highways = Highway(chars.n_filters, chars.n_highway)
            self._projection: nn.Module = nn.Identity()  # no projection where it would be square
            if config.has_token_projection:
                self._projection = nn.Linear(chars.n_filters, self.output_dim)
        self.load_state_dict(pretrained.part("_token_embedder."), assign=True)
        self.requires_grad_(requires_grad)
        self._activation = torch.tanh if chars.activation == "tanh" else torch.relu
        begin, end = characters([BOS, EOS], chars.max_characters)
        self.register_buffer("_beginning_of_sentence_characters", begin, persistent=False)
        self.register_buffer("_end_of_sentence_characters", end, persistent=False)

    def get_output_dim(self) -> int:
        """D."""
        return self.output_dim

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """inputs: (B, T, 50) character ids. Returns `token_embedding` (B, T + 2, D) and `mask` (B, T + 2)."""
        width = self.max_characters
        if inputs.dim() == 2 and not inputs.numel():  # ids of sentences without words
            inputs = inputs.new_zeros(len(inputs), 0, width)
        if inputs.dim() != 3 or inputs.shape[-1] != width:
            raise InputError(
                f"inputs: expected {width} character ids per token, (B, T, {width}), found {tuple(inputs.shape)}"
            )
        ids, mask = add_sentence_boundary_token_ids(
            inputs, (inputs > 0).any(dim=-1), self._beginning_of_sentence_characters, self._end_of_sentence_characters
        )
        # vectors are context-independent: each distinct word is encoded once
        words, index = torch.unique(ids.flatten(0, 1), dim=0, return_inverse=True)
        vectors = torch.cat([self._encode(chunk) for chunk in words.split(CHUNK)])  # type: ignore[no-untyped-call]
        return {"token_embedding": vectors[index].view(*mask.shape, -1), "mask": mask}

    def _encode(self, words: Tensor) -> Tensor:
        """(n, 50) to (n, D)."""
        x = functional.embedding(words.long(), self._char_embedding_weights).transpose(1, 2)  # (n, e, 50)
        found = [self._activation(convolution(x).amax(dim=-1)) for convolution in self._convolutions]
        encoded: Tensor = self._projection(self._highways(torch.cat(found, dim=-1)))
        return encoded
