"""Part-of-speech tagging: a biLSTM with a softmax per token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from rich.text import Text
from torch import Tensor, nn

from elmokit.errors import InputError
from elmokit.tasks.shared.encoder import BiLstm
from elmokit.tasks.shared.inputs import TextInputs
from elmokit.tasks.shared.noisy_copies import noisy_copies
from elmokit.tasks.shared.task_base import Task, TaskBatch, TaskNetwork
from elmokit.tasks.shared.task_settings import TaggerSettings
from elmokit.text.lines import COMPRESSED_SUFFIXES
from elmokit.text.tagged_text import read_tagged
from elmokit.text.tokenizer import words_by_sentence
from elmokit.training.settings_fields import option

_UNKNOWN = -100  # target of tags that do not occur in the training data; ignored by the loss


@dataclass(frozen=True)
class PosSettings(TaggerSettings):
    """Network size and training settings."""

    hidden: int = option(200, "Hidden units of the LSTM per direction.", minimum=1)
    layers: int = option(1, "Number of LSTM layers.", minimum=1)
    elmo_dropout: float = 0.0  # `dropout` applies to all inputs together
    epochs: int = 20
    patience: int = 4
    decay_patience: int = 1


@dataclass(frozen=True)
class PosSentence:
    """A tokenized sentence, with its gold tags if known."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    text: str | None = None  # the raw text that was tokenized, if any
    offsets: tuple[tuple[int, int], ...] | None = None  # character offsets of the tokens in `text`


class TokenTag(NamedTuple):
    """The predicted tag of a token."""

    tag: str
    score: float  # its probability


class Pos(Task[PosSentence, PosSettings]):
    """Part-of-speech tagging with the tags of the treebank: in English, those of the Penn Treebank."""

    name: ClassVar[str] = "pos"
    metric: ClassVar[str] = "accuracy"
    settings: ClassVar[type[PosSettings]] = PosSettings
    column: ClassVar[str] = "xpos"  # of CoNLL-U

    def read(self, path: Path) -> list[PosSentence]:
        """Read CoNLL-U (`.conllu`), or columns with the token first and its tag second."""
        name = path.name.removesuffix(path.suffix) if path.suffix in COMPRESSED_SUFFIXES else path.name
        text = read_tagged(path, self.column if name.endswith(".conllu") else "2")
        return [PosSentence(tuple(tokens), tuple(tags)) for tokens, tags in text.tagged_sentences()]

    def texts(self, example: PosSentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return [example.tokens]

    def labels(self, examples: Sequence[PosSentence]) -> dict[str, list[str]]:
        """The tags."""
        return {"tags": sorted({tag for example in examples for tag in example.tags or ()})}

    def network(self, inputs: TextInputs, settings: PosSettings, labels: dict[str, list[str]]) -> SoftmaxTagger:
        """A new network."""
        return SoftmaxTagger(inputs=inputs, settings=settings, tags=labels["tags"])

    def training_examples(self, examples: list[PosSentence], settings: PosSettings) -> list[PosSentence]:
        """The sentences and, with `--noise`, a noisy copy of each."""
        return [*examples, *noisy_copies(examples, settings)]

    def score(self, examples: Sequence[PosSentence], predictions: Sequence[Sequence[TokenTag]]) -> dict[str, float]:
        """Tag accuracy in percent."""
        right = total = 0
        for example, found in zip(examples, predictions, strict=True):
            if example.tags is None:
                raise InputError("accuracy: expected a tag for every token, found a sentence without tags")
            right += sum(tag == one.tag for tag, one in zip(example.tags, found, strict=True))
            total += len(found)
        return {"accuracy": 100 * right / max(1, total)}

    def parse(self, text: str) -> list[PosSentence]:
        """Split a line of text into tokenized sentences."""
        return [
            PosSentence(tuple(token.text for token in tokens), None, text, tuple((t.start, t.end) for t in tokens))
            for tokens in words_by_sentence(text)
        ]

    def from_tokens(self, tokens: Sequence[str]) -> PosSentence:
        """A sentence that is tokenized already."""
        return PosSentence(tuple(tokens))

    def to_json(self, example: PosSentence, prediction: Sequence[TokenTag]) -> dict[str, Any]:
        """{"tokens": [...], "tags": [...], "scores": [...]}; raw text adds "offsets" (character offsets)."""
        offsets = {} if example.offsets is None else {"offsets": [list(pair) for pair in example.offsets]}
        scores = [round(one.score, 4) for one in prediction]
        return {"tokens": list(example.tokens), "tags": [one.tag for one in prediction], "scores": scores, **offsets}

    def show(self, example: PosSentence, prediction: Sequence[TokenTag]) -> Text:
        """Every token with its tag."""
        parts: list[str | tuple[str, str]] = []
        for token, one in zip(example.tokens, prediction, strict=True):
            parts += [token, (f"/{one.tag} ", "dim cyan")]
        return Text.assemble(*parts)


class Upos(Pos):
    """Part-of-speech tagging with the universal tags of Universal Dependencies."""

    name: ClassVar[str] = "upos"
    column: ClassVar[str] = "upos"


class SoftmaxTagger(TaskNetwork):
    """Softmax tagger: inputs, dropout, biLSTM, dropout, and linear scores of the tags of every token."""

    def __init__(self, *, inputs: TextInputs, settings: PosSettings, tags: Sequence[str]) -> None:
        super().__init__()
        self.inputs = inputs
        self.tags = list(tags)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = BiLstm(
            n_in=inputs.input_dim, n_hidden=settings.hidden, n_layers=settings.layers, dropout=settings.dropout
        )
        self.scores = nn.Linear(self.encoder.output_dim + inputs.elmo_output_dim, len(self.tags))
        self._number = {tag: number for number, tag in enumerate(self.tags)}

    def loss(self, batch: TaskBatch[PosSentence]) -> Tensor:
        """Cross-entropy: mean negative log-likelihood of the tags over all tokens, ()."""
        [text] = batch.texts
        targets = torch.full_like(text.mask, _UNKNOWN, dtype=torch.long)  # (B, T)
        for b, example in enumerate(batch.examples):
            numbers = [self._number.get(tag, _UNKNOWN) for tag in example.tags or ()]
            targets[b, : len(numbers)] = torch.tensor(numbers, device=targets.device)
        return F.cross_entropy(self._logits(batch).flatten(0, 1), targets.flatten(), ignore_index=_UNKNOWN)

    def predict(self, batch: TaskBatch[PosSentence]) -> list[list[TokenTag]]:
        """The most probable tag of every token."""
        scores, numbers = torch.softmax(self._logits(batch), dim=-1).max(dim=-1)  # (B, T)
        rows = zip(batch.examples, numbers.tolist(), scores.tolist(), strict=True)
        return [
            [TokenTag(self.tags[n], p) for n, p in zip(row[: len(e.tokens)], found[: len(e.tokens)], strict=True)]
            for e, row, found in rows
        ]

    def _logits(self, batch: TaskBatch[PosSentence]) -> Tensor:
        """Scores of the tags, (B, T, K)."""
        [text] = batch.texts
        h = self.encoder(self.dropout(self.inputs(text)), text.mask)  # (B, T, 2H)
        logits: Tensor = self.scores(self.dropout(self.inputs.output(text, h)))
        return logits
