"""Tokenizer and sentence splitter beside those of other libraries: F1 and speed on raw text.

    pip install spacy nltk pysbd
    python benchmarks/text_tools.py en_ewt-ud-test.conllu.xz

The file is a treebank in CoNLL-U format whose comments hold the raw text, such as UD English EWT; plain or compressed.
Tools that are not installed are left out. Tokenizers get one sentence at a time, splitters one paragraph; an answer
counts if both of its offsets are right. Speed is processor time, all tools alternating, in one process: of the first
turn, in which the text is new, and of the best turn after it, which profits from caches. Takes a minute.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from elmokit.text.lines import read_lines
from elmokit.text.tokenizer import split_sentences, words

Span = tuple[int, int]
Tool = Callable[[str], Iterable[Span]]
ROUNDS = 3
COLUMNS = "new text, per s | elmokit's speed / its speed | text seen before, per s | elmokit's speed / its speed"


@dataclass
class Sentence:
    text: str = ""
    forms: list[str] = field(default_factory=list)
    starts_paragraph: bool = False
    space_after: bool = True  # whether white space follows in the raw text

    def spans(self) -> list[Span] | None:
        """Offsets of the words; None where they are not pieces of the text, as in a few contractions."""
        found, place = [], 0
        for form in self.forms:
            start = self.text.find(form, place)
            if start < 0 or self.text[place:start].strip():
                return None
            place = start + len(form)
            found.append((start, place))
        return found


def read_treebank(path: str) -> Iterator[Sentence]:
    sentence = Sentence()
    inside = 0  # last word of a multiword token, whose words have no SpaceAfter of their own
    for line in read_lines(path):
        if not line:
            if sentence.forms:
                yield sentence
            sentence, inside = Sentence(), 0
        elif line.startswith("# text = "):
            sentence.text = line.removeprefix("# text = ")
        elif line.startswith(("# newdoc", "# newpar")):
            sentence.starts_paragraph = True
        elif not line.startswith("#"):
            columns = line.split("\t")
            space = "SpaceAfter=No" not in columns[9]
            if "-" in columns[0]:
                inside, sentence.space_after = int(columns[0].split("-")[1]), space
            elif "." not in columns[0]:  # empty nodes are not in the text
                sentence.forms.append(columns[1])
                if int(columns[0]) > inside:
                    sentence.space_after = space


def paragraphs(sentences: list[Sentence]) -> list[tuple[str, list[Span]]]:
    """Raw text of every paragraph, and the offsets of its sentences."""
    found: list[tuple[str, list[Span]]] = []
    space = ""
    for sentence in sentences:
        if sentence.starts_paragraph or not found:
            found.append(("", []))
            space = ""
        text, spans = found[-1]
        start = len(text) + len(space)
        found[-1] = (text + space + sentence.text, [*spans, (start, start + len(sentence.text))])
        space = " " if sentence.space_after else ""
    return found


def join_hyphens(text: str, spans: Iterable[Span]) -> list[Span]:
    """Spans with `search - engine` as one word where the text has `search-engine`."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and joined[-1][1] == start and (_is_inner(text, start - 1) or _is_inner(text, start)):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined


def _is_inner(text: str, place: int) -> bool:
    around = text[max(0, place - 1) : place], text[place + 1 : place + 2]
    return text[place] == "-" and all(map(str.isalnum, around))


def f1(found: list[list[Span]], gold: list[list[Span]]) -> float:
    right = sum(len(set(a) & set(b)) for a, b in zip(found, gold, strict=True))
    return 200 * right / (sum(map(len, found)) + sum(map(len, gold)))


def tokenizers() -> dict[str, Tool]:
    tools: dict[str, Tool] = {"elmokit `words`": lambda text: [(token.start, token.end) for token in words(text)]}
    if importlib.util.find_spec("spacy"):
        import spacy

        tokenizer = spacy.blank("en").tokenizer
        tools["spaCy blank `en`"] = lambda text: [
            (token.idx, token.idx + len(token)) for token in tokenizer(text) if not token.is_space
        ]
    if importlib.util.find_spec("nltk"):
        from nltk.tokenize.destructive import NLTKWordTokenizer

        treebank = NLTKWordTokenizer()
        tools["NLTK `NLTKWordTokenizer`"] = lambda text: _spans_or_none(treebank, text)
    return tools


def _spans_or_none(treebank: object, text: str) -> list[Span]:
    try:
        return list(treebank.span_tokenize(text))  # type: ignore[attr-defined]
    except ValueError:  # it has rewritten a quote, and does not find it again
        return []


def splitters() -> dict[str, Tool]:
    tools: dict[str, Tool] = {"elmokit `split_sentences`": split_sentences}
    if importlib.util.find_spec("pysbd"):
        import pysbd

        segmenter = pysbd.Segmenter(language="en", clean=False, char_span=True)
        tools["pysbd"] = lambda text: [
            _stripped(text, span.start, span.end) for span in segmenter.segment(text) if text[span.start : span.end]
        ]
    if importlib.util.find_spec("spacy"):
        import spacy

        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        tools["spaCy `sentencizer`"] = lambda text: [
            _stripped(text, sentence.start_char, sentence.end_char) for sentence in nlp(text).sents
        ]
    return tools


def _stripped(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def seconds(tools: dict[str, Tool], texts: list[str]) -> dict[str, tuple[float, float]]:
    """Time of each tool for all texts: of the first turn, and of the best turn after it."""
    turns: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(1 + ROUNDS):
        for name, tool in tools.items():
            started = time.process_time()
            for text in texts:
                tool(text)
            turns[name].append(time.process_time() - started)
    return {name: (first, min(later)) for name, (first, *later) in turns.items()}


def speeds(times: dict[str, tuple[float, float]], name: str, count: int) -> str:
    """Cells of a table: rate on new and on known text, and how much faster ours is."""
    ours = next(iter(times.values()))
    cells = [f"{count / each:,.0f} | {each / own:.1f}x" for each, own in zip(times[name], ours, strict=True)]
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("treebank")
    sentences = list(read_treebank(parser.parse_args().treebank))
    pairs = [(sentence.text, spans) for sentence in sentences if (spans := sentence.spans()) is not None]
    texts, gold = [text for text, _ in pairs], [spans for _, spans in pairs]
    print(f"{len(texts):,} sentences, {sum(map(len, gold)):,} words; {len(sentences) - len(texts)} without offsets\n")
    print(f"| tokenizer | F1 | F1, hyphenated words whole | {COLUMNS} |\n|---|---|---|---|---|---|---|")
    tools = tokenizers()
    times = seconds(tools, texts)
    whole = [join_hyphens(text, spans) for text, spans in pairs]
    for name, tool in tools.items():
        found = [list(tool(text)) for text in texts]
        joined = [join_hyphens(text, spans) for text, spans in zip(texts, found, strict=True)]
        rates = speeds(times, name, sum(map(len, gold)))
        print(f"| {name} | {f1(found, gold):.1f} | {f1(joined, whole):.1f} | {rates} |")

    parts = paragraphs(sentences)
    texts, gold = [text for text, _ in parts], [spans for _, spans in parts]
    print(f"\n{len(texts):,} paragraphs, {sum(map(len, gold)):,} sentences\n")
    print(f"| sentence splitter | F1 | {COLUMNS} |\n|---|---|---|---|---|---|")
    tools = splitters()
    times = seconds(tools, texts)
    for name, tool in tools.items():
        rates = speeds(times, name, sum(map(len, gold)))
        print(f"| {name} | {f1([list(tool(text)) for text in texts], gold):.1f} | {rates} |")


if __name__ == "__main__":
    main()
