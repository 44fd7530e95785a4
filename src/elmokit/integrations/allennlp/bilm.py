"""The biLM as AllenNLP had it: with sentence marks, and with state that goes from call to call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmokit.config import ModelConfig
from elmokit.errors import ConfigError, InputError
from elmokit.integrations.allennlp.ids import add_sentence_boundary_token_ids, characters, marks
from elmokit.nn.bilm import BiLM, BiLMState
from elmokit.nn.lstm import LstmState
from elmokit.nn.padded import TokenIds, read_padded
from elmokit.nn.token_encoder import TokenEncoder
from elmokit.text.characters import BOS, EOS
from elmokit.weights import allennlp as old_layout
from elmokit.weights import load as load_model
from elmokit.weights import torch_layout


def load(options_file: str | None, weight_file: str | None, requires_grad: bool) -> BiLM:
    """The network of an options and a weight file; of a model folder, if one is named; of the package, if none is."""
    model = load_model((options_file, weight_file) if options_file and weight_file else options_file or weight_file)
    chars = model.config.char_cnn
    if chars is None or chars.alphabet != "bytes" or model.config.n_words:
        raise ConfigError(f"AllenNLP's ELMo: expected a model of UTF-8 bytes, found {model.format}; use elmokit.Elmo")
    return model.bilm.requires_grad_(requires_grad)


class _ElmoLstm(nn.Module):
    """Both stacks of LSTMs, and what they read last: the next call starts from there, row by row of the batch.

    Rows that a smaller batch does not use are kept for later, new rows start from zero. Where sentences must not depend
    on what was read before them, set `stateful` to False.
    """

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.forward_layers, self.backward_layers = bilm.forward_layers, bilm.backward_layers
        self.stateful = True
        self._states: Sequence[Tensor] | None = None  # outputs (L, rows, 2D) and cells (L, rows, 2C)

    def start(self, zero: BiLMState) -> BiLMState:
        """What B sentences start from; `zero` are B rows for those that are new."""
        if self._states is None or not self.stateful:
            return zero
        rows = (
            torch.cat((old.to(new), new[:, old.shape[1] :]), dim=1)[:, : new.shape[1]]
            for old, new in zip(self._states, _tensors(zero), strict=True)
        )
        return _state(*rows)

    def keep(self, end: BiLMState) -> None:
        """Remember where B sentences ended."""
        read = [tensor.detach() for tensor in _tensors(end)]
        before = read if self._states is None else self._states
        self._states = tuple(
            torch.cat((new, old.to(new)[:, new.shape[1] :]), dim=1) for new, old in zip(read, before, strict=True)
        )

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Forget everything, or the rows where mask (rows,) is true."""
        if mask is not None and self._states is not None:
            rows = self._states[0].shape[1]
            if len(mask) != rows:
                raise ValueError(f"mask: expected one value for each of {rows} rows, found {len(mask)}")
            self._states = tuple(state * ~mask.view(1, -1, 1) for state in self._states)
        else:
            self._states = None


def _tensors(state: BiLMState) -> tuple[Tensor, Tensor]:
    """Outputs (L, B, 2D) and cells (L, B, 2C), forward half first."""
    layers = list(zip(*state, strict=True))
    outputs = [torch.cat((forward.output, backward.output), dim=-1) for forward, backward in layers]
    cells = [torch.cat((forward.cell, backward.cell), dim=-1) for forward, backward in layers]
    return torch.stack(outputs), torch.stack(cells)


def _state(outputs: Tensor, cells: Tensor) -> BiLMState:
    """The inverse of `_tensors`."""
    forward, backward = (
        [LstmState(output, cell) for output, cell in zip(*halves, strict=True)]
        for halves in zip(outputs.chunk(2, dim=-1), cells.chunk(2, dim=-1), strict=True)
    )
    return forward, backward


class _TokenEmbedder(nn.Module):
    """Characters to vectors of tokens without context."""

    def __init__(self, encoder: TokenEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.output_dim = encoder.config.lstm.projection_dim

    def get_output_dim(self) -> int:
        """D."""
        return self.output_dim

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """inputs: (B, T, 50) character ids. Returns `token_embedding` (B, T + 2, D) and `mask` (B, T + 2)."""
        ids, mask = add_sentence_boundary_token_ids(
            inputs, (inputs > 0).any(dim=-1), *marks(inputs.shape[-1], inputs.device)
        )
        words, index = torch.unique(ids.flatten(0, 1), dim=0, return_inverse=True)
        return {"token_embedding": self.encoder(words, None)[index].unflatten(0, mask.shape), "mask": mask}


class _ElmoCharacterEncoder(_TokenEmbedder):
    """The token encoder of a model, alone."""

    def __init__(self, options_file: str | None, weight_file: str | None, requires_grad: bool = False) -> None:
        super().__init__(load(options_file, weight_file, requires_grad).token_encoder)


class _ElmoBiLm(nn.Module):
    """All layers of a biLM, with the sentence marks.

    The words of `vocab_to_cache` are encoded once; `word_inputs` then are places in that list, of which 0 is padding.
    """

    _word_embedding: TokenEncoder  # only with cached words: their vectors, and those of the two marks

    def __init__(
        self, options_file: str | None, weight_file: str | None, requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        bilm = load(options_file, weight_file, requires_grad)
        self._token_embedder = _TokenEmbedder(bilm.token_encoder)
        self._elmo_lstm = _ElmoLstm(bilm)
        # A tuple hides a network whose parts are registered already: above, or as _word_embedding.
        self._from_characters = (bilm,)
        self._from_words: tuple[BiLM, ...] = ()
        self._requires_grad = requires_grad
        self.num_layers = bilm.config.n_vectors
        self.max_characters = bilm.config.char_cnn.max_characters  # type: ignore[union-attr]
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)
        self.register_load_state_dict_pre_hook(_accept_old_names)  # type: ignore[no-untyped-call]

    def get_output_dim(self) -> int:
        """2D."""
        return 2 * self._token_embedder.get_output_dim()

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Encode these words once and for all."""
        (bilm,) = self._from_characters
        device = bilm.token_encoder.char_embedding.device
        with torch.no_grad():
            table = bilm.token_encoder(characters([*tokens, BOS, EOS], self.max_characters, device), None)  # (n + 2, D)
        config = ModelConfig(lstm=bilm.config.lstm, char_cnn=None, n_words=len(table), word_dim=table.shape[1])
        with torch.device("meta"):
            cached = BiLM(config=config)
        cached.token_encoder.word_embedding = nn.Parameter(table, requires_grad=self._requires_grad)
        cached.forward_layers, cached.backward_layers = bilm.forward_layers, bilm.backward_layers
        self._word_embedding = cached.token_encoder
        self._from_words = (cached,)

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """inputs: (B, T, 50) character ids; word_inputs: (B, T) places among the cached words.

        Returns `activations`, L + 1 times (B, T + 2, 2D), zero at padding, and `mask` (B, T + 2).
        """
        bilm, ids, mask, ends = self._choose(inputs, word_inputs)
        start = self._elmo_lstm.start(bilm.zero_state(len(mask)))
        read = read_padded(bilm, ids, mask, ends, start)
        self._elmo_lstm.keep(read.state)
        return {"activations": list(read.layers), "mask": read.mask}

    def _choose(self, inputs: Tensor, words: Tensor | None) -> tuple[BiLM, TokenIds, Tensor, TokenIds]:
        """Words, if all of them are cached, or else characters: the network, ids, mask and marks to read with."""
        if words is not None:
            for bilm in self._from_words:
                begin, end = bilm.config.n_words - 2, bilm.config.n_words - 1
                if ((words >= 0) & (words < begin)).all():
                    ends = torch.tensor([begin, end], device=words.device)
                    return bilm, TokenIds(words=words), words > 0, TokenIds(words=ends)
        if inputs.shape[-1] != self.max_characters:
            raise InputError(f"inputs: expected {self.max_characters} character ids a token, found {inputs.shape[-1]}")
        (bilm,) = self._from_characters
        ends = marks(inputs.shape[-1], inputs.device)
        return bilm, TokenIds(inputs), (inputs > 0).any(dim=-1), TokenIds(ends)


def _accept_old_names(module: _ElmoBiLm, state_dict: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Before a state dict is loaded: give the tensors of an AllenNLP checkpoint our names and layouts."""
    (bilm,) = module._from_characters
    for entry in torch_layout.table(bilm.config, old_layout.names(prefix)):
        tensor = state_dict.pop(entry.name, None)  # torch will report what is missing
        if tensor is not None:
            names = (prefix + _place(name) for name in entry.parameters)
            state_dict.update(zip(names, entry.layout.read(tensor), strict=True))
    words = state_dict.pop(f"{prefix}_word_embedding.weight", None)  # (n, D), without the marks
    if words is not None:
        ends = module._word_embedding.word_embedding[-2:].detach()
        state_dict[f"{prefix}_word_embedding.word_embedding"] = torch.cat((words.to(ends), ends))


def _place(name: str) -> str:
    """Where a parameter of `BiLM` stands inside `_ElmoBiLm`."""
    root, _, rest = name.partition(".")
    return f"_token_embedder.encoder.{rest}" if root == "token_encoder" else f"_elmo_lstm.{name}"
