"""Textual entailment (SNLI, SICK): pairs of sentences, and the enhanced sequential inference model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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
from elmokit.tasks.inputs import TextBatch, TextInputs
from elmokit.tasks.masked import masked_max, masked_mean, masked_softmax
from elmokit.tasks.settings import FitSettings, option
from elmokit.tasks.task import Task, TaskBatch, log
from elmokit.text.lines import LineReader
from elmokit.text.tokenizer import words

LABELS = ("entailment", "neutral", "contradiction")
_NO_MAJORITY = "-"  # the annotators did not agree
_COLOURS = {"entailment": "green", "neutral": "yellow", "contradiction": "red"}


@dataclass(frozen=True)
class SnliSettings(FitSettings):
    """ESIM as Chen et al. (2017) and the configuration of the ELMo paper have it, sized to train on two cores."""

    hidden: int = option(150, "Cells of both biLSTMs in each direction, and width of the other layers.", minimum=1)
    elmo_dropout: float = 0.0  # all inputs are dropped out together
    dropout: float = 0.2  # with the 0.5 of the published model, so narrow a network hardly begins to learn
    epochs: int = 12
    patience: int = 3


@dataclass(frozen=True)
class Pair:
    """A premise, a hypothesis, and whether the one entails the other, contradicts it, or neither."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None = None

    def __post_init__(self) -> None:
        for name, tokens in (("premise", self.premise), ("hypothesis", self.hypothesis)):
            if not tokens:
                raise InputError(f"{name}: expected at least one word, found none")

    @classmethod
    def from_text(cls, premise: str, hypothesis: str) -> Pair:
        """Raw text, tokenised."""
        return cls(_tokenise(premise), _tokenise(hypothesis))


class Snli(Task[Pair, SnliSettings]):
    """Does the premise entail the hypothesis, contradict it, or neither?"""

    name: ClassVar[str] = "snli"
    metric: ClassVar[str] = "accuracy"
    settings: ClassVar[type[SnliSettings]] = SnliSettings
    n_texts: ClassVar[int | None] = 2

    def read(self, path: Path) -> list[Pair]:
        """JSON lines with sentence1, sentence2 and gold_label, or tab-separated columns under a header line.

        The header names the columns: gold_label, sentence1 and sentence2 among others, as SNLI's own tables have them,
        or SICK's sentence_A, sentence_B and entailment_judgment (or entailment_label). Text is tokenised. Pairs with
        the label `-`, on which the annotators did not agree, are left out, and their number is logged.
        """
        pairs: list[Pair] = []
        left_out = 0
        tokens: dict[str, tuple[str, ...]] = {}  # a premise has several hypotheses: tokenise it once, keep it once
        fields_of: Callable[[str], Fields] | None = None
        with LineReader(path) as lines:
            for line in filter(str.strip, lines):
                try:
                    if fields_of is None:
                        fields_of = _json_fields if _is_json(line) else _table(line)
                        if fields_of is not _json_fields:
                            continue  # the line was the header
                    premise, hypothesis, label = fields_of(line)
                    if label == _NO_MAJORITY:
                        left_out += 1
                        continue
                    for text in (premise, hypothesis):
                        if text not in tokens:
                            tokens[text] = _tokenise(text)
                    pairs.append(Pair(tokens[premise], tokens[hypothesis], _known(label)))
                except InputError as error:
                    raise InputError(f"{lines.name}: line {lines.line_number}: {error}") from None
        if left_out:
            log.warning("%s: %d pairs without a gold label (-) were left out", path, left_out)
        return pairs

    def texts(self, example: Pair) -> Sequence[Sequence[str]]:
        """The premise and the hypothesis."""
        return [example.premise, example.hypothesis]

    def labels(self, examples: Sequence[Pair]) -> dict[str, list[str]]:
        """The three, whether they occur or not."""
        return {"relation": list(LABELS)}

    def network(self, inputs: TextInputs, settings: SnliSettings, labels: dict[str, list[str]]) -> Esim:
        """A new network."""
        return Esim(inputs=inputs, settings=settings, labels=labels["relation"])

    def size(self, example: Pair) -> int:
        """Premises of one length together, and among them hypotheses: a seventh less padding than by their sum."""
        return 1_000 * len(example.premise) + len(example.hypothesis)

    def score(self, examples: Sequence[Pair], predictions: Sequence[Classified]) -> dict[str, float]:
        """Accuracy."""
        return accuracy(examples, predictions)

    def parse(self, text: str) -> list[Pair]:
        """A premise and a hypothesis with a tab between them, or a JSON line with both; a blank line is no pair."""
        if not text.strip():
            return []
        if _is_json(text):
            fields = _json_fields(text)
            return [Pair.from_text(fields.premise, fields.hypothesis)]
        columns = text.split("\t")
        if len(columns) != 2:
            raise InputError(
                f"expected premise<TAB>hypothesis, or JSON with sentence1 and sentence2, found {len(columns)} column(s)"
            )
        return [Pair.from_text(*columns)]

    def to_json(self, example: Pair, prediction: Classified) -> dict[str, Any]:
        """Both texts, the label and the probabilities."""
        texts = {"premise": " ".join(example.premise), "hypothesis": " ".join(example.hypothesis)}
        return texts | as_json(example, prediction)

    def show(self, example: Pair, prediction: Classified) -> Text:
        """The relation in its colour, then the two sentences."""
        title = headline(prediction.label, _COLOURS[prediction.label], prediction)
        premise, hypothesis = " ".join(example.premise), " ".join(example.hypothesis)
        return Text.assemble(title, "\n  ", premise, "\n  ", ("=> ", "dim"), hypothesis)


class Fields(NamedTuple):
    """What a line says of a pair, or what a format calls that."""

    premise: str
    hypothesis: str
    label: str


FORMATS = (
    Fields("sentence1", "sentence2", "gold_label"),  # SNLI and MultiNLI
    Fields("sentence_A", "sentence_B", "entailment_judgment"),  # SICK, as SemEval-2014 had it
    Fields("sentence_A", "sentence_B", "entailment_label"),  # SICK whole
)


def _is_json(line: str) -> bool:
    return line.lstrip().startswith("{")


def _json_fields(line: str) -> Fields:
    """A line of SNLI's JSON. Without a gold label it has an empty one."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"expected a JSON object, found a fault at character {error.pos + 1} ({error.msg})") from None
    except RecursionError:
        raise InputError("expected a JSON object, found one that is nested too deeply") from None
    if not isinstance(record, dict):
        raise InputError(f"expected a JSON object, found {line[:40]!r}")
    values = [record.get("sentence1"), record.get("sentence2"), record.get("gold_label", "")]
    for name, value in zip(FORMATS[0], values, strict=True):
        if not isinstance(value, str):
            found = "none" if value is None else repr(value)
            raise InputError(f"expected a JSON object with a text {name!r}, found {found}")
    return Fields(*values)


def _table(header: str) -> Callable[[str], Fields]:
    """How to read the lines of a table with this header line."""
    names = header.split("\t")
    for columns in FORMATS:
        if set(columns) <= set(names):
            places = [names.index(name) for name in columns]
            break
    else:
        expected = "; or ".join(", ".join(columns) for columns in FORMATS)
        raise InputError(f"expected JSON lines or a header line with the columns {expected}; found {header[:80]!r}")

    def fields_of(line: str) -> Fields:
        values = line.split("\t")
        if len(values) <= max(places):
            raise InputError(f"expected {len(names)} tab-separated columns, found {len(values)}")
        return Fields(*(values[place] for place in places))

    return fields_of


def _known(label: str) -> str:
    """SICK writes its labels in capitals."""
    if label.lower() not in LABELS:
        raise InputError(f"expected a label {', '.join(LABELS)} or -, found {label!r}")
    return label.lower()


def _tokenise(text: str) -> tuple[str, ...]:
    return tuple(token.text for token in words(text))


class Esim(Classifier):
    """Enhanced sequential inference model (Chen et al. 2017).

    a = biLSTM(premise), b = biLSTM(hypothesis);  ã = softmax_j(a b') b,  b̃ = softmax_i(b a') a;
    v = biLSTM(relu(W [a; ã; a - ã; a * ã])), and alike for b;  a layer of tanh over [mean; max] of both.
    ELMo at the output joins a and b, so that the alignment sees it.
    """

    def __init__(self, *, inputs: TextInputs, settings: SnliSettings, labels: Sequence[str]) -> None:
        super().__init__(labels)
        n_hidden = settings.hidden
        self.inputs = inputs
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = BiLstm(n_in=inputs.input_dim, n_hidden=n_hidden)
        self.projection = nn.Linear(4 * (2 * n_hidden + inputs.elmo_output_dim), n_hidden)
        self.composition = BiLstm(n_in=n_hidden, n_hidden=n_hidden)
        self.hidden = nn.Linear(8 * n_hidden, n_hidden)
        self.output = nn.Linear(n_hidden, len(labels))

    def logits(self, batch: TaskBatch[Pair]) -> Tensor:
        """(B, C) scores of the relations."""
        (first, second), (a, b) = batch.texts, map(self._encode, batch.texts)  # (B, T1, 2H + E), (B, T2, 2H + E)
        a_aligned, b_aligned = align(a, b, first.mask, second.mask)
        pooled = [self._compose(a, a_aligned, first.mask), self._compose(b, b_aligned, second.mask)]
        hidden = torch.tanh(self.hidden(self.dropout(torch.cat(pooled, dim=-1))))  # (B, 8H) -> (B, H)
        logits: Tensor = self.output(self.dropout(hidden))  # (B, C)
        return logits

    def _encode(self, text: TextBatch) -> Tensor:
        """(B, T, 2H + E) the words of a sentence in its context, with ELMo where that is wanted."""
        return self.inputs.output(text, self.encoder(self.dropout(self.inputs(text)), text.mask))

    def _compose(self, x: Tensor, aligned: Tensor, mask: Tensor) -> Tensor:
        """(B, T, 2H + E), the same, and (B, T) to (B, 4H): one sentence in the light of the other."""
        m = self.dropout(F.relu(self.projection(enhance(x, aligned))))  # (B, T, H)
        v = self.composition(m, mask)  # (B, T, 2H)
        return torch.cat([masked_mean(v, mask), masked_max(v, mask)], dim=-1)


def align(a: Tensor, b: Tensor, a_mask: Tensor, b_mask: Tensor) -> tuple[Tensor, Tensor]:
    """a: (B, T1, H), b: (B, T2, H), masks (B, T1) and (B, T2). For every token the other sentence, as it is alike."""
    scores = a @ b.transpose(1, 2)  # (B, T1, T2)
    a_aligned = masked_softmax(scores, b_mask.unsqueeze(1)) @ b  # (B, T1, H)
    b_aligned = masked_softmax(scores.transpose(1, 2), a_mask.unsqueeze(1)) @ a  # (B, T2, H)
    return a_aligned, b_aligned


def enhance(x: Tensor, aligned: Tensor) -> Tensor:
    """(B, T, H) and (B, T, H) to (B, T, 4H): both, their difference and their product."""
    return torch.cat([x, aligned, x - aligned, x * aligned], dim=-1)
