"""The semantic role labeling task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text

from elmokit.tasks.shared.inputs import TextInputs
from elmokit.tasks.shared.task_base import Task
from elmokit.tasks.shared.task_settings import FitDecay, FitSettings
from elmokit.tasks.srl.proposition import LabeledPredicate, Roles, SrlSentence
from elmokit.tasks.srl.proposition_files import read_propositions
from elmokit.tasks.srl.score import score_roles
from elmokit.tasks.srl.srl_network import SrlNetwork
from elmokit.text.tokenizer import words_by_sentence
from elmokit.training.settings_fields import option

_COLORS = {"ARG0": "green", "ARG1": "cyan", "ARG2": "magenta", "ARG3": "blue", "ARG4": "blue", "ARG5": "blue"}
_MODIFIER = "yellow"


@dataclass(frozen=True)
class SrlSettings(FitSettings):
    """Deep LSTM of He et al. (2017), scaled down to train on two cores.

    The published size is --layers 8 --hidden 300, more than four times the cost; it was trained for 500 epochs with
    --optimizer adadelta --learning-rate 1 --clip 1 --decay none, and 80 propositions per batch.
    """

    elmo_dropout: float = 0.2
    mix_l2: float = 0.001
    train_vectors: bool = True  # as in He et al.
    dropout: float = option(0.1, "Variational dropout probability of the LSTM outputs.", minimum=0, below=1)
    epochs: int = 12
    patience: int = 4
    learning_rate: float = 0.002
    warm_up: int = 100
    decay: FitDecay = "linear"
    batch_size: int = option(20, "Sentences per batch; each is encoded once per predicate.", minimum=1)
    clip: float = 1.0
    layers: int = option(4, "LSTM layers, alternating forward and backward.", minimum=1)
    hidden: int = option(200, "Hidden units per layer.", minimum=1)
    indicator_dim: int = option(100, "Dimension of the predicate-indicator embedding.", minimum=1)
    finder_hidden: int = option(100, "Hidden units per direction of the predicate-identification biLSTM.", minimum=1)


class Srl(Task[SrlSentence, SrlSettings]):
    """Semantic role labeling: the arguments of every predicate of a sentence."""

    name: ClassVar[str] = "srl"
    metric: ClassVar[str] = "f1"
    settings: ClassVar[type[SrlSettings]] = SrlSettings

    def read(self, path: Path) -> list[SrlSentence]:
        """Read proposition columns: CoNLL-2005, CoNLL-2012 or PropBank."""
        return read_propositions(path)

    def texts(self, example: SrlSentence) -> Sequence[Sequence[str]]:
        """The sentence."""
        return [example.tokens]

    def labels(self, examples: Sequence[SrlSentence]) -> dict[str, list[str]]:
        """The roles of the training data, including V."""
        return {"roles": sorted({span.label for e in examples for p in e.known() for span in p.spans})}

    def network(self, inputs: TextInputs, settings: SrlSettings, labels: dict[str, list[str]]) -> SrlNetwork:
        """A new role-labeling network."""
        return SrlNetwork(
            inputs=inputs,
            roles=labels["roles"],
            n_hidden=settings.hidden,
            n_layers=settings.layers,
            indicator_dim=settings.indicator_dim,
            finder_hidden=settings.finder_hidden,
            dropout=settings.dropout,
        )

    def size(self, example: SrlSentence) -> int:
        """Constant: propositions are packed, so mixed lengths cost nothing and give batches of similar size."""
        return 1

    def score(self, examples: Sequence[SrlSentence], predictions: Sequence[Roles]) -> dict[str, float]:
        """Span F1 as in srl-eval.pl with gold predicates; `f1` is over verbs, including auxiliaries."""
        return score_roles(examples, predictions)

    def parse(self, text: str) -> list[SrlSentence]:
        """Split a line of raw text into sentences, whose predicates are to be identified."""
        return [SrlSentence(tuple(token.text for token in tokens)) for tokens in words_by_sentence(text)]

    def from_tokens(self, tokens: Sequence[str]) -> SrlSentence:
        """A sentence that is tokenized already."""
        return SrlSentence(tuple(tokens))

    def to_json(self, example: SrlSentence, prediction: Roles) -> dict[str, Any]:
        """The tokens, and the arguments of every predicate: tokens `start` to `end - 1`."""

        def of(proposition: LabeledPredicate) -> dict[str, Any]:
            at = proposition.predicate
            scored = zip(proposition.spans, proposition.scores, strict=True)
            return {
                "predicate": example.tokens[at],
                "index": at,
                **({"score": round(prediction.found[at], 4)} if at in prediction.found else {}),
                "arguments": [
                    {
                        "role": label,
                        "text": " ".join(example.tokens[start:end]),
                        "start": start,
                        "end": end,
                        "score": round(score, 4),
                    }
                    for (start, end, label), score in scored
                    if label != "V"
                ],
            }

        return {"tokens": list(example.tokens), "propositions": [of(p) for p in prediction.propositions]}

    def show(self, example: SrlSentence, prediction: Roles) -> Text:
        """The sentence once per predicate, with bracketed arguments; unchanged without predicates."""
        lines = [_marked(example.tokens, proposition) for proposition in prediction.propositions]
        return Text("\n").join(lines or [Text(" ".join(example.tokens), style="dim")])


def _marked(tokens: Sequence[str], proposition: LabeledPredicate) -> Text:
    """Bracketed form, such as `[ARG0 The cat] [V sat] [ARGM-LOC on the mat] .`"""
    pieces: list[Text] = []
    k = 0
    for start, end, label in proposition.spans:
        pieces += [Text(token, style="dim") for token in tokens[k:start]]
        color, k = _color(label), end
        words_of_span = " ".join(tokens[start:end])
        pieces.append(Text.assemble((f"[{label} ", f"dim {color}"), (words_of_span, color), ("]", f"dim {color}")))
    pieces += [Text(token, style="dim") for token in tokens[k:]]
    return Text(" ").join(pieces)


def _color(label: str) -> str:
    base = label.removeprefix("C-").removeprefix("R-")
    return "bold" if base == "V" else _COLORS.get(base, _MODIFIER)
