"""Named entity recognition: a biLSTM-CRF with a character CNN (Lample et al. 2016; as in Peters et al. 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from rich.text import Text
from torch import Tensor, nn

from elmokit.tasks.shared.crf import Constraints, Crf
from elmokit.tasks.shared.encoder import BiLstm
from elmokit.tasks.shared.inputs import TextInputs
from elmokit.tasks.shared.noisy_copies import noisy_copies
from elmokit.tasks.shared.tags import Span, decode, detect, encode, split
from elmokit.tasks.shared.task_base import Task, TaskBatch, TaskNetwork, log
from elmokit.tasks.shared.task_settings import TaggerSettings
from elmokit.text.columns import fault, read_blocks
from elmokit.text.tokenizer import words_by_sentence
from elmokit.training.settings_fields import option

MAX_INVALID_SHARE = 0.01  # share of sentences that violate the tagging scheme above which a warning is logged
COLORS = {"PER": "green", "LOC": "blue", "ORG": "magenta", "MISC": "yellow"}  # on a terminal; others are cyan


@dataclass(frozen=True)
class NerSettings(TaggerSettings):
    """Network size and training settings, as in the authors' configurations."""

    hidden: int = option(200, "Hidden units of the LSTM per direction.", minimum=1)
    layers: int = option(2, "Number of LSTM layers.", minimum=1)
    character_filters: int = 128
    elmo_dropout: float = 0.0  # `dropout` applies to all inputs together
    mix_l2: float = 0.1
    batch_size: int = 64
    epochs: int = 40
    patience: int = 8
    decay_patience: int = 2


@dataclass(frozen=True)
class NerSentence:
    """A tokenized sentence, with its gold entities if known."""

    tokens: tuple[str, ...]
    entities: tuple[Span, ...] | None = None
    text: str | None = None  # the raw text that was tokenized, if any
    offsets: tuple[tuple[int, int], ...] | None = None  # character offsets of the tokens in `text`


@dataclass(frozen=True)
class Entity:
    """A predicted entity."""

    span: Span
    score: float  # smallest marginal probability among the tags of its tokens


class Ner(Task[NerSentence, NerSettings]):
    """Named entity recognition: typed, non-overlapping spans of tokens."""

    name: ClassVar[str] = "ner"
    metric: ClassVar[str] = "f1"
    settings: ClassVar[type[NerSettings]] = NerSettings

    def read(self, path: Path) -> list[NerSentence]:
        """Read CoNLL-2003 columns: token first, tag last, in IOB1, IOB2 or BIOES."""
        sentences, tags_of = [], []
        for block in read_blocks(path, expected="columns, the token first and its tag last"):
            if block.rows[0][0] == "-DOCSTART-":
                continue
            tags = [row[-1] for row in block.rows]
            for k, tag in enumerate(tags):
                if split(tag) is None:
                    raise fault(
                        path, block.line + k, "a tag such as O, B-X, I-X, E-X or S-X in the last column", repr(tag)
                    )
            tags_of.append(tags)
            sentences.append(NerSentence(tuple(row[0] for row in block.rows), tuple(decode(tags))))
        scheme, n_invalid = detect(tags_of)
        if n_invalid > MAX_INVALID_SHARE * len(tags_of):
            log.warning("%s: %d sentences violate the tagging scheme %s; read as in conlleval", path, n_invalid, scheme)
        return sentences

    def texts(self, example: NerSentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return [example.tokens]

    def labels(self, examples: Sequence[NerSentence]) -> dict[str, list[str]]:
        """The types of entities."""
        return {"types": sorted({span.label for example in examples for span in example.entities or ()})}

    def network(self, inputs: TextInputs, settings: NerSettings, labels: dict[str, list[str]]) -> Tagger:
        """A biLSTM-CRF over BIOES tags of these types."""
        return Tagger(inputs=inputs, settings=settings, types=labels["types"])

    def training_examples(self, examples: list[NerSentence], settings: NerSettings) -> list[NerSentence]:
        """The sentences and, with `--noise`, a noisy copy of each."""
        return [*examples, *noisy_copies(examples, settings)]

    def score(self, examples: Sequence[NerSentence], predictions: Sequence[list[Entity]]) -> dict[str, float]:
        """Precision, recall and F1 over whole entities as in conlleval, and F1 per type."""
        gold = [example.entities or () for example in examples]
        return span_scores(gold, [[entity.span for entity in found] for found in predictions])

    def parse(self, text: str) -> list[NerSentence]:
        """Split a line of text into tokenized sentences."""
        return [
            NerSentence(tuple(token.text for token in tokens), None, text, tuple((t.start, t.end) for t in tokens))
            for tokens in words_by_sentence(text)
        ]

    def from_tokens(self, tokens: Sequence[str]) -> NerSentence:
        """A sentence that is tokenized already."""
        return NerSentence(tuple(tokens), None)

    def to_json(self, example: NerSentence, prediction: list[Entity]) -> dict[str, Any]:
        """{"tokens": [...], "entities": [{"text", "label", "start", "end", "score"}, ...]}; raw text adds "offsets".

        `start` and `end` are token indices (`end` exclusive); `offsets` are character offsets in the line.
        """
        entities = []
        for (start, end, label), score in ((entity.span, entity.score) for entity in prediction):
            text = " ".join(example.tokens[start:end])
            entities.append({"text": text, "label": label, "start": start, "end": end, "score": round(score, 4)})
            if example.offsets is not None and example.text is not None:
                first, last = example.offsets[start][0], example.offsets[end - 1][1]
                entities[-1] |= {"text": example.text[first:last], "offsets": [first, last]}
        return {"tokens": list(example.tokens), "entities": entities}

    def show(self, example: NerSentence, prediction: list[Entity]) -> Text:
        """The sentence with its entities in color."""
        shown, at = Text(), 0
        for start, end, label in (entity.span for entity in prediction):
            shown.append(" ".join((*example.tokens[at:start], "")))
            color = COLORS.get(label, "cyan")
            shown.append(" ".join(example.tokens[start:end]), style=f"bold {color}")
            shown.append(f" {label}", style=f"dim {color}")
            shown.append(" ")
            at = end
        shown.append(" ".join(example.tokens[at:]))
        return shown


class Tagger(TaskNetwork):
    """biLSTM-CRF tagger: inputs, dropout, biLSTM, dropout, linear emission scores and a CRF."""

    def __init__(self, *, inputs: TextInputs, settings: NerSettings, types: Sequence[str]) -> None:
        super().__init__()
        self.inputs = inputs
        self.tags = ["O", *(f"{prefix}-{kind}" for kind in types for prefix in "BIES")]
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = BiLstm(
            n_in=inputs.input_dim, n_hidden=settings.hidden, n_layers=settings.layers, dropout=settings.dropout
        )
        self.scores = nn.Linear(self.encoder.output_dim + inputs.elmo_output_dim, len(self.tags))
        self.crf = Crf(n_labels=len(self.tags), constraints=Constraints.of_tags(self.tags, "BIOES"))
        self._number = {tag: number for number, tag in enumerate(self.tags)}

    def loss(self, batch: TaskBatch[NerSentence]) -> Tensor:
        """Mean negative log-likelihood of the tag sequences, ()."""
        [text] = batch.texts
        labels = torch.zeros_like(text.mask, dtype=torch.long)
        for b, example in enumerate(batch.examples):
            tags = encode(example.entities or (), len(example.tokens), "BIOES")
            labels[b, : len(tags)] = torch.tensor([self._number[tag] for tag in tags], device=labels.device)
        likelihood: Tensor = self.crf(self._emissions(batch), labels, text.mask)
        return -likelihood.mean()

    def predict(self, batch: TaskBatch[NerSentence]) -> list[list[Entity]]:
        """Entities of every sentence, from the Viterbi path."""
        [text] = batch.texts
        emissions = self._emissions(batch)
        marginals = self.crf.marginals(emissions, text.mask)
        found = []
        for b, path in enumerate(self.crf.viterbi(emissions, text.mask)):
            probabilities = marginals[b, range(len(path)), path].tolist()
            spans = decode([self.tags[label] for label in path])
            found.append([Entity(span, min(probabilities[span.start : span.end])) for span in spans])
        return found

    def _emissions(self, batch: TaskBatch[NerSentence]) -> Tensor:
        """Emission scores, (B, T, K)."""
        [text] = batch.texts
        h = self.encoder(self.dropout(self.inputs(text)), text.mask)  # (B, T, 2H)
        emissions: Tensor = self.scores(self.dropout(self.inputs.output(text, h)))
        return emissions


def span_scores(gold: Sequence[Iterable[Span]], found: Sequence[Iterable[Span]]) -> dict[str, float]:
    """Micro-averaged precision, recall and F1 in percent, and F1 per label, as in conlleval.

    A span is correct if its boundaries and its label are. A score with a zero denominator is 0.
    """
    wanted, given, right = Counter[str](), Counter[str](), Counter[str]()
    for expected, predicted in zip(map(set, gold), map(set, found), strict=True):
        wanted.update(span.label for span in expected)
        given.update(span.label for span in predicted)
        right.update(span.label for span in expected & predicted)
    precision, recall, f1 = _precision_recall_f1(wanted.total(), given.total(), right.total())
    per_label = {f"f1 {x}": _precision_recall_f1(wanted[x], given[x], right[x])[2] for x in sorted(wanted | given)}
    return {"f1": f1, "precision": precision, "recall": recall, **per_label}


def _precision_recall_f1(wanted: int, given: int, right: int) -> tuple[float, float, float]:
    precision = 100 * right / given if given else 0.0
    recall = 100 * right / wanted if wanted else 0.0
    return precision, recall, 200 * right / (wanted + given) if right else 0.0
