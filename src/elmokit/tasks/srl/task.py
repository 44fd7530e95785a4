"""Semantic role labelling as a task: its data, its settings, and how propositions are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text

from elmokit.tasks.inputs import TextInputs
from elmokit.tasks.settings import Decay, FitSettings, option
from elmokit.tasks.srl.example import Labelled, Roles, Sentence
from elmokit.tasks.srl.network import SrlNetwork
from elmokit.tasks.srl.reader import read_propositions
from elmokit.tasks.srl.score import score_roles
from elmokit.tasks.task import Task
from elmokit.text.tokenizer import words_by_sentence

_COLOURS = {"ARG0": "green", "ARG1": "cyan", "ARG2": "magenta", "ARG3": "blue", "ARG4": "blue", "ARG5": "blue"}
_MODIFIER = "yellow"


@dataclass(frozen=True)
class SrlSettings(FitSettings):
    """The deep LSTM of He et al. (2017), sized to train on two cores.

    The paper's own size is --layers 8 --hidden 300, more than four times the work; it was fitted for 500 epochs with
    --optimiser adadelta --learning-rate 1 --clip 1 --decay none, and 80 propositions a batch.
    """

    elmo_dropout: float = 0.2
    mix_l2: float = 0.001
    train_vectors: bool = True  # as He et al. do
    dropout: float = option(0.1, "Share of every LSTM's output dropped, the same at all tokens.", minimum=0, below=1)
    epochs: int = 12
    patience: int = 4
    learning_rate: float = 0.002
    warm_up: int = 100
    decay: Decay = "linear"
    batch_size: int = option(20, "Sentences of a batch; each is read once for every predicate in it.", minimum=1)
    clip: float = 1.0
    layers: int = option(4, "LSTM layers, reading forwards and backwards in turn.", minimum=1)
    hidden: int = option(200, "Cells of every layer.", minimum=1)
    indicator_dim: int = option(100, "Size of the vector that says whether a token is the predicate.", minimum=1)
    finder_hidden: int = option(100, "Cells, in each direction, of the biLSTM that finds predicates.", minimum=1)


class Srl(Task[Sentence, SrlSettings]):
    """Who did what to whom, where, when and why, for every predicate of a sentence."""

    name: ClassVar[str] = "srl"
    metric: ClassVar[str] = "f1"
    settings: ClassVar[type[SrlSettings]] = SrlSettings

    def read(self, path: Path) -> list[Sentence]:
        """Proposition columns: CoNLL-2005, CoNLL-2012, or PropBank's own."""
        return read_propositions(path)

    def texts(self, example: Sentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return [example.tokens]

    def labels(self, examples: Sequence[Sentence]) -> dict[str, list[str]]:
        """The roles of the training data, V among them."""
        return {"roles": sorted({span.label for e in examples for p in e.known() for span in p.spans})}

    def network(self, inputs: TextInputs, settings: SrlSettings, labels: dict[str, list[str]]) -> SrlNetwork:
        """A new network."""
        return SrlNetwork(
            inputs=inputs, roles=labels["roles"], n_hidden=settings.hidden, n_layers=settings.layers,
            indicator_dim=settings.indicator_dim, finder_hidden=settings.finder_hidden, dropout=settings.dropout,
        )  # fmt: skip

    def size(self, example: Sentence) -> int:
        """All alike: propositions are packed, so lengths may mix at no cost, and mixed batches have like weights."""
        return 1

    def score(self, examples: Sequence[Sentence], predictions: Sequence[Roles]) -> dict[str, float]:
        """Span F1 as srl-eval.pl, with the predicates given; `f1` is that of verbs, auxiliaries included."""
        return score_roles(examples, predictions)

    def parse(self, text: str) -> list[Sentence]:
        """The sentences of a line of raw text, their predicates to be found."""
        return [Sentence(tuple(token.text for token in tokens)) for tokens in words_by_sentence(text)]

    def to_json(self, example: Sentence, prediction: Roles) -> dict[str, Any]:
        """The tokens, and the arguments of every predicate: tokens `start` to `end - 1`."""

        def of(proposition: Labelled) -> dict[str, Any]:
            at = proposition.predicate
            scored = zip(proposition.spans, proposition.scores, strict=True)
            return {
                "predicate": example.tokens[at],
                "index": at,
                **({"score": round(prediction.found[at], 4)} if at in prediction.found else {}),
                "arguments": [
                    {"role": label, "text": " ".join(example.tokens[start:end]), "start": start, "end": end,
                     "score": round(score, 4)}
                    for (start, end, label), score in scored if label != "V"
                ],
            }  # fmt: skip

        return {"tokens": list(example.tokens), "propositions": [of(p) for p in prediction.propositions]}

    def show(self, example: Sentence, prediction: Roles) -> Text:
        """The sentence once for each predicate, with its arguments in brackets; or as it is, without any."""
        lines = [_marked(example.tokens, proposition) for proposition in prediction.propositions]
        return Text("\n").join(lines or [Text(" ".join(example.tokens), style="dim")])


def _marked(tokens: Sequence[str], proposition: Labelled) -> Text:
    """`[ARG0 The cat] [V sat] [ARGM-LOC on the mat] .`"""
    pieces: list[Text] = []
    k = 0
    for start, end, label in proposition.spans:
        pieces += [Text(token, style="dim") for token in tokens[k:start]]
        colour, k = _colour(label), end
        words_of_span = " ".join(tokens[start:end])
        pieces.append(Text.assemble((f"[{label} ", f"dim {colour}"), (words_of_span, colour), ("]", f"dim {colour}")))
    pieces += [Text(token, style="dim") for token in tokens[k:]]
    return Text(" ").join(pieces)


def _colour(label: str) -> str:
    base = label.removeprefix("C-").removeprefix("R-")
    return "bold" if base == "V" else _COLOURS.get(base, _MODIFIER)
