"""SQuAD's JSON, versions 1.1 and 2.0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elmokit.errors import InputError
from elmokit.tasks.squad.example import Passage, Question, Span
from elmokit.text.lines import read_lines

T = TypeVar("T")
_KINDS = {list: "a list", str: "a text", dict: "an object", int: "an integer"}


@dataclass(frozen=True)
class SquadFile:
    """The questions of a file that can be asked, and how many cannot be used in full.

    A question without an answer (SQuAD 2.0) is left out. One whose answer does not stand where `answer_start` says is
    kept: exact match and F1 compare texts and can judge it, but it has no span and cannot be trained on.
    """

    questions: list[Question]
    unanswerable: int  # left out
    misplaced: tuple[str, ...]  # ids of those without a span


def read_squad(path: Path) -> SquadFile:
    """Read a file, plain or compressed. What is not SQuAD's form is an InputError that names file and place."""
    try:
        content = json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno}: expected the JSON of SQuAD ({error.msg})"
        ) from None
    except RecursionError:
        raise InputError(f"{path}: expected the JSON of SQuAD, found lists in lists without end") from None
    questions = list(_questions(_Place(path, "", content)))
    answered = [question for question in questions if question.answers]
    if not answered:
        raise InputError(f"{path}: expected questions with answers, found {len(questions)} questions and no answer")
    misplaced = tuple(question.id for question in answered if question.span is None)
    return SquadFile(answered, len(questions) - len(answered), misplaced)


@dataclass(frozen=True)
class _Place:
    """A value of the JSON and the way to it, as `data[3].paragraphs[0].context`."""

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
    """Every question of the file, those without answers too."""
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


def _span(passage: Passage, answer: str, start: int) -> Span | None:
    """The tokens of an answer, or None where its text is not at its place."""
    bare = answer.strip()
    if not bare or start < 0 or not passage.text.startswith(answer, start):
        return None
    start += len(answer) - len(answer.lstrip())
    return passage.tokens_at(start, start + len(bare))
