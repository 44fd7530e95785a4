"""Reader of SQuAD JSON, versions 1.1 and 2.0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elmokit.disk.json_file import strict_loads
from elmokit.errors import InputError
from elmokit.tasks.squad.question import AnswerSpan, Passage, Question
from elmokit.text.lines import read_lines

T = TypeVar("T")
_KINDS = {list: "a list", str: "a text", dict: "an object", int: "an integer"}


@dataclass(frozen=True)
class SquadFile:
    """The answerable questions of a file, and those that are skipped or lack a span.

    Unanswerable questions (SQuAD 2.0) are skipped. A question whose answer is not at `answer_start` is kept: exact
    match and F1 compare texts, so it can be evaluated, but it has no span and cannot be trained on.
    """

    questions: list[Question]
    unanswerable: int  # skipped
    misplaced: tuple[str, ...]  # ids of the questions without a span


def read_squad(path: Path) -> SquadFile:
    """Read a file, plain or compressed; an InputError names file and position of malformed data."""
    try:
        content = strict_loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno}: expected the JSON of SQuAD ({error.msg})"
        ) from None
    except ValueError as error:
        if isinstance(error, InputError):  # of reading the lines
            raise
        raise InputError(f"{path}: expected the JSON of SQuAD, found {error}") from None
    questions = list(_questions(_Place(path, "", content)))
    answered = [question for question in questions if question.answers]
    if not answered:
        raise InputError(f"{path}: expected questions with answers, found {len(questions)} questions and no answer")
    misplaced = tuple(question.id for question in answered if question.span is None)
    return SquadFile(answered, len(questions) - len(answered), misplaced)


@dataclass(frozen=True)
class _Place:
    """A JSON value and its path, such as `data[3].paragraphs[0].context`."""

    file: Path
    name: str
    value: Any

    def get(self, key: str, kind: type[T]) -> T:
        if not isinstance(self.value, dict) or key not in self.value:
            raise InputError(f"{self.file}: {self.name or 'the top'}: expected an object with {key!r}, as SQuAD has")
        value = self.value[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{self.file}: {self._at(key)}: expected {_KINDS[kind]}, found {json.dumps(value)[:40]}")
        return value

    def each(self, key: str) -> Iterator[_Place]:
        for number, value in enumerate(self.get(key, list)):
            yield _Place(self.file, f"{self._at(key)}[{number}]", value)

    def _at(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key


def _questions(top: _Place) -> Iterator[Question]:
    """Every question of the file, including unanswerable ones."""
    for article in top.each("data"):
        has_title = isinstance(article.value, dict) and "title" in article.value
        title = article.get("title", str) if has_title else f"{top.file.name}: {article.name}"
        for paragraph in article.each("paragraphs"):
            passage = Passage.from_text(paragraph.get("context", str))
            for question in paragraph.each("qas"):
                yield _question(question, passage, title)


def _question(place: _Place, passage: Passage, title: str) -> Question:
    id, text = place.get("id", str), place.get("question", str)
    impossible = bool(place.value.get("is_impossible", False))
    texts, spans = [], []
    for answer in () if impossible else place.each("answers"):
        texts.append(answer.get("text", str))
        if (span := _span(passage, texts[-1], answer.get("answer_start", int))) is not None:
            spans.append(span)
    try:
        return Question.from_text(
            text, passage, id=id, article=title, answers=tuple(texts), span=spans[0] if spans else None
        )
    except InputError as error:
        raise InputError(f"{place.file}: {error}") from None


def _span(passage: Passage, answer: str, start: int) -> AnswerSpan | None:
    """Token span of an answer, or None if its text is not at `answer_start`."""
    bare = answer.strip()
    if not bare or start < 0 or not passage.text.startswith(answer, start):
        return None
    start += len(answer) - len(answer.lstrip())
    return passage.tokens_at(start, start + len(bare))
