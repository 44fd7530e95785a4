"""Documents with coreference clusters, and a reader of CoNLL-2012 columns."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elmokit.errors import InputError
from elmokit.text.columns import fault
from elmokit.text.lines import LineReader

MentionSpan = tuple[int, int]  # first and last token, counted from 0 through the whole document

NO_SPEAKER = "-"
_BEGIN = re.compile(r"#begin document \((?P<name>.*)\); part (?P<part>\d+)\s*\Z")
_BRACKET = re.compile(r"(?P<open>\()?(?P<cluster>\d+)(?P<close>\))?\Z")
_WORD, _SPEAKER, _N_COLUMNS = 3, 9, 12  # the coreference column is the last, of 12 or more
_NOTHING = ("", "-", "_", "*")


@dataclass(frozen=True)
class Document:
    """A tokenized document, with its clusters if known."""

    sentences: list[list[str]]
    speakers: list[str] = field(default_factory=list)  # one per sentence, or empty
    clusters: list[list[MentionSpan]] = field(default_factory=list)  # in order of appearance, and so are the mentions
    name: str = ""
    text: str | None = None  # the raw text that was tokenized, if any
    offsets: list[tuple[int, int]] | None = None  # character offsets of the tokens in `text`

    def __post_init__(self) -> None:
        if not any(self.sentences):
            raise InputError(f"document {self.name}: expected at least one word, found none")
        if self.speakers and len(self.speakers) != len(self.sentences):
            raise InputError(
                f"document {self.name}: expected a speaker for each of {len(self.sentences)} sentences, or none, "
                f"found {len(self.speakers)}"
            )

    @property
    def tokens(self) -> list[str]:
        """The tokens of all sentences."""
        return [token for sentence in self.sentences for token in sentence]

    @property
    def genre(self) -> str:
        """Genre in the document name: `bn` for `bn/abc/00/abc_0001`, `vlog` for `GUM_vlog_london`, otherwise empty."""
        if "/" in self.name:
            return self.name.split("/")[0]
        parts = self.name.split("_")
        return parts[1] if parts[0] == "GUM" and len(parts) > 2 else ""


def read_documents(path: str | Path) -> list[Document]:
    """Read the documents of a file in CoNLL-2012 columns, plain or compressed.

    A line has document, part, number, word, ..., speaker (tenth), ..., coreference (last): `(3` opens a mention of
    cluster 3, `3)` closes the last one opened, `(3)` is a single-word mention, `|` separates several, and `-`, `_` or
    an empty cell means none. Columns are separated by tabs or, in lines without tabs, by spaces. Every part of a
    document is a separate document.
    """
    with LineReader(path) as reader:
        documents = list(_documents(reader))
        if not documents:
            raise fault(reader.name, reader.line_number, "documents in CoNLL-2012 columns", "the end of the file")
    return documents


def _documents(reader: LineReader) -> Iterator[Document]:
    draft: _Draft | None = None
    for line in reader:
        if line.startswith("#begin document"):
            match = _BEGIN.match(line)
            if draft is not None or match is None:
                expected = "'#begin document (name); part 000'" if draft is None else f"'#end document' of {draft.name}"
                raise fault(reader.name, reader.line_number, expected, repr(line[:60]))
            part = int(match["part"])
            draft = _Draft(reader, f"{match['name']} part {part}" if part else match["name"])
        elif draft is None:
            if line.startswith("#end document") or (line.strip() and not line.startswith("#")):
                raise fault(reader.name, reader.line_number, "'#begin document (name); part 000'", repr(line[:60]))
        elif line.startswith("#end document"):
            yield draft.finish()
            draft = None
        elif line.strip():
            draft.add(line.split("\t") if "\t" in line else line.split())
        else:
            draft.end_sentence()
    if draft is not None:
        raise fault(reader.name, reader.line_number, f"'#end document' of {draft.name}", "the end of the file")


class _Draft:
    """A partially read document."""

    def __init__(self, reader: LineReader, name: str) -> None:
        self.reader = reader  # for the current line number
        self.name = name
        self.sentences: list[list[str]] = [[]]
        self.speakers: list[str] = []
        self.n_tokens = 0
        self.mentions: dict[str, list[MentionSpan]] = {}
        self.open: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # first token, and its line

    def add(self, columns: list[str]) -> None:
        """Add one word."""
        if len(columns) < _N_COLUMNS:
            raise self._fault(f"{_N_COLUMNS} columns or more, the last of them for coreference", str(len(columns)))
        word, speaker, cell = (columns[k].strip() for k in (_WORD, _SPEAKER, -1))
        if not word:
            raise self._fault(f"a word in column {_WORD + 1}", "nothing")
        if not self.sentences[-1]:
            self.speakers.append(NO_SPEAKER if speaker in _NOTHING else speaker)
        self.sentences[-1].append(word)
        for bracket in () if cell in _NOTHING else cell.split("|"):
            self._bracket(bracket, cell)
        self.n_tokens += 1

    def end_sentence(self) -> None:
        """End the current sentence."""
        if self.sentences[-1]:
            self.sentences.append([])

    def finish(self) -> Document:
        """Return the document; all brackets must be closed."""
        for cluster, opened in self.open.items():
            if opened:
                raise fault(
                    self.reader.name, opened[-1][1], f"the bracket ({cluster} to be closed", "the end of the document"
                )
        if not self.n_tokens:
            raise self._fault(f"words in document {self.name}", "none")
        clusters = [sorted(set(mentions)) for mentions in self.mentions.values()]
        return Document([sentence for sentence in self.sentences if sentence], self.speakers, clusters, self.name)

    def _bracket(self, bracket: str, cell: str) -> None:
        match = _BRACKET.match(bracket)
        if match is None or not (match["open"] or match["close"]):
            raise self._fault("brackets such as (3, 3) or (3)|(7 in the last column", repr(cell[:60]))
        cluster = match["cluster"]
        if match["open"]:
            self.mentions.setdefault(cluster, [])  # clusters are kept in order of opening
            self.open[cluster].append((self.n_tokens, self.reader.line_number))
        if match["close"]:
            if not self.open[cluster]:
                raise self._fault(f"the bracket {cluster}) to be opened before it is closed", repr(cell[:60]))
            self.mentions[cluster].append((self.open[cluster].pop()[0], self.n_tokens))

    def _fault(self, expected: str, found: str) -> InputError:
        return fault(self.reader.name, self.reader.line_number, expected, found)
