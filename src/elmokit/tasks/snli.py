"""Natural language inference (SNLI, SICK) with the enhanced sequential inference model (ESIM)."""

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

from elmokit.disk.json_file import strict_loads
from elmokit.errors import InputError
from elmokit.tasks.shared.classification import Classified, Classifier, accuracy, as_json, headline
from elmokit.tasks.shared.encoder import BiLstm
from elmokit.tasks.shared.inputs import TextBatch, TextInputs
from elmokit.tasks.shared.masked import masked_max, masked_mean, masked_softmax
from elmokit.tasks.shared.task_base import Task, TaskBatch, log
from elmokit.tasks.shared.task_settings import FitSettings
from elmokit.text.lines import LineReader
from elmokit.text.tokenizer import words
from elmokit.training.settings_fields import option

LABELS = ("entailment", "neutral", "contradiction")
_NO_MAJORITY = "-"  # no majority among the annotators
_COLORS = {"entailment": "green", "neutral": "yellow", "contradiction": "red"}


@dataclass(frozen=True)
class SnliSettings(FitSettings):
    """ESIM settings of Chen et al. (2017) and the ELMo paper, scaled down to train on two cores."""

    hidden: int = option(150, "Hidden units of both biLSTMs per direction, and of the feed-forward layers.", minimum=1)
    elmo_dropout: float = 0.0  # `dropout` applies to all inputs together
    dropout: float = 0.2  # with the published 0.5, a network this narrow hardly learns
    epochs: int = 12
    patience: int = 3


@dataclass(frozen=True)
class Pair:
    """A premise, a hypothesis, and their relation: entailment, neutral or contradiction."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None = None

    def __post_init__(self) -> None:
        for name, tokens in (("premise", self.premise), ("hypothesis", self.hypothesis)):
            if not tokens:
                raise InputError(f"{name}: expected at least one word, found none")

    @classmethod
    def from_text(cls, premise: str, hypothesis: str) -> Pair:
        """Tokenize raw text."""
        return cls(_tokenize(premise), _tokenize(hypothesis))


class Snli(Task[Pair, SnliSettings]):
    """Natural language inference: does the premise entail the hypothesis, contradict it, or neither?"""

    name: ClassVar[str] = "snli"
    metric: ClassVar[str] = "accuracy"
    settings: ClassVar[type[SnliSettings]] = SnliSettings
    n_texts: ClassVar[int | None] = 2

    def read(self, path: Path) -> list[Pair]:
        """Read JSON lines with sentence1, sentence2 and gold_label, or tab-separated columns with a header line.

        The header must contain SNLI's gold_label, sentence1 and sentence2, or SICK's sentence_A, sentence_B and
        entailment_judgment (or entailment_label). Text is tokenized. Pairs labeled `-` (no majority among the
        annotators) are skipped, and their number is logged.
        """
        pairs: list[Pair] = []
        left_out = 0
        tokens: dict[str, tuple[str, ...]] = {}  # premises repeat: tokenize and store each text once
        fields_of: Callable[[str], Fields] | None = None
        with LineReader(path) as lines:
            for line in filter(str.strip, lines):
                try:
                    if fields_of is None:
                        fields_of = _json_fields if _is_json(line) else _table(line)
                        if fields_of is not _json_fields:
                            continue  # the header line
                    premise, hypothesis, label = fields_of(line)
                    if label == _NO_MAJORITY:
                        left_out += 1
                        continue
                    for text in (premise, hypothesis):
                        if text not in tokens:
                            tokens[text] = _tokenize(text)
                    pairs.append(Pair(tokens[premise], tokens[hypothesis], _known(label)))
                except InputError as error:
                    raise InputError(f"{lines.name}: line {lines.line_number}: {error}") from None
        if left_out:
            log.warning("%s: skipped %d pairs without a gold label (-)", path, left_out)
        return pairs

    def texts(self, example: Pair) -> Sequence[Sequence[str]]:
        """The premise and the hypothesis."""
        return [example.premise, example.hypothesis]

    def labels(self, examples: Sequence[Pair]) -> dict[str, list[str]]:
        """The three labels, whether they occur in the data or not."""
        return {"relation": list(LABELS)}

    def network(self, inputs: TextInputs, settings: SnliSettings, labels: dict[str, list[str]]) -> Esim:
        """A new ESIM network."""
        return Esim(inputs=inputs, settings=settings, labels=labels["relation"])

    def size(self, example: Pair) -> int:
        """Sort key: premise length, then hypothesis length; pads a seventh less than sorting by their sum."""
        return 1_000 * len(example.premise) + len(example.hypothesis)

    def score(self, examples: Sequence[Pair], predictions: Sequence[Classified]) -> dict[str, float]:
        """Accuracy."""
        return accuracy(examples, predictions)

    def parse(self, text: str) -> list[Pair]:
        """Parse `premise<TAB>hypothesis` or a JSON line with both; a blank line yields nothing."""
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
        """The relation in its color, then the two sentences."""
        title = headline(prediction.label, _COLORS[prediction.label], prediction)
        premise, hypothesis = " ".join(example.premise), " ".join(example.hypothesis)
        return Text.assemble(title, "\n  ", premise, "\n  ", ("=> ", "dim"), hypothesis)


class Fields(NamedTuple):
    """The three fields of a pair, or their column names in a format."""

    premise: str
    hypothesis: str
    label: str


FORMATS = (
    Fields("sentence1", "sentence2", "gold_label"),  # SNLI and MultiNLI
    Fields("sentence_A", "sentence_B", "entailment_judgment"),  # SICK as released for SemEval-2014
    Fields("sentence_A", "sentence_B", "entailment_label"),  # the full SICK data set
)


def _is_json(line: str) -> bool:
    return line.lstrip().startswith("{")


def _json_fields(line: str) -> Fields:
    """Parse a line of SNLI JSON; a missing gold label becomes an empty one."""
    try:
        record = strict_loads(line)
    except json.JSONDecodeError as error:
        raise InputError(
            f"expected a JSON object, found a syntax error at character {error.pos + 1} ({error.msg})"
        ) from None
    except ValueError as error:
        raise InputError(f"expected a JSON object, found {error}") from None
    if not isinstance(record, dict):
        raise InputError(f"expected a JSON object, found {line[:40]!r}")
    values = [record.get("sentence1"), record.get("sentence2"), record.get("gold_label", "")]
    for name, value in zip(FORMATS[0], values, strict=True):
        if not isinstance(value, str):
            found = "none" if value is None else repr(value)
            raise InputError(f"expected a JSON object with a text {name!r}, found {found}")
    return Fields(*values)


def _table(header: str) -> Callable[[str], Fields]:
    """Return a parser for the rows of a table with this header line."""
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
    """Normalize and check a label; SICK has upper-case labels."""
    if label.lower() not in LABELS:
        raise InputError(f"expected a label {', '.join(LABELS)} or -, found {label!r}")
    return label.lower()


def _tokenize(text: str) -> tuple[str, ...]:
    return tuple(token.text for token in words(text))


class Esim(Classifier):
    """Enhanced sequential inference model (Chen et al. 2017).

    a = biLSTM(premise), b = biLSTM(hypothesis);  ã = softmax_j(a b') b,  b̃ = softmax_i(b a') a;
    v = biLSTM(relu(W [a; ã; a - ã; a * ã])), likewise for b;  a tanh layer over [mean; max] of both.
    ELMo at the output is concatenated to a and b, before the alignment.
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
        """Logits of the relations, (B, C)."""
        (first, second), (a, b) = batch.texts, map(self._encode, batch.texts)  # (B, T1, 2H + E), (B, T2, 2H + E)
        a_aligned, b_aligned = align(a, b, first.mask, second.mask)
        pooled = [self._compose(a, a_aligned, first.mask), self._compose(b, b_aligned, second.mask)]
        hidden = torch.tanh(self.hidden(self.dropout(torch.cat(pooled, dim=-1))))  # (B, 8H) -> (B, H)
        logits: Tensor = self.output(self.dropout(hidden))  # (B, C)
        return logits

    def _encode(self, text: TextBatch) -> Tensor:
        """Contextual token vectors, (B, T, 2H + E), with ELMo at the output if configured."""
        return self.inputs.output(text, self.encoder(self.dropout(self.inputs(text)), text.mask))

    def _compose(self, x: Tensor, aligned: Tensor, mask: Tensor) -> Tensor:
        """Inference composition: x and aligned (B, T, 2H + E), mask (B, T) to a pooled vector (B, 4H)."""
        m = self.dropout(F.relu(self.projection(enhance(x, aligned))))  # (B, T, H)
        v = self.composition(m, mask)  # (B, T, 2H)
        return torch.cat([masked_mean(v, mask), masked_max(v, mask)], dim=-1)


def align(a: Tensor, b: Tensor, a_mask: Tensor, b_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Soft alignment (dot-product attention) of a: (B, T1, H) and b: (B, T2, H); masks (B, T1) and (B, T2)."""
    scores = a @ b.transpose(1, 2)  # (B, T1, T2)
    a_aligned = masked_softmax(scores, b_mask.unsqueeze(1)) @ b  # (B, T1, H)
    b_aligned = masked_softmax(scores.transpose(1, 2), a_mask.unsqueeze(1)) @ a  # (B, T2, H)
    return a_aligned, b_aligned


def enhance(x: Tensor, aligned: Tensor) -> Tensor:
    """Concatenate x, aligned (both (B, T, H)), their difference and their product to (B, T, 4H)."""
    return torch.cat([x, aligned, x - aligned, x * aligned], dim=-1)
