"""The tokenizer and the character ids in JavaScript, beside those in Python."""

from __future__ import annotations

import json
import lzma
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from elmokit.text.characters import ByteCharacters, CodePointCharacters
from elmokit.text.tokenizer import words

SAMPLE = [
    "I don't think they'd've said it's 5 o'clock; we'll see, won't we?",
    "Dr. Smith paid $3.50 (12%) to the U.S. Navy in No. 5, Vol. two, on Jan. 3.",
    "He lives in the U.S.",
    "“Curly quotes,” she said — ‘and dashes’… rock ’n’ roll, the ’90s, ’tis.",
    "See https://example.org/a?b=c, e.g. http://x.y/z. end.The next",
    "pro-U.S. forces, A. B. Clark, etc., e.g. this vs. that; figs. 3 and Fig. nine",
    "cannot gonna GONNA lemme wanna gotta gimme CANNOT",
    "1,000,000.5 12:30 3-4 2020–2021 x–y --- -- .. ... .... 'em '' `` `a'",
    "눈이 옵니다. 그는 \"안녕\"이라고 말했다! 3.5% 서울–부산",
    "他说：「你好，世界！」（2020年）。花园里开了一朵花……",
    "naïve café Ünïcödé 😀😀 emoji’s 𝔘𝔫𝔦 zero\u200bwidth soft\u00adhyphen",
    "tabs\tand\x1cseparators\x85and\u3000wide\u00a0spaces ",
    "DON'T I'M ISN’T It’Sſ 'TİS x's' 's dogs' 's-x",
    "((nested [brackets] {here} <tag>)) a.b.c. a.b.c, A.B.C.) \"U.S.\" ",
    "", " ", ".", "'", "...", "\ud83d lone surrogate \ude00",
]  # fmt: skip
# answers travel as text: Playwright takes a minute to carry so many objects
SPLIT = """async (lines) => {
  const { tokenize } = await import('./elmo/tokenizer.js');
  return JSON.stringify(JSON.parse(lines).map(tokenize));
}"""
ENCODE = """async (given) => {
  const [words, alphabet] = JSON.parse(given);
  const { ByteCharacters, CodePointCharacters } = await import('./elmo/characters.js');
  const characters = alphabet ? new CodePointCharacters(alphabet, 12) : new ByteCharacters(50);
  return JSON.stringify(words.map((word) => Array.from(characters.encode(word))));
}"""


def evaluate(page: Any, code: str, argument: Any) -> Any:
    return json.loads(page.evaluate(code, json.dumps(argument)))


def compare(page: Any, lines: list[str]) -> None:
    for line, found in zip(lines, evaluate(page, SPLIT, lines), strict=True):
        expected = words(line)
        assert found["tokens"] == [token.text for token in expected], line
        assert [tuple(pair) for pair in found["offsets"]] == [(token.start, token.end) for token in expected], line


@pytest.fixture
def page(watched: Any) -> Any:
    return watched().page


def test_sample(page: Any) -> None:
    compare(page, SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["lm", "lm-ko", "lm-zh"])
def test_ten_thousand_lines(page: Any, shared_data: Path, language: str) -> None:
    with lzma.open(shared_data / language / "train-00.txt.xz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in islice(file, 10_000)]
    assert len(lines) == 10_000
    compare(page, lines)
    compare(page, ["".join(line.split(" ")) for line in lines[:1000]])  # tokens in a heap
    some = sorted({word for line in lines for word in line.split()})
    assert evaluate(page, ENCODE, [some, None]) == ByteCharacters(50).encode(some).tolist()


def test_character_ids(page: Any) -> None:
    some = [word for line in SAMPLE for word in line.split()] + ["<S>", "</S>", "", "a" * 48, "é" * 40, "😀" * 20]
    assert evaluate(page, ENCODE, [some, None]) == ByteCharacters(50).encode(some).tolist()
    marks = ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
    alphabet = {item: k for k, item in enumerate([*marks, *"abcdefghij눈花😀"])}
    some += ["<bos>", "<eos>", "눈花abc", "😀z"]
    assert evaluate(page, ENCODE, [some, alphabet]) == CodePointCharacters(alphabet, 12).encode(some).tolist()
