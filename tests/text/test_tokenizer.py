"""Tokens as the Penn Treebank and our training text write them, with offsets that always hold."""

from __future__ import annotations

import lzma
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elmokit.errors import InputError, MissingExtraError
from elmokit.text.tokenizer import (
    Token,
    from_spacy,
    get_tokenizer,
    han,
    plain,
    spaces,
    split_sentences,
    tokenize,
    words,
    words_by_sentence,
)

any_text = st.text(st.characters())
punctuated = st.text("aUS.,'’\"`-–—$%5:/()\n “”‘sntNT", max_size=40)


LEANS_LEFT = {".", ",", ";", ":", "?", "!", "%", ")", "n't"}
LEANS_RIGHT = {"(", "$", "£", "€"}


@given(any_text | punctuated)
@example("''a'' ``b\" \"c''")  # mixed quotes that Treebank tokenizers are known to trip over
@example("U.S.")
@example("I'd've")
def test_words_are_where_they_say_and_leave_nothing_out(text: str) -> None:
    tokens = words(text)
    assert all(plain(text[token.start : token.end]) == token.text and token.text for token in tokens)
    covered = {place for token in tokens for place in range(token.start, token.end)}
    assert covered == {place for place, letter in enumerate(text) if not letter.isspace()}
    overlaps = [(a, b) for a, b in pairwise(tokens) if b.start < a.end]
    assert len(overlaps) <= 1  # the dot that an abbreviation shares with the end of the text
    for abbreviation, dot in overlaps:
        assert dot.text == "." and dot.end == abbreviation.end and abbreviation.text.endswith(".")


@given(any_text)
def test_spaces_split_as_str_does(text: str) -> None:
    tokens = spaces(text)
    assert [token.text for token in tokens] == text.split()
    assert all(text[token.start : token.end] == token.text for token in tokens)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I don't know.", "I do n't know ."),
        ("It's DON'T and we'll've, y'all!", "It 's DO N'T and we 'll 've , y'all !"),
        ("The boys' dog's toys", "The boys ' dog 's toys"),
        ("You cannot; I'm gonna wanna.", "You can not ; I 'm gon na wan na ."),
        ("It cost $5 (12%), or US$3.50, or £1,000.", "It cost $ 5 ( 12 % ) , or US$ 3.50 , or £ 1,000 ."),
        ('He said, "Go!"', 'He said , " Go ! "'),
        ("'Tis the '90s, rock 'n' roll 'em", "'Tis the '90s , rock 'n ' roll 'em"),
        ("'Quoted words'", "' Quoted words '"),
        ("O'Brien came at 5 o'clock", "O'Brien came at 5 o'clock"),
        ("the well-known and/or AT&T Node.js C++", "the well-known and/or AT&T Node.js C++"),
        ("Wait--what?! No... yes", "Wait -- what ? ! No ... yes"),
        ("at 10:30 p.m. in a container(s): -5 .NET", "at 10:30 p.m. in a container ( s ) : -5 .NET"),
        ("Mr. J. Smith Jr. of St. Ives, e.g. me.", "Mr. J. Smith Jr. of St. Ives , e.g. me ."),
        ("One ends. Another begins.", "One ends . Another begins ."),
        ("apples, pears, etc.", "apples , pears , etc ."),
        ("No. 5 said no. He left", "No. 5 said no . He left"),
        ("units (kc., Mc., etc.) here", "units ( kc. , Mc. , etc. ) here"),
        ("the pro-U.S. and U.S.-Mexican side", "the pro-U.S. and U.S.-Mexican side"),
        ("It ended.The rest", "It ended . The rest"),
        ("“Don’t,” she said—it’s 1990–95…", '" Do n\'t , " she said -- it \'s 1990-95 ...'),
        ("See https://example.org/a?b=c,d. Then mail", "See https://example.org/a?b=c,d . Then mail"),
        ("Write to a.b@example.org!", "Write to a.b@example.org !"),
        ("do n't , it 's", "do n't , it 's"),
        ("你好，世界。", "你好 ， 世界 。"),
        ("", ""),
    ],
)  # fmt: skip
def test_conventions(text: str, expected: str) -> None:
    assert " ".join(token.text for token in words(text)) == expected


@pytest.mark.parametrize("ending", ["", " ", '"', "') \n"])
def test_a_final_dotted_abbreviation_shares_its_dot(ending: str) -> None:
    tokens = words("in the U.S." + ending)
    assert tokens[2:4] == [Token("U.S.", 7, 11), Token(".", 10, 11)]
    assert "".join(token.text for token in tokens[4:]) == ending.strip()


def test_words_by_sentence_have_their_places_in_the_whole() -> None:
    text = "  He saw Mr. Ott. “Why?”\n\nOtt left the U.S. "
    found = words_by_sentence(text)
    assert [[token.text for token in sentence] for sentence in found] == [
        ["He", "saw", "Mr.", "Ott", "."],
        ['"', "Why", "?", '"'],
        ["Ott", "left", "the", "U.S.", "."],
    ]
    assert [text[sentence[0].start : sentence[-1].end] for sentence in found] == [
        text[start:end] for start, end in split_sentences(text)
    ]
    assert all(token.text == plain(text[token.start : token.end]) for sentence in found for token in sentence)
    assert words_by_sentence(" \n ") == []


def test_tokenized_text_stays_as_it_is() -> None:
    text = "Mr. Smith did n't pay $ 5 ( 12 % ) in the U.S. , he said : \" It 's ... the boys ' -- can not ! \" ."
    assert [token.text for token in words(text)] == text.split()


def test_training_text_comes_back(shared_data: Path) -> None:
    """Plain lines of the held-out text, glued together and tokenized again, are the lines they were."""
    same = total = 0
    with lzma.open(shared_data / "lm" / "heldout-dev.txt.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            tokens = line.split()
            if set(tokens) & {'"', "'", "-", "..."} or "&" in line:
                continue  # which side these lean to is lost
            glued = "".join(
                token if token in LEANS_LEFT or token.startswith("'") or before in LEANS_RIGHT else f" {token}"
                for before, token in zip(["", *tokens], tokens, strict=False)
            )
            for joined in ("can not", "gon na", "wan na", "got ta"):
                glued = glued.replace(f" {joined} ", f" {joined.replace(' ', '')} ")
            if tokens[-2].endswith("."):
                glued = glued[:-1]
            total += 1
            same += [token.text for token in words(glued.strip())] == tokens
    assert total > 3000 and same / total > 0.99


@pytest.mark.parametrize(
    "unit", ["a", ".", " ", "a's", "'s", "n't", "a.b", "-a.b", "http://", "--", "a. ", "U.S. ", "\n", "('"]
)
def test_time_grows_with_the_text_only(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    start = time.process_time()
    words(text)
    assert time.process_time() - start < 5  # a quadratic step would take minutes


def test_plain_punctuation() -> None:
    given = ["“", "n’t", "—", "1990–95", "…", "co\u00adop", "\u200b", "naïve", "'"]
    assert [plain(word) for word in given] == ['"', "n't", "--", "1990-95", "...", "coop", "\u200b", "naïve", "'"]


def test_names() -> None:
    assert (get_tokenizer("words"), get_tokenizer("spaces"), get_tokenizer("han")) == (words, spaces, han)
    assert get_tokenizer(str.split) is str.split
    for unknown in ("word", "spacy", None):
        with pytest.raises(InputError, match="words, han, spaces, spacy:<language code>"):
            get_tokenizer(unknown)  # type: ignore[arg-type]


def test_tokenize_takes_strings_or_tokens() -> None:
    assert tokenize("a b", spaces) == (["a", "b"], [(0, 1), (2, 3)])
    assert tokenize("a b", str.split) == (["a", "b"], None)
    assert tokenize("a b", lambda text: iter([Token("a", 0, 1), "b"])) == (["a", "b"], None)
    assert tokenize("", spaces) == ([], [])
    with pytest.raises(InputError, match="strings or Tokens, found 1"):
        tokenize("a", lambda text: [1])  # type: ignore[list-item]


def test_spacy() -> None:
    spacy = pytest.importorskip("spacy")
    text = "Das  ist z.B. gut,\n ja?"
    for tokenizer in (get_tokenizer("spacy:de"), from_spacy(spacy.blank("de"))):
        tokens = [token for token in tokenizer(text) if isinstance(token, Token)]
        assert [token.text for token in tokens] == ["Das", "ist", "z.B.", "gut", ",", "ja", "?"]
        assert all(text[token.start : token.end] == token.text for token in tokens)
    with pytest.raises(InputError, match="spacy:xyz") as caught:
        get_tokenizer("spacy:xyz")
    assert "\n" not in str(caught.value)


def test_spacy_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(MissingExtraError, match=r"elmokit\[spacy\]"):
        get_tokenizer("spacy:de")


def test_han_characters_are_tokens() -> None:
    text = "他说：「我用ELMo 3.5版……」don't 花園"
    tokens = han(text)
    assert [token.text for token in tokens] == [
        *"他说：「我用", "ELMo", "3.5", "版", *(["..."] * 2), "」", "do", "n't", *"花園",
    ]  # fmt: skip
    assert all(text[token.start : token.end] == token.text for token in tokens if token.text != "...")


@given(st.text(alphabet="花打a. '…—「é\U00020000\n", max_size=30))
def test_han_leaves_everything_else_as_words_does(text: str) -> None:
    assert "".join(token.text for token in han(text)) == "".join(token.text for token in words(text))
    assert han(text.replace("花", "x").replace("打", "y").replace("\U00020000", "z")) == words(
        text.replace("花", "x").replace("打", "y").replace("\U00020000", "z")
    )
