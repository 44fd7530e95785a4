"""The question-answering task (SQuAD)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.text import Text

from elmokit.disk.json_file import strict_loads
from elmokit.errors import InputError
from elmokit.tasks.shared.inputs import TextInputs
from elmokit.tasks.shared.task_base import Task, log
from elmokit.tasks.shared.task_settings import FitDecay, FitSettings, Place
from elmokit.tasks.squad.question import Passage, Question
from elmokit.tasks.squad.squad_json import read_squad
from elmokit.tasks.squad.squad_metric import score_answers
from elmokit.tasks.squad.squad_network import BiDaf, SquadAnswer
from elmokit.training.settings_fields import option

_AROUND = 60  # characters of context on either side of an answer


@dataclass(frozen=True)
class SquadSettings(FitSettings):
    """BiDAF with self-attention (Clark & Gardner 2018), scaled down to train on two cores."""

    elmo_at: Place = "both"
    mix_l2: float = 0.001
    dropout: float = 0.2
    epochs: int = 12
    patience: int = 3
    batch_size: int = 32
    learning_rate: float = 0.003  # with 0.001 the network ignores the question for more than an epoch
    decay: FitDecay = "linear"
    hidden: int = option(80, "Hidden units of every LSTM per direction.", minimum=1)
    max_answer: int = option(17, "Maximum length of a predicted answer, in tokens.", minimum=1)
    max_passage: int = option(
        400, "Maximum passage length in training, in tokens; longer ones are cropped around the answer.", minimum=1
    )


class Squad(Task[Question, SquadSettings]):
    """Extractive question answering: the span of a passage that answers a question."""

    name: ClassVar[str] = "squad"
    metric: ClassVar[str] = "f1"
    settings: ClassVar[type[SquadSettings]] = SquadSettings
    n_texts: ClassVar[int | None] = 2

    def read(self, path: Path) -> list[Question]:
        """Read SQuAD JSON, 1.1 or 2.0; unanswerable questions are skipped, and their number is logged."""
        file = read_squad(path)
        if file.unanswerable:
            log.warning("%s: skipped %d questions without an answer", path, file.unanswerable)
        return file.questions

    def texts(self, example: Question) -> Sequence[Sequence[str]]:
        """The passage and the question."""
        return [example.passage.tokens, example.tokens]

    def sentences(self, example: Question) -> Sequence[Sequence[Sequence[str]]]:
        """The sentences of the passage; the question as one sentence."""
        return [example.passage.sentences, [example.tokens]]

    def labels(self, examples: Sequence[Question]) -> dict[str, list[str]]:
        """No labels: the answer is a span of the passage."""
        return {}

    def network(self, inputs: TextInputs, settings: SquadSettings, labels: dict[str, list[str]]) -> BiDaf:
        """A new BiDAF network."""
        return BiDaf(inputs=inputs, n_hidden=settings.hidden, dropout=settings.dropout, max_answer=settings.max_answer)

    def size(self, example: Question) -> int:
        """Passage length, which determines nearly all of the cost."""
        return len(example.passage.offsets)

    def training_examples(self, examples: list[Question], settings: SquadSettings) -> list[Question]:
        """Questions with an answer span, long passages cropped around it; the number of others is logged."""
        misplaced = [question.id for question in examples if question.span is None]
        if len(misplaced) == len(examples):
            first = f" (the first is {misplaced[0]!r})" if misplaced else ""
            raise InputError(
                "training data: expected answers whose text occurs in the passage at answer_start, found none among "
                f"{len(examples)} questions{first}"
            )
        if misplaced:
            log.warning(
                "%d questions are not trained on: their answer does not occur in the passage at answer_start (%s%s)",
                len(misplaced),
                ", ".join(misplaced[:3]),
                ", ..." if len(misplaced) > 3 else "",
            )
        return [question.cut(settings.max_passage) for question in examples if question.span is not None]

    def hold_out(self, examples: list[Question], settings: SquadSettings) -> tuple[list[Question], list[Question]]:
        """Hold out whole random articles with at most the requested share of the questions.

        Questions about one article are similar: a split by questions would overestimate the score.
        """
        sizes: dict[str, int] = {}
        for question in examples:
            sizes[question.article] = sizes.get(question.article, 0) + 1
        if len(sizes) < 2:
            raise InputError(f"--hold-out: expected two or more articles to divide, found {len(sizes)}; give --dev")
        articles = sorted(sizes)
        random.Random(settings.seed).shuffle(articles)
        room = settings.hold_out * len(examples)
        held: set[str] = set()
        for article in articles:
            if sizes[article] <= room:
                room -= sizes[article]
                held.add(article)
        if not held:
            held = {min(articles, key=sizes.__getitem__)}
        return [q for q in examples if q.article not in held], [q for q in examples if q.article in held]

    def score(self, examples: Sequence[Question], predictions: Sequence[SquadAnswer]) -> dict[str, float]:
        """Exact match and F1, as in the official script."""
        if not examples:
            raise InputError("score: expected questions, found none")
        for question in examples:
            if not question.answers:
                raise InputError(f"score: expected an answer to every question, found none to {question.text!r}")
        answers = [prediction.text for prediction in predictions]
        return score_answers(answers, [question.answers for question in examples])

    def parse(self, text: str) -> list[Question]:
        """One line of JSON, {"passage": ..., "question": ...}; a blank line yields nothing."""
        if not text.strip():
            return []
        try:
            record = strict_loads(text)
        except ValueError:
            record = None
        if not isinstance(record, dict) or not all(isinstance(record.get(k), str) for k in ("passage", "question")):
            raise InputError(f'expected JSON {{"passage": "...", "question": "..."}} on one line, found {text[:60]!r}')
        return [Question.from_text(record["question"], Passage.from_text(record["passage"]))]

    def to_json(self, example: Question, prediction: SquadAnswer) -> dict[str, Any]:
        """The answer, its character offsets in the passage, and its context with ** around the answer."""
        before, answer, after = _context(example.passage.text, prediction)
        return {
            **({"id": example.id} if example.id else {}),
            "question": example.text,
            "answer": prediction.text,
            "score": round(prediction.score, 6),
            "start": prediction.start,
            "end": prediction.end,
            "context": f"{before}**{answer}**{after}",
        }

    def show(self, example: Question, prediction: SquadAnswer) -> Text:
        """The question, the answer with its score, and the answer in its context."""
        before, answer, after = _context(example.passage.text, prediction)
        return Text.assemble(
            (example.text, "bold"),
            "\n  ",
            (prediction.text, "bold green"),
            (f" {prediction.score:.0%}", "dim"),
            "\n  ",
            (before, "dim"),
            (answer, "black on green"),
            (after, "dim"),
        )


def _context(passage: str, answer: SquadAnswer) -> tuple[str, str, str]:
    """The context before the answer, the answer, and the context after it; ... marks omissions."""
    first, last = max(0, answer.start - _AROUND), min(len(passage), answer.end + _AROUND)
    before, after = passage[first : answer.start], passage[answer.end : last]
    if first > 0:  # from the first space on, which may be just before
        before = f"... {passage[first - 1 : answer.start].partition(' ')[2] or before}"
    if last < len(passage):
        after = f"{passage[answer.end : last + 1].rpartition(' ')[0] or after} ..."
    return before, passage[answer.start : answer.end], after
