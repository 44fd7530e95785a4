"""Token inputs of a task network: [static vector; character CNN; ELMo], and ELMo again at the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import cast
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmokit.nn.bilm import BiLM
from elmokit.nn.padded import TokenIds, read_padded
from elmokit.nn.scalar_mix import ScalarMix
from elmokit.tasks.shared.task_settings import InputSettings

N_CHARACTERS = 262  # ids of elmokit.text.characters.ByteCharacters
PADDING, UNKNOWN = 0, 1  # rows of the word table


@dataclass(frozen=True)
class SentenceIds:
    """S sentences as biLM input, padded to W; concatenated, they are the tokens of a batch."""

    ids: TokenIds  # (S, W, M) and (S, W)
    mask: Tensor  # (S, W) true at tokens

    def to(self, device: torch.device | str) -> SentenceIds:
        """Move the sentences to a device."""
        return SentenceIds(self.ids.map(lambda ids: ids.to(device)), self.mask.to(device))


@dataclass(frozen=True, eq=False)
class TextBatch:
    """B token sequences, padded to T."""

    mask: Tensor  # (B, T) true at tokens
    words: Tensor  # (B, T) rows of the word table: 0 padding, 1 unknown
    characters: Tensor | None = None  # (U, M) byte ids of the distinct words, for a character CNN; or None
    character_rows: Tensor | None = None  # (B, T) index of each token's word in `characters`; 0 at padding
    layers: Tensor | None = None  # (L + 1, B, T, 2D) float32 layers of a frozen biLM, zero at padding; or None
    sentences: SentenceIds | None = None  # biLM input, if the biLM is fine-tuned with the task; or None

    @property
    def lengths(self) -> Tensor:
        """Sequence lengths, (B,)."""
        return self.mask.sum(dim=1)

    def to(self, device: torch.device | str) -> TextBatch:
        """Move the batch to a device."""
        there = {item.name: value for item in fields(self) if (value := getattr(self, item.name)) is not None}
        return replace(self, **{name: value.to(device) for name, value in there.items()})


@dataclass(frozen=True)
class ElmoSource:
    """Shape of the ELMo layers, and the biLM itself if it is fine-tuned with the task."""

    n_layers: int  # L + 1
    dim: int  # 2D
    bilm: BiLM | None = None
    marks: TokenIds | None = None  # ids of the start and end markers, (2, ...), for that biLM


class WordTable(nn.Module):
    """Word embedding table whose first rows are trained and whose other rows are fixed.

    Trained are the unknown word and the training words without a pretrained vector; with `train_vectors`, all training
    words. Row 0 is padding.
    """

    fixed: Tensor

    def __init__(self, *, learned: Tensor, fixed: Tensor | None = None) -> None:
        """learned: (n, d) initial values of the trained rows, n at least 2; fixed: (m, d)."""
        super().__init__()
        self.learned = nn.Parameter(learned.clone())
        self.dim = learned.shape[1]
        self.register_buffer("fixed", learned.new_empty(0, self.dim) if fixed is None else fixed, persistent=False)

    def forward(self, words: Tensor) -> Tensor:
        """(B, T) rows to (B, T, d)."""
        n = len(self.learned)
        learned = functional.embedding(words.clamp(max=n - 1), self.learned)
        if not len(self.fixed):
            return learned
        fixed = functional.embedding((words - n).clamp(min=0), self.fixed)
        return torch.where((words < n).unsqueeze(-1), learned, fixed)


class CharacterCnn(nn.Module):
    """Character CNN: embedding, convolution, max-pooling over positions (Ma and Hovy 2016)."""

    def __init__(self, *, dim: int, n_filters: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(N_CHARACTERS, dim).uniform_(-((3 / dim) ** 0.5), (3 / dim) ** 0.5))
        self.filters = nn.Linear(width * dim, n_filters)
        self.width = width

    def forward(self, characters: Tensor) -> Tensor:
        """(U, M) ids, M at least the filter width, to (U, n_filters)."""
        vectors = functional.embedding(characters, self.table)  # (U, M, dim)
        windows = vectors.unfold(1, self.width, 1).transpose(2, 3).flatten(2)  # (U, M - width + 1, width * dim)
        return functional.relu(self.filters(windows).amax(dim=1))


class TextInputs(nn.Module):
    """Input and output layers with ELMo that every task shares (Peters et al. 2018, section 3.3).

    `forward` returns [x; ELMo] and `output` returns [h; ELMo], each with its own scalar mix, as the settings say.
    """

    def __init__(self, *, settings: InputSettings, words: WordTable | None, elmo: ElmoSource | None = None) -> None:
        """words: None without static vectors. elmo: None with `--no-elmo`."""
        super().__init__()
        self.words = words
        self.characters: CharacterCnn | None = None
        if settings.character_filters:
            self.characters = CharacterCnn(
                dim=settings.character_dim, n_filters=settings.character_filters, width=settings.character_width
            )
        self.bilm = elmo.bilm if elmo else None
        self.marks = elmo.marks if elmo else None
        places = settings.places if elmo else ()
        self.mixes = nn.ModuleDict(
            {
                place: ScalarMix(n_layers=elmo.n_layers, layer_norm=settings.layer_norm, top_only=settings.mix == "top")
                for place in places
                if elmo
            }
        )
        self.dropout = nn.Dropout(settings.elmo_dropout)
        elmo_dim = elmo.dim if elmo else 0
        static = (words.dim if words else 0) + settings.character_filters
        self.input_dim = static + (elmo_dim if "input" in places else 0)
        self.elmo_output_dim = elmo_dim if "output" in places else 0
        self._read: WeakKeyDictionary[TextBatch, Tensor] = WeakKeyDictionary()  # layers computed by a fine-tuned biLM

    def forward(self, batch: TextBatch) -> Tensor:
        """Input vectors [static; characters; ELMo], (B, T, input_dim), zero at padding."""
        self._read.pop(batch, None)
        keep = batch.mask.unsqueeze(-1)
        parts = []
        if self.words is not None:
            parts.append(self.words(batch.words) * keep)
        if self.characters is not None:
            assert batch.characters is not None and batch.character_rows is not None, "these inputs need characters"
            parts.append(functional.embedding(batch.character_rows, self.characters(batch.characters)) * keep)
        if "input" in self.mixes:
            parts.append(self._elmo("input", batch))
        return torch.cat(parts, dim=-1)

    def output(self, batch: TextBatch, h: Tensor) -> Tensor:
        """Append ELMo to the hidden states h: (B, T, H) to (B, T, H + elmo_output_dim), or h unchanged."""
        return torch.cat((h, self._elmo("output", batch)), dim=-1) if "output" in self.mixes else h

    def l2(self) -> Tensor:
        """L2 penalty, (): sum over the mixes of sum(s^2); without a mix, a zero valid on every device."""
        return sum((cast(ScalarMix, mix).l2() for mix in self.mixes.values()), torch.zeros(()))

    def mix_weights(self) -> Mapping[str, tuple[list[float], float]]:
        """Softmax-normalized layer weights and gamma, for every place where ELMo is added."""
        return {
            place: (cast(ScalarMix, mix).weights().tolist(), cast(ScalarMix, mix).gamma.item())
            for place, mix in self.mixes.items()
        }

    def _elmo(self, place: str, batch: TextBatch) -> Tensor:
        """Mixed ELMo vectors, (B, T, 2D), zero at padding."""
        mixed = self.mixes[place](self._layers(batch), batch.mask)
        dropped: Tensor = self.dropout(mixed * batch.mask.unsqueeze(-1))
        return dropped

    def _layers(self, batch: TextBatch) -> Tensor:
        """Layers (L + 1, B, T, 2D): from the batch if the biLM is frozen, else computed once for both places."""
        if self.bilm is None:
            assert batch.layers is not None, "these inputs need the layers of a biLM"
            return batch.layers
        if batch not in self._read:
            assert batch.sentences is not None and self.marks is not None, "these inputs need ids for the biLM"
            marks = self.marks.map(lambda ids: ids.to(batch.mask.device))
            read = read_padded(self.bilm, batch.sentences.ids, batch.sentences.mask, marks)
            self._read[batch] = laid_out(*read.without_marks(), batch.mask)
        return self._read[batch]


def laid_out(layers: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
    """Regroup tokens from sentences, (L + 1, S, W, 2D) with mask (S, W), to texts, (L + 1, B, T, 2D) with (B, T)."""
    texts = layers.new_zeros(len(layers), *wanted.shape, layers.shape[-1])
    texts[:, wanted] = layers[:, mask]
    return texts
