"""Named entities: a biLSTM-CRF with a character CNN (Lample et al. 2016; as in Peters et al. 2018)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from rich.text import Text
from torch import Tensor, nn

from elmokit.tasks.columns import fault, read_blocks
from elmokit.tasks.crf import Constraints, Crf
from elmokit.tasks.encoder import BiLstm
from elmokit.tasks.inputs import TextInputs
from elmokit.tasks.settings import FitSettings, option
from elmokit.tasks.tags import Span, decode, detect, encode, split
from elmokit.tasks.task import Task, TaskBatch, TaskNetwork, log
from elmokit.text.tokenizer import words_by_sentence

ODD = 0.01  # share of sentences with tags that break their scheme, past which a user should know
COLOURS = {"PER": "green", "LOC": "blue", "ORG": "magenta", "MISC": "yellow"}  # on a terminal; others are cyan


@dataclass(frozen=True)
class NerSettings(FitSettings):
    """The shape and the training that the authors' configurations have."""

    hidden: int = option(200, "Cells of the LSTM, in each direction.", minimum=1)
    layers: int = option(2, "Layers of the LSTM.", minimum=1)
    character_filters: int = 128
    elmo_dropout: float = 0.0  # all inputs are dropped out together
    mix_l2: float = 0.1
    batch_size: int = 64
    epochs: int = 40
    patience: int = 8
    decay_patience: int = 2


@dataclass(frozen=True)
class Sentence:
    """Tokens, with the entities among them where they are known."""

    tokens: tuple[str, ...]
    entities: tuple[Span, ...] | None = None
    text: str | None = None  # raw text, where the tokens are from there
    offsets: tuple[tuple[int, int], ...] | None = None  # of the tokens in it


@dataclass(frozen=True)
class Entity:
    """An entity that was found."""

    span: Span
    score: float  # the smallest probability of the tags of its tokens


class Ner(Task[Sentence, NerSettings]):
    """Spans of tokens that name something, and what kind of thing."""

    name: ClassVar[str] = "ner"
    metric: ClassVar[str] = "f1"
    settings: ClassVar[type[NerSettings]] = NerSettings

    def read(self, path: Path) -> list[Sentence]:
        """Columns as those of CoNLL-2003: the first is the token, the last its tag, in IOB1, IOB2 or BIOES."""
        sentences, tags_of = [], []
        for block in read_blocks(path, expected="columns: a token, and last its tag"):
            if block.rows[0][0] == "-DOCSTART-":
                continue
            tags = [row[-1] for row in block.rows]
            for k, tag in enumerate(tags):
                if split(tag) is None:
                    raise fault(path, block.line + k, "a tag as O, B-X, I-X, E-X or S-X in the last column", repr(tag))
            tags_of.append(tags)
            sentences.append(Sentence(tuple(row[0] for row in block.rows), tuple(decode(tags))))
        scheme, n_odd = detect(tags_of)
        if n_odd > ODD * len(tags_of):
            log.warning(
                "%s: %d sentences break %s, which the others follow; read as conlleval does", path, n_odd, scheme
            )
        return sentences

    def texts(self, example: Sentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return [example.tokens]

    def labels(self, examples: Sequence[Sentence]) -> dict[str, list[str]]:
        """The types of entities."""
        return {"types": sorted({span.label for example in examples for span in example.entities or ()})}

    def network(self, inputs: TextInputs, settings: NerSettings, labels: dict[str, list[str]]) -> Tagger:
        """A biLSTM-CRF over BIOES tags of these types."""
        return Tagger(inputs=inputs, settings=settings, types=labels["types"])

    def score(self, examples: Sequence[Sentence], predictions: Sequence[list[Entity]]) -> dict[str, float]:
        """Precision, recall and F1 of whole entities, as conlleval; and F1 of every type."""
        gold = [example.entities or () for example in examples]
        return span_scores(gold, [[entity.span for entity in found] for found in predictions])

    def parse(self, text: str) -> list[Sentence]:
        """The sentences of a line of text."""
        return [
            Sentence(tuple(token.text for token in tokens), None, text, tuple((t.start, t.end) for t in tokens))
            for tokens in words_by_sentence(text)
        ]

    def to_json(self, example: Sentence, prediction: list[Entity]) -> dict[str, Any]:
        """{"tokens": [...], "entities": [{"text", "label", "start", "end", "score"}, ...]}; of raw text, "offsets" too.

        start and end count tokens, end is the one after the last; offsets count characters of the line.
        """
        entities = []
        for (start, end, label), score in ((entity.span, entity.score) for entity in prediction):
            text = " ".join(example.tokens[start:end])
            entities.append({"text": text, "label": label, "start": start, "end": end, "score": round(score, 4)})
            if example.offsets is not None and example.text is not None:
                first, last = example.offsets[start][0], example.offsets[end - 1][1]
                entities[-1] |= {"text": example.text[first:last], "offsets": [first, last]}
        return {"tokens": list(example.tokens), "entities": entities}

    def show(self, example: Sentence, prediction: list[Entity]) -> Text:
        """The sentence with its entities in colour."""
        shown, at = Text(), 0
        for start, end, label in (entity.span for entity in prediction):
            shown.append(" ".join((*example.tokens[at:start], "")))
            colour = COLOURS.get(label, "cyan")
            shown.append(" ".join(example.tokens[start:end]), style=f"bold {colour}")
            shown.append(f" {label}", style=f"dim {colour}")
            shown.append(" ")
            at = end
        shown.append(" ".join(example.tokens[at:]))
        return shown


class Tagger(TaskNetwork):
    """Inputs, dropout, biLSTM, dropout, a score for every tag, and the CRF over whole sentences."""

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

    def loss(self, batch: TaskBatch[Sentence]) -> Tensor:
        """() mean negative log-likelihood of a sentence's tags."""
        [text] = batch.texts
        labels = torch.zeros_like(text.mask, dtype=torch.long)
        for b, example in enumerate(batch.examples):
            tags = encode(example.entities or (), len(example.tokens), "BIOES")
            labels[b, : len(tags)] = torch.tensor([self._number[tag] for tag in tags], device=labels.device)
        likelihood: Tensor = self.crf(self._emissions(batch), labels, text.mask)
        return -likelihood.mean()

    def predict(self, batch: TaskBatch[Sentence]) -> list[list[Entity]]:
        """The entities of every sentence, from its best path."""
        [text] = batch.texts
        emissions = self._emissions(batch)
        marginals = self.crf.marginals(emissions, text.mask)
        found = []
        for b, path in enumerate(self.crf.viterbi(emissions, text.mask)):
            chances = marginals[b, range(len(path)), path].tolist()
            spans = decode([self.tags[label] for label in path])
            found.append([Entity(span, min(chances[span.start : span.end])) for span in spans])
        return found

    def _emissions(self, batch: TaskBatch[Sentence]) -> Tensor:
        """(B, T, K)."""
        [text] = batch.texts
        h = self.encoder(self.dropout(self.inputs(text)), text.mask)  # (B, T, 2H)
        emissions: Tensor = self.scores(self.dropout(self.inputs.output(text, h)))
        return emissions


def span_scores(gold: Sequence[Iterable[Span]], found: Sequence[Iterable[Span]]) -> dict[str, float]:
    """Precision, recall and F1 over all spans of all sentences, in percent, and F1 of every label, as conlleval.

    A span is right if its borders and its label are. Where there is nothing to divide by, a figure is 0.
    """
    wanted, given, right = Counter[str](), Counter[str](), Counter[str]()
    for expected, predicted in zip(map(set, gold), map(set, found), strict=True):
        wanted.update(span.label for span in expected)
        given.update(span.label for span in predicted)
        right.update(span.label for span in expected & predicted)
    precision, recall, f1 = _figures(wanted.total(), given.total(), right.total())
    of_labels = {f"f1 {x}": _figures(wanted[x], given[x], right[x])[2] for x in sorted(wanted | given)}
    return {"f1": f1, "precision": precision, "recall": recall, **of_labels}


def _figures(wanted: int, given: int, right: int) -> tuple[float, float, float]:
    precision = 100 * right / given if given else 0.0
    recall = 100 * right / wanted if wanted else 0.0
    return precision, recall, 200 * right / (wanted + given) if right else 0.0
