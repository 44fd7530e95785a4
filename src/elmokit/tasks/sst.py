"""Sentiment of sentences (SST-5): bracketed trees, and the biattentive classification network."""

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
from elmokit.tasks.classification import Classified, Classifier, accuracy, as_json, headline
from elmokit.tasks.encoder import BiLstm
from elmokit.tasks.inputs import TextInputs
from elmokit.tasks.masked import masked_max, masked_mean, masked_softmax
from elmokit.tasks.settings import FitSettings, option
from elmokit.tasks.task import Task, TaskBatch
from elmokit.text.lines import LineReader
from elmokit.text.tokenizer import words

NAMES = {"0": "very negative", "1": "negative", "2": "neutral", "3": "positive", "4": "very positive"}
_COLOURS = {"0": "red", "1": "bright_red", "2": "yellow", "3": "bright_green", "4": "green"}


@dataclass(frozen=True)
class SstSettings(FitSettings):
    """BCN as McCann et al. (2017) and the configuration of the ELMo paper have it, sized to train on two cores."""

    hidden: int = option(150, "Cells of the encoder and of the integrator, in each direction.", minimum=1)
    phrases: bool = option(False, "Train on all labelled phrases too, not on whole sentences alone.")
    encoder_dropout: float = option(0.25, "Share dropped before the encoder.", minimum=0, below=1)
    integrator_dropout: float = option(0.1, "Share dropped after the integrator.", minimum=0, below=1)
    output_dropout: float = option(0.25, "Share dropped before each layer of the classifier.", minimum=0, below=1)
    dropout: float = 0.2  # of the inputs; the published 0.5 is too much for vectors of 100
    elmo_dropout: float = 0.0  # all inputs are dropped out together
    epochs: int = 25
    patience: int = 6


class Phrase(NamedTuple):
    """A node of the tree: tokens `start` to `end - 1`, with a label of its own."""

    start: int
    end: int
    label: str


@dataclass(frozen=True)
class Sentence:
    """A sentence with its sentiment, 0 (very negative) to 4 (very positive), and its labelled phrases."""

    tokens: tuple[str, ...]
    label: str | None = None
    phrases: tuple[Phrase, ...] = ()  # all nodes below the root

    def __post_init__(self) -> None:
        if not self.tokens:
            raise InputError("sentence: expected at least one word, found none")


class Sst(Task[Sentence, SstSettings]):
    """One of five sentiments for a sentence."""

    name: ClassVar[str] = "sst"
    metric: ClassVar[str] = "accuracy"
    settings: ClassVar[type[SstSettings]] = SstSettings

    def read(self, path: Path) -> list[Sentence]:
        """Trees, one a line, such as `(3 (2 a) (3 (3 good) (2 film)))`; a sentence's label is that of the root."""
        sentences = []
        with LineReader(path) as lines:
            for line in lines:
                if line.strip():
                    try:
                        sentences.append(read_tree(line))
                    except InputError as error:
                        raise InputError(f"{lines.name}: line {lines.line_number}: {error}") from None
        return sentences

    def texts(self, example: Sentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return [example.tokens]

    def labels(self, examples: Sequence[Sentence]) -> dict[str, list[str]]:
        """The five, whether they occur or not."""
        return {"sentiment": list(NAMES)}

    def network(self, inputs: TextInputs, settings: SstSettings, labels: dict[str, list[str]]) -> Bcn:
        """A new network."""
        return Bcn(inputs=inputs, settings=settings, labels=labels["sentiment"])

    def training_examples(self, examples: list[Sentence], settings: SstSettings) -> list[Sentence]:
        """The sentences, and with `--phrases` every different phrase of theirs as a sentence of its own."""
        if not settings.phrases:
            return examples
        phrases = (
            Sentence(example.tokens[phrase.start : phrase.end], phrase.label)
            for example in examples
            for phrase in example.phrases
        )
        whole = (Sentence(example.tokens, example.label) for example in examples)
        return list(dict.fromkeys((*whole, *phrases)))

    def score(self, examples: Sequence[Sentence], predictions: Sequence[Classified]) -> dict[str, float]:
        """Accuracy over whole sentences."""
        return accuracy(examples, predictions)

    def parse(self, text: str) -> list[Sentence]:
        """A line of raw text is one sentence to judge; a blank line is none."""
        tokens = tuple(token.text for token in words(text))
        return [Sentence(tokens)] if tokens else []

    def to_json(self, example: Sentence, prediction: Classified) -> dict[str, Any]:
        """The text, the label with its name, and the probabilities."""
        return {
            "text": " ".join(example.tokens), "sentiment": NAMES[prediction.label], **as_json(example, prediction)
        }  # fmt: skip

    def show(self, example: Sentence, prediction: Classified) -> Text:
        """The sentiment in its colour, then the sentence."""
        title = headline(NAMES[prediction.label], _COLOURS[prediction.label], prediction)
        return Text.assemble(title, "  ", " ".join(example.tokens))


# not \s, which takes in more: SST has words like "2 1/2" with a no-break space inside
_PIECE = re.compile(r"\([ \t]*(?P<open>[^ \t\r\n()]*)|(?P<close>\))|(?P<word>[^ \t\r\n()]+)")
_MAY_FOLLOW = {"": {"open"}, "open": {"open", "word"}, "word": {"close"}, "close": {"open", "close"}}
_ESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def read_tree(line: str) -> Sentence:
    r"""A bracketed tree. The Treebank's escapes (`-LRB-`, `\/`) become the signs that they stand for."""
    tokens: list[str] = []
    phrases: list[Phrase] = []  # nodes that are closed
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
        raise _not_a_tree(f"{len(open_nodes)} brackets that are not closed")
    root = phrases.pop()
    return Sentence(tuple(tokens), root.label, tuple(phrases))


def _not_a_tree(found: str) -> InputError:
    return InputError(f"expected one tree such as (3 (2 a) (3 (3 good) (2 film))), found {found}")


class Bcn(Classifier):
    """Biattentive classification network (McCann et al. 2017) for one sentence, which attends to itself.

    e = relu(W x);  h = biLSTM(e);  c = softmax(h h') h;  g = biLSTM([h; h - c; h * c]);
    p = [max g; mean g; min g; sum_t softmax(g v)_t g_t], and three maxout layers.

    Without the batch normalisation of the first publication, as in the configuration of the ELMo paper's authors:
    batches of like lengths have statistics that no sentence has at test time, and with it the same training gave
    25.6% on dev after an epoch, without it 37.4%.
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

    def logits(self, batch: TaskBatch[Sentence]) -> Tensor:
        """(B, C) scores of the sentences."""
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
    """h: (B, T, H), mask: (B, T). Returns (B, T, H): for every token the others (and itself), as alike as they are."""
    return masked_softmax(h @ h.transpose(1, 2), mask.unsqueeze(1)) @ h


class Maxout(nn.Module):
    """max_j (W_j x + b_j) over 4 linear maps (Goodfellow et al. 2013), after dropout."""

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
