"""biLM of AllenNLP, with sentence boundaries and state that is carried from call to call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmokit.integrations.allennlp.characters import _ElmoCharacterEncoder
from elmokit.integrations.allennlp.earlier_names import rename_earlier
from elmokit.integrations.allennlp.indexer import characters
from elmokit.integrations.allennlp.lstm import ElmoLstm
from elmokit.integrations.allennlp.pretrained import PathLike, read
from elmokit.integrations.allennlp.util import add_sentence_boundary_token_ids
from elmokit.text.characters import BOS, EOS

logger = logging.getLogger(__name__)


class _ElmoBiLm(nn.Module):
    """All layers of a biLM, sentence boundaries included.

    The words of `vocab_to_cache` are encoded once; `word_inputs` are then indices into that list, with 0 for padding.
    """

    _word_embedding: nn.Embedding | None
    _bos_embedding: Tensor | None  # (D,) vector of the boundary token, with cached words only
    _eos_embedding: Tensor | None

    def __init__(
        self,
        options_file: PathLike,
        weight_file: PathLike,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        pretrained = read(options_file, weight_file)
        lstm = pretrained.config.lstm
        self._token_embedder = _ElmoCharacterEncoder._from_pretrained(pretrained, requires_grad)
        self._requires_grad = requires_grad
        with torch.device("meta"):
            self._elmo_lstm = ElmoLstm(
                input_size=lstm.projection_dim,
                hidden_size=lstm.projection_dim,
                cell_size=lstm.dim,
                num_layers=lstm.n_layers,
                requires_grad=requires_grad,
                memory_cell_clip_value=lstm.cell_clip,
                state_projection_clip_value=lstm.proj_clip,
            )
        self._elmo_lstm.skip_connections = lstm.skip_connections
        self._elmo_lstm.load_state_dict(pretrained.part("_elmo_lstm."), assign=True)
        self._elmo_lstm.requires_grad_(requires_grad)
        self.num_layers = lstm.n_layers + 1
        self._word_embedding = None
        self.register_buffer("_bos_embedding", None, persistent=False)
        self.register_buffer("_eos_embedding", None, persistent=False)
        self._config = pretrained.config
        self.register_load_state_dict_pre_hook(_accept_earlier_names)  # type: ignore[no-untyped-call]
        if vocab_to_cache:
            if requires_grad:
                logger.warning(
                    "vocab_to_cache with requires_grad: cached vectors and character encoder are fine-tuned separately"
                )
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def get_output_dim(self) -> int:
        """2D."""
        return 2 * self._token_embedder.get_output_dim()

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Encode these words once and set `_word_embedding`, `_bos_embedding` and `_eos_embedding`."""
        encoder = self._token_embedder
        device = encoder._char_embedding_weights.device
        ids = characters([BOS, EOS, *tokens], encoder.max_characters, device)  # (2 + n, 50)
        with torch.no_grad():
            # as one sentence; the boundaries that the encoder adds are dropped
            vectors = encoder(ids.unsqueeze(0))["token_embedding"][0, 1:-1]  # (2 + n, D)
        self._bos_embedding, self._eos_embedding = vectors[0].clone(), vectors[1].clone()
        table = vectors[2:].clone()
        table[0] = 0  # padding
        self._word_embedding = nn.Embedding(len(table), table.shape[1], padding_idx=0, _weight=table)
        self._word_embedding.weight.requires_grad = self._requires_grad

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """inputs: (B, T, 50) character ids; word_inputs: (B, T) indices of cached words.

        Returns `activations`, L + 1 times (B, T + 2, 2D), zero at padding, and `mask` (B, T + 2). Where a word is not
        cached, the characters of the whole batch are read instead.
        """
        table = self._word_embedding
        if table is not None and word_inputs is not None and _all_in(word_inputs, len(table.weight)):
            filled = word_inputs > 0
            tokens, _ = add_sentence_boundary_token_ids(
                table(word_inputs), filled, self._bos_embedding, self._eos_embedding
            )
            _, mask = add_sentence_boundary_token_ids(word_inputs, filled, 1, 1)
        else:
            encoded = self._token_embedder(inputs)
            tokens, mask = encoded["token_embedding"], encoded["mask"]
        layers = self._elmo_lstm(tokens, mask)
        lowest = torch.cat((tokens, tokens), dim=-1) * mask.unsqueeze(-1)
        return {"activations": [lowest, *layers], "mask": mask}


def _accept_earlier_names(module: _ElmoBiLm, state_dict: dict[str, Tensor], prefix: str, *_: Any) -> None:
    rename_earlier(module._config, state_dict, prefix)


def _all_in(words: Tensor, n: int) -> bool:
    return bool(((words >= 0) & (words < n)).all())
