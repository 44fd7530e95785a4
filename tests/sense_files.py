"""Small sense-annotated data sets and WordNets, written by hand into the files that are published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

# (text, lemma, part of speech, gold keys) of an instance, or the text of a plain word
Word = str | tuple[str, str, str, Sequence[str]]

BANK_RIVER, BANK_MONEY = "bank%1:17:01::", "bank%1:14:00::"
TAKE_PLACE, RUN_MOVE, RUN_WORK = "take_place%2:30:00::", "run%2:38:00::", "run%2:35:04::"
HOT_WARM, HOT_SPICY = "hot%3:00:01::", "hot%5:00:00:tasty:00"

# the first bank is the river's
INDEX_SENSE = f"""\
{BANK_MONEY} 08420278 2 20
{BANK_RIVER} 09213565 1 25
{HOT_SPICY} 02397496 2 1
{HOT_WARM} 01247240 1 30
{RUN_MOVE} 01926311 1 106
{RUN_WORK} 01525666 2 7
{TAKE_PLACE} 00339934 1 0
"""


def write_corpus(folder: Path, name: str, sentences: Sequence[Sequence[Word]]) -> Path:
    """A data set as NAME.data.xml and NAME.gold.key.txt; instances are called s0.t0, s0.t1, ... as they come."""
    lines = ['<?xml version="1.0" encoding="UTF-8" ?>', '<corpus lang="en" source="test">', '<text id="d0">']
    keys = []
    for s, sentence in enumerate(sentences):
        lines.append(f'<sentence id="s{s}">')
        for t, word in enumerate(sentence):
            if isinstance(word, str):
                lines.append(f'<wf lemma="{word}" pos="X">{word}</wf>')
            else:
                text, lemma, pos, senses = word
                lines.append(f'<instance id="s{s}.t{t}" lemma="{lemma}" pos="{pos}">{text}</instance>')
                keys.append(f"s{s}.t{t} {' '.join(senses)}\n")
        lines.append("</sentence>")
    path = folder / f"{name}.data.xml"
    path.write_text("\n".join([*lines, "</text>", "</corpus>", ""]), encoding="utf-8")
    (folder / f"{name}.gold.key.txt").write_text("".join(keys), encoding="utf-8")
    return path


def write_wordnet(folder: Path) -> Path:
    """A folder with index.sense."""
    folder.mkdir(exist_ok=True)
    (folder / "index.sense").write_text(INDEX_SENSE)
    return folder
