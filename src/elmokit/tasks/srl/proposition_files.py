"""Reader of proposition columns: CoNLL-2005, CoNLL-2012 (OntoNotes), and `gold_conll` files of PropBank releases."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from elmokit.errors import InputError
from elmokit.tasks.shared.tags import Span
from elmokit.tasks.srl.proposition import Proposition, SrlSentence
from elmokit.text.columns import Block, fault, read_blocks

_CELL = re.compile(r"(?:\((?P<label>[^()*]+))?\*(?P<close>\))?")  # (ARG0*  *  *)  (V*)


@dataclass(frozen=True)
class ColumnLayout:
    """Column layout of a file format."""

    name: str
    word: int
    target: int  # not "-" at a predicate; the k-th predicate has the k-th proposition column
    first: int  # first proposition column
    after: int = 0  # columns after the proposition columns
    tag: int | None = None  # part of speech; if absent, all predicates are verbs, as in CoNLL-2005


PROPBANK = ColumnLayout("PropBank", word=3, tag=4, target=7, first=8)
CONLL_2012 = ColumnLayout("CoNLL-2012", word=3, tag=4, target=7, first=11, after=1)


def read_propositions(path: Path) -> list[SrlSentence]:
    """Read the sentences of a file; the layout is detected from its columns.

    CoNLL-2012: document, part, number, word, tag, parse, lemma, roleset, sense, speaker, entity, propositions,
    coreference. PropBank: the same up to the roleset, then propositions. CoNLL-2005: the word first, the verbs in the
    last column before the propositions, and any others between.
    """
    blocks = list(read_blocks(path, comment=("#begin document", "#end document")))
    sample = next((block for block in blocks if any("(V*" in cell for row in block.rows for cell in row)), None)
    if sample is None:
        raise InputError(f"{path}: expected proposition columns with predicates as (V*), found none")
    layout = _find_layout(path, sample)
    return [_sentence(path, layout, block) for block in blocks]


def _find_layout(path: Path, block: Block) -> ColumnLayout:
    """Detect the layout from the first sentence with a predicate."""
    width = len(block.rows[0])
    if width > PROPBANK.first and [row[2] for row in block.rows] == [str(k) for k in range(len(block.rows))]:
        return PROPBANK if all("*" in row[PROPBANK.first] for row in block.rows) else CONLL_2012
    for target in range(width - 2, 0, -1):
        layout = ColumnLayout("CoNLL-2005", word=0, target=target, first=target + 1)
        brackets = all("*" in cell for row in block.rows for cell in row[layout.first :])
        if brackets and len(_targets(layout, block)) == width - layout.first:
            return layout
    raise fault(
        path,
        block.line,
        "the columns of CoNLL-2005, CoNLL-2012 or PropBank, with one for every predicate",
        f"{width} columns that are none of these",
    )


def _targets(layout: ColumnLayout, block: Block) -> list[int]:
    """Indices of the predicate tokens."""
    return [k for k, row in enumerate(block.rows) if row[layout.target] != "-"]


def _sentence(path: Path, layout: ColumnLayout, block: Block) -> SrlSentence:
    width = len(block.rows[0])
    if width < layout.first + layout.after:
        raise fault(
            path, block.line, f"{layout.first + layout.after} columns or more, as {layout.name} has", f"{width}"
        )
    targets = _targets(layout, block)
    n_columns = width - layout.first - layout.after
    if n_columns != len(targets) and layout is not CONLL_2012:
        raise fault(
            path,
            block.line,
            f"{layout.first + len(targets)} columns ({layout.name}, {len(targets)} predicates)",
            f"{width}",
        )
    propositions = []
    for k in range(n_columns):
        spans = _spans(path, block, layout.first + k)
        # OntoNotes has predicates without a roleset: their position then comes from the proposition column
        at = targets[k] if n_columns == len(targets) else next(s.start for s in spans if s.label == "V")
        verbal = layout.tag is None or block.rows[at][layout.tag].startswith("VB")
        propositions.append(Proposition(at, spans, verbal))
    return SrlSentence(tuple(row[layout.word] for row in block.rows), tuple(propositions))


def _spans(path: Path, block: Block, column: int) -> tuple[Span, ...]:
    """Parse the bracketed spans of a column."""
    spans: list[Span] = []
    opened: tuple[int, str] | None = None  # position and label
    where = f"in column {column + 1}"
    for k, row in enumerate(block.rows):
        cell, line = row[column], block.line + k
        match = _CELL.fullmatch(cell)
        if match is None:
            raise fault(path, line, f"a cell as (ARG0*, *, *) or (V*) {where}", repr(cell))
        if match["label"] is not None:
            if opened is not None:
                raise fault(path, line, f"({opened[1]}* of line {block.line + opened[0]} closed {where}", repr(cell))
            opened = k, match["label"]
        if match["close"] is not None:
            if opened is None:
                raise fault(path, line, f"an open bracket before a closing one {where}", repr(cell))
            spans.append(Span(opened[0], k + 1, opened[1]))
            opened = None
    if opened is not None:
        line = block.line + opened[0]
        raise fault(path, line, f"({opened[1]}* closed by the end of the sentence {where}", "no closing bracket")
    verbs = sum(span.label == "V" for span in spans)
    if verbs != 1:
        raise fault(path, block.line, f"one span (V*) {where}", str(verbs))
    return tuple(spans)
