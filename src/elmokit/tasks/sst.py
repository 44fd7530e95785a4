"""Sentiment classification (SST-5) with the biattentive classification network (BCN)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from rich.text import Text
from torch import Tensor, nn

from elmokit.errors import InputError
from elmokit.tasks.shared.classification import Classified, Classifier, accuracy, as_json, headline
from elmokit.tasks.shared.encoder import BiLstm
from elmokit.tasks.shared.inputs import TextInputs
from elmokit.tasks.shared.masked import masked_max, masked_mean, masked_softmax
from elmokit.tasks.shared.noisy_copies import noisy_copies
from elmokit.tasks.shared.task_base import Task, TaskBatch
from elmokit.tasks.shared.task_settings import TaggerSettings
from elmokit.text.lines import LineReader
from elmokit.text.tokenizer import words
from elmokit.training.settings_fields import option

NAMES = {"0": "very negative", "1": "negative", "2": "neutral", "3": "positive", "4": "very positive"}
_COLORS = {"0": "red", "1": "bright_red", "2": "yellow", "3": "bright_green", "4": "green"}


@dataclass(frozen=True)
class SstSettings(TaggerSettings):
    """BCN settings of McCann et al. (2017) and the ELMo paper, scaled down to train on two cores."""

    hidden: int = option(150, "Hidden units of the encoder and the integrator per direction.", minimum=1)
    phrases: bool = option(False, "Train on all labeled phrases as well as on whole sentences.")
    encoder_dropout: float = option(0.25, "Dropout probability before the encoder.", minimum=0, below=1)
    integrator_dropout: float = option(0.1, "Dropout probability after the integrator.", minimum=0, below=1)
    output_dropout: float = option(0.25, "Dropout probability before each classifier layer.", minimum=0, below=1)
    dropout: float = 0.2  # on the inputs; the published 0.5 is too much for 100-dimensional vectors
    elmo_dropout: float = 0.0  # `dropout` applies to all inputs together
    epochs: int = 25
    patience: int = 6


class Phrase(NamedTuple):
    """A labeled node of the tree: tokens `start` to `end - 1`."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class SstSentence:
    """A sentence with its sentiment, 0 (very negative) to 4 (very positive), and its labeled phrases."""

    tokens: tuple[str, ...]
    label: str | None = None
    phrases: tuple[Phrase, ...] = ()  # all nodes below the root

    def __post_init__(self) -> None:
        if not self.tokens:
            raise InputError("sentence: expected at least one word, found none")


class Sst(Task[SstSentence, SstSettings]):
    """Five-way sentiment classification of sentences."""

    name: ClassVar[str] = "sst"
    metric: ClassVar[str] = "accuracy"
    settings: ClassVar[type[SstSettings]] = SstSettings

    def read(self, path: Path) -> list[SstSentence]:
        """Read trees, one per line, such as `(3 (2 a) (3 (3 good) (2 film)))`; the root has the sentence's label."""
        sentences = []
        with LineReader(path) as lines:
            for line in lines:
                if line.strip():
                    try:
                        sentences.append(read_tree(line))
                    except InputError as error:
                        raise InputError(f"{lines.name}: line {lines.line_number}: {error}") from None
        return sentences

    def texts(self, example: SstSentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return [example.tokens]

    def labels(self, examples: Sequence[SstSentence]) -> dict[str, list[str]]:
        """The five labels, whether they occur in the data or not."""
        return {"sentiment": list(NAMES)}

    def network(self, inputs: TextInputs, settings: SstSettings, labels: dict[str, list[str]]) -> Bcn:
        """A new BCN network."""
        return Bcn(inputs=inputs, settings=settings, labels=labels["sentiment"])

    def training_examples(self, examples: list[SstSentence], settings: SstSettings) -> list[SstSentence]:
        """The sentences; with `--phrases` every distinct phrase as a sentence, too; with `--noise` noisy copies."""
        copies = noisy_copies(examples, settings)
        if not settings.phrases:
            return [*examples, *copies]
        phrases = (
            SstSentence(example.tokens[phrase.start : phrase.end], phrase.label)
            for example in examples
            for phrase in example.phrases
        )
        whole = (SstSentence(example.tokens, example.label) for example in examples)
        return [*dict.fromkeys((*whole, *phrases)), *copies]

    def score(self, examples: Sequence[SstSentence], predictions: Sequence[Classified]) -> dict[str, float]:
        """Accuracy over whole sentences."""
        return accuracy(examples, predictions)

    def parse(self, text: str) -> list[SstSentence]:
        """Tokenize a line of raw text as one sentence; a blank line yields nothing."""
        tokens = tuple(token.text for token in words(text))
        return [SstSentence(tokens)] if tokens else []

    def from_tokens(self, tokens: Sequence[str]) -> SstSentence:
        """A sentence that is tokenized already."""
        return SstSentence(tuple(tokens))

    def to_json(self, example: SstSentence, prediction: Classified) -> dict[str, Any]:
        """The text, the label with its name, and the probabilities."""
        return {"text": " ".join(example.tokens), "sentiment": NAMES[prediction.label], **as_json(example, prediction)}

    def show(self, example: SstSentence, prediction: Classified) -> Text:
        """The sentiment in its color, then the sentence."""
        title = headline(NAMES[prediction.label], _COLORS[prediction.label], prediction)
        return Text.assemble(title, "  ", " ".join(example.tokens))


# not \s, which also matches no-break spaces: SST has words such as "2 1/2" with one inside
_PIECE = re.compile(r"\([ \t]*(?P<open>[^ \t\r\n()]*)|(?P<close>\))|(?P<word>[^ \t\r\n()]+)")
_MAY_FOLLOW = {"": {"open"}, "open": {"open", "word"}, "word": {"close"}, "close": {"open", "close"}}
_ESCAPED = {"``": '"', "''": '"', "`": "'"}
_ESCAPED |= {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def read_tree(line: str) -> SstSentence:
    r"""Parse a bracketed tree; Penn Treebank escapes (`-LRB-`, `\/`, backquotes) are decoded."""
    tokens: list[str] = []
    phrases: list[Phrase] = []  # closed nodes
    open_nodes: list[tuple[int, str]] = []  # start and label
    before = ""
    for match in _PIECE.finditer(line):
        kind = match.lastgroup or ""
        if kind not in _MAY_FOLLOW[before] or (before == "close" and not open_nodes):
            raise _not_a_tree(f"{match.group()!r} at character {match.start() + 1}")
        if kind == "open":
            if match["open"] not in NAMES:
                raise InputError(
                    f"expected a label 0 to 4 after every opening bracket, found {match['open']!r} "
                    f"at character {match.start() + 1}"
                )
            open_nodes.append((len(tokens), match["open"]))
        elif kind == "word":
            tokens.append(_ESCAPED.get(match["word"]) or re.sub(r"\\([/*])", r"\1", match["word"]))
        else:
            start, label = open_nodes.pop()
            phrases.append(Phrase(start, len(tokens), label))
        before = kind
    if open_nodes or not phrases:
        raise _not_a_tree(f"{len(open_nodes)} unclosed brackets")
    root = phrases.pop()
    return SstSentence(tuple(tokens), root.label, tuple(phrases))


def _not_a_tree(found: str) -> InputError:
    return InputError(f"expected one tree such as (3 (2 a) (3 (3 good) (2 film))), found {found}")


class Bcn(Classifier):
    """Biattentive classification network (McCann et al. 2017) with self-attention over one sentence.

    e = relu(W x);  h = biLSTM(e);  c = softmax(h h') h;  g = biLSTM([h; h - c; h * c]);
    p = [max g; mean g; min g; sum_t softmax(g v)_t g_t], and three maxout layers.

    Without the batch normalization of the original paper, as in the configuration of the ELMo authors: statistics of
    length-sorted batches do not match those at test time. Dev accuracy after one epoch was 25.6% with it and 37.4%
    without.
    """

    def __init__(self, *, inputs: TextInputs, settings: SstSettings, labels: Sequence[str]) -> None:
        super().__init__(labels)
        self.inputs = inputs
        n_hidden = settings.hidden
        n_encoded = 2 * n_hidden + inputs.elmo_output_dim
        self.input_dropout = nn.Dropout(settings.dropout)
        self.pre_encoder = nn.Linear(inputs.input_dim, n_hidden)
        self.encoder_dropout = nn.Dropout(settings.encoder_dropout)
        self.encoder = BiLstm(n_in=n_hidden, n_hidden=n_hidden)
        self.integrator = BiLstm(n_in=3 * n_encoded, n_hidden=n_hidden)
        self.integrator_dropout = nn.Dropout(settings.integrator_dropout)
        self.self_attention = nn.Linear(2 * n_hidden, 1)
        n_pooled = 8 * n_hidden
        self.output = nn.Sequential(
            Maxout(n_in=n_pooled, n_out=n_pooled // 2, dropout=settings.output_dropout),
            Maxout(n_in=n_pooled // 2, n_out=n_pooled // 4, dropout=settings.output_dropout),
            Maxout(n_in=n_pooled // 4, n_out=len(labels), dropout=0.0),
        )

    def logits(self, batch: TaskBatch[SstSentence]) -> Tensor:
        """Logits of the sentiments, (B, C)."""
        text = batch.texts[0]
        mask = text.mask  # (B, T)
        x = self.input_dropout(self.inputs(text))  # (B, T, input_dim)
        e = self.encoder_dropout(F.relu(self.pre_encoder(x)))  # (B, T, H)
        h = self.inputs.output(text, self.encoder(e, mask))  # (B, T, 2H + E)
        c = self_biattention(h, mask)  # (B, T, 2H + E)
        g = self.integrator(torch.cat([h, h - c, h * c], dim=-1), mask)  # (B, T, 2H)
        g = self.integrator_dropout(g)
        beta = masked_softmax(self.self_attention(g).squeeze(-1), mask)  # (B, T)
        attended = (beta.unsqueeze(1) @ g).squeeze(1)  # (B, 2H)
        pooled = torch.cat([masked_max(g, mask), masked_mean(g, mask), -masked_max(-g, mask), attended], dim=-1)
        logits: Tensor = self.output(pooled)  # (B, 8H) -> (B, C)
        return logits


def self_biattention(h: Tensor, mask: Tensor) -> Tensor:
    """Dot-product self-attention: h (B, T, H) and mask (B, T) to (B, T, H)."""
    return masked_softmax(h @ h.transpose(1, 2), mask.unsqueeze(1)) @ h


class Maxout(nn.Module):
    """Maxout layer, max_j (W_j x + b_j) over 4 linear maps (Goodfellow et al. 2013), after dropout."""

    POOL = 4

    def __init__(self, *, n_in: int, n_out: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(n_in, self.POOL * n_out)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n_in) to (B, n_out)."""
        maps = self.linear(self.dropout(x)).view(len(x), -1, self.POOL)  # (B, n_out, POOL)
        largest: Tensor = maps.amax(dim=-1)
        return largest
