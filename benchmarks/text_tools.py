"""Text tools and the CRF beside those of other libraries: F1 and speed.

    pip install spacy nltk pysbd pytorch-crf gensim conllu
    python benchmarks/text_tools.py en_ewt-ud-test.conllu.xz [--vectors vectors.bin]

The file is a treebank in CoNLL-U format whose comments hold the raw text, such as UD English EWT; plain or compressed.
Tools that are not installed are left out. Speed is processor time in one process with one thread, all tools
alternating. Takes some minutes.

Tokenizers get one sentence at a time, splitters one paragraph; an answer counts if both of its offsets are right. Their
speed is that of the first turn, in which the text is new, and of the best turn after it, which profits from caches.
The CRFs get random scores of 17 labels, as BIOES tags of four types are, for sentences as long as those of the treebank
in batches of 32. The readers of word vectors read all of a word2vec file, by default of the words of the treebank
with random vectors of 300 numbers, in text and binary form. The readers of CoNLL-U read the treebank. CRFs and readers
are compared by the best turn, and must give the same results.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import results
import torch

from elmokit.tasks.shared.crf import Crf
from elmokit.text.lines import read_lines
from elmokit.text.tagged_text import read_tagged
from elmokit.text.tokenizer import split_sentences, words
from elmokit.text.word_vectors import read_vectors

Span = tuple[int, int]
Tool = Callable[[str], Iterable[Span]]
Job = Callable[[], object]
Rows = list[dict[str, Any]]
ROUNDS = 3
LABELS, BATCH = 17, 32  # of the CRF
DIM = 300  # of the random word vectors


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
        tools[f"spaCy {version('spacy')} blank `en`"] = lambda text: [
            (token.idx, token.idx + len(token)) for token in tokenizer(text) if not token.is_space
        ]
    if importlib.util.find_spec("nltk"):
        from nltk.tokenize.destructive import NLTKWordTokenizer

        treebank = NLTKWordTokenizer()
        tools[f"NLTK {version('nltk')} `NLTKWordTokenizer`"] = lambda text: _spans_or_none(treebank, text)
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
        tools[f"pysbd {version('pysbd')}"] = lambda text: [
            _stripped(text, span.start, span.end) for span in segmenter.segment(text) if text[span.start : span.end]
        ]
    if importlib.util.find_spec("spacy"):
        import spacy

        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        tools[f"spaCy {version('spacy')} `sentencizer`"] = lambda text: [
            _stripped(text, sentence.start_char, sentence.end_char) for sentence in nlp(text).sents
        ]
    return tools


def _stripped(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def turns(jobs: dict[str, Job]) -> dict[str, list[float]]:
    """Processor time of every turn of each job, all jobs alternating; the first turn is one more than ROUNDS."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(1 + ROUNDS):
        for name, job in jobs.items():
            started = time.process_time()
            job()
            found[name].append(time.process_time() - started)
    return found


def on_all(tool: Tool, texts: list[str]) -> Job:
    """A job that runs a tool on all texts."""

    def job() -> None:
        for text in texts:
            list(tool(text))

    return job


def text_rows(tools: dict[str, Tool], texts: list[str], scores: Callable[[list[list[Span]]], dict[str, float]]) -> Rows:
    """Scores of each tool, and how many times as fast ours, the first one, is: on new and on known text."""
    found = turns({name: on_all(tool, texts) for name, tool in tools.items()})
    ours = next(iter(found.values()))
    return [
        {
            "tool": name,
            **scores([list(tool(text)) for text in texts]),
            "new text": round(found[name][0] / ours[0], 2),
            "text seen before": round(min(found[name][1:]) / min(ours[1:]), 2),
        }
        for name, tool in tools.items()
    ]


def compare_tokenizers(sentences: list[Sentence]) -> dict[str, Any]:
    pairs = [(sentence.text, spans) for sentence in sentences if (spans := sentence.spans()) is not None]
    texts, gold = [text for text, _ in pairs], [spans for _, spans in pairs]
    whole = [join_hyphens(text, spans) for text, spans in pairs]

    def scores(found: list[list[Span]]) -> dict[str, float]:
        joined = [join_hyphens(text, spans) for text, spans in zip(texts, found, strict=True)]
        return {"F1": round(f1(found, gold), 4), "F1 whole": round(f1(joined, whole), 4)}

    rows = text_rows(tokenizers(), texts, scores)
    return {"sentences": len(texts), "words": sum(map(len, gold)), "rows": rows}


def compare_splitters(sentences: list[Sentence]) -> dict[str, Any]:
    parts = paragraphs(sentences)
    texts, gold = [text for text, _ in parts], [spans for _, spans in parts]
    rows = text_rows(splitters(), texts, lambda found: {"F1": round(f1(found, gold), 4)})
    return {"paragraphs": len(texts), "sentences": sum(map(len, gold)), "rows": rows}


def pair_row(work: str, library: str, ours: Job, theirs: Job) -> dict[str, Any]:
    """How many times as fast ours is, by the best turns."""
    found = turns({"ours": ours, "theirs": theirs})
    return {"work": work, "library": library, "ratio": round(min(found["theirs"][1:]) / min(found["ours"][1:]), 2)}


def compare_crfs(lengths: list[int]) -> Rows:
    """Loss with gradients, and Viterbi paths, beside pytorch-crf."""
    if not importlib.util.find_spec("torchcrf"):
        return []
    from torchcrf import CRF

    torch.manual_seed(1)
    ours, theirs = Crf(n_labels=LABELS), CRF(LABELS, batch_first=True)
    with torch.no_grad():
        for mine, other in zip(
            (ours.start, ours.end, ours.transitions),
            (theirs.start_transitions, theirs.end_transitions, theirs.transitions),
            strict=True,
        ):
            mine.copy_(other)
    batches = []
    for start in range(0, len(lengths) - BATCH + 1, BATCH):
        sizes = torch.tensor(lengths[start : start + BATCH])
        mask = torch.arange(int(sizes.max())) < sizes[:, None]
        batches.append((torch.randn(*mask.shape, LABELS), torch.randint(LABELS, mask.shape), mask))

    def train(likelihood: Callable[..., torch.Tensor]) -> Job:
        def job() -> list[float]:
            losses = []
            for emissions, labels, mask in batches:
                loss = -likelihood(emissions.requires_grad_(), labels, mask).sum()
                loss.backward()  # type: ignore[no-untyped-call]
                losses.append(float(loss.detach()))
            return losses

        return job

    def decode(viterbi: Callable[..., list[list[int]]]) -> Job:
        return lambda: [viterbi(emissions.detach(), mask) for emissions, _, mask in batches]

    jobs = [
        ("CRF: loss and gradients", train(ours), train(lambda x, y, mask: theirs(x, y, mask, reduction="none"))),
        ("CRF: Viterbi decoding", decode(ours.viterbi), decode(theirs.decode)),
    ]
    np.testing.assert_allclose(jobs[0][1](), jobs[0][2](), rtol=1e-4)  # type: ignore[arg-type]
    assert jobs[1][1]() == jobs[1][2]()
    return [pair_row(work, f"pytorch-crf {version('pytorch-crf')}", mine, other) for work, mine, other in jobs]


def compare_vectors(path: Path | None, vocabulary: list[str], folder: Path) -> Rows:
    """All vectors of a word2vec file, beside gensim."""
    if not importlib.util.find_spec("gensim"):
        return []
    from gensim.models import KeyedVectors

    files = [path] if path is not None else list(write_vectors(vocabulary, folder))
    rows = []
    for file in files:
        binary = file.name.removesuffix(file.suffix if file.suffix in (".gz", ".bz2") else "").endswith(".bin")

        def ours(file: Path = file) -> Any:
            return read_vectors(file, (), frequent=10**9)

        def theirs(file: Path = file, binary: bool = binary) -> Any:
            return KeyedVectors.load_word2vec_format(str(file), binary=binary)

        mine, other = ours(), theirs()
        assert mine.words == other.index_to_key
        np.testing.assert_allclose(mine.vectors, other.vectors, rtol=1e-6)
        work = f"word vectors: word2vec {'binary' if binary else 'text'}"
        rows.append(pair_row(work, f"gensim {version('gensim')}", ours, theirs))
    return rows


def write_vectors(vocabulary: list[str], folder: Path) -> Iterator[Path]:
    """Random vectors of a vocabulary as word2vec text and binary."""
    vectors = np.random.default_rng(1).normal(size=(len(vocabulary), DIM)).astype(np.float32)
    head = f"{len(vocabulary)} {DIM}\n".encode()
    with (folder / "vectors.txt").open("wb") as text, (folder / "vectors.bin").open("wb") as binary:
        text.write(head)
        binary.write(head)
        for word, vector in zip(vocabulary, vectors, strict=True):
            text.write(f"{word} {' '.join(f'{number:.6f}' for number in vector)}\n".encode())
            binary.write(word.encode() + b" " + vector.tobytes() + b"\n")
    yield folder / "vectors.txt"
    yield folder / "vectors.bin"


def compare_conllu(path: Path, folder: Path) -> Rows:
    """Words and tags of a treebank, beside the package conllu, which also parses the other columns."""
    if not importlib.util.find_spec("conllu"):
        return []
    import conllu

    plain = folder / "treebank.conllu"  # conllu reads no compressed files
    plain.write_text("".join(f"{line}\n" for line in read_lines(path)), encoding="utf-8")

    def ours() -> list[tuple[list[str], list[str]]]:
        return list(read_tagged(plain, "upos").tagged_sentences())

    def theirs() -> list[tuple[list[str], list[str]]]:
        with plain.open(encoding="utf-8") as file:
            sentences = [[token for token in each if isinstance(token["id"], int)] for each in conllu.parse_incr(file)]
        return [([token["form"] for token in each], [token["upos"] for token in each]) for each in sentences]

    assert ours() == theirs()
    return [pair_row("CoNLL-U: words and tags", f"conllu {version('conllu')}", ours, theirs)]


def table(facts: dict[str, Any]) -> str:
    """Three Markdown tables: tokenizers, sentence splitters, and the rest."""
    speeds = "elmokit's speed / its speed, new text | ... text seen before"
    lines = [f"| tokenizer | F1 | F1, hyphenated words whole | {speeds} |", "|---|---|---|---|---|"]
    for row in facts["tokenizers"]["rows"]:
        lines.append(f"| {row['tool']} | {row['F1']:.1f} | {row['F1 whole']:.1f} | {_ratios(row)} |")
    lines += ["", f"| sentence splitter | F1 | {speeds} |", "|---|---|---|---|"]
    for row in facts["splitters"]["rows"]:
        lines.append(f"| {row['tool']} | {row['F1']:.1f} | {_ratios(row)} |")
    lines += ["", "| work | library | elmokit's speed / its speed |", "|---|---|---|"]
    for row in facts["pairs"]:
        lines.append(f"| {row['work']} | {row['library']} | {_ratio(row['ratio'])} |")
    return "\n".join(lines)


def _ratios(row: dict[str, Any]) -> str:
    return f"{_ratio(row['new text'])} | {_ratio(row['text seen before'])}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.0f}x" if ratio >= 20 else f"{ratio:.1f}x"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("treebank", type=Path)
    parser.add_argument("--vectors", type=Path, help="word2vec file, binary if its name ends in .bin [random vectors]")
    parser.add_argument("-o", "--output", type=Path, help="JSON file [docs/results/text_tools.json]")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sentences = list(read_treebank(options.treebank))
    vocabulary = sorted({form for sentence in sentences for form in sentence.forms if not form.count(" ")})
    with tempfile.TemporaryDirectory() as name:
        pairs = compare_crfs([len(sentence.forms) for sentence in sentences])
        pairs += compare_vectors(options.vectors, vocabulary, Path(name))
        pairs += compare_conllu(options.treebank, Path(name))
    facts = {
        "tokenizers": compare_tokenizers(sentences),
        "splitters": compare_splitters(sentences),
        "pairs": pairs,
        "vocabulary": len(vocabulary),
    }
    files = [options.treebank, *([options.vectors] if options.vectors else [])]
    results.write("text_tools", facts, files=files, table=table(facts), output=options.output)
    print(table(facts))


if __name__ == "__main__":
    main()
