"""Tables of results files that have none inside: those of `elmo wsd` and `elmo probe`, as Markdown lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Numbers = dict[str, Any]  # of a results file
NAMES = {"xpos": "EWT, PTB tags", "upos": "EWT, universal tags", "3": "CoNLL-2000, chunks"}  # of columns with tags


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Markdown lines of a table."""
    cells = [list(header), *map(list, rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|---" * len(cells[0]) + "|", *lines[1:]]


def wsd(files: Sequence[Numbers]) -> list[str]:
    """F1 on every data set, of the first sense and of every layer."""
    [numbers] = files
    scores = numbers["scores"]
    sets = list(next(iter(scores.values())))
    best = {name: max(parts[name]["ALL"]["f1"] for parts in scores.values()) for name in sets}
    rows = []
    for system, parts in scores.items():
        figures = [(parts[name]["ALL"]["f1"], best[name]) for name in sets]
        rows.append([system, *(f"**{f1:.1f}**" if f1 == top else f"{f1:.1f}" for f1, top in figures)])
    return markdown(["F1", *sets], rows)


def probe(files: Sequence[Numbers]) -> list[str]:
    """Tag accuracy of every layer, of the most frequent tag of a word, and of a network with random weights."""
    header = ["% of tokens"]
    rows = {"most frequent tag of the word": [], **{view: [] for view in files[0]["accuracy"]}}  # type: dict[str, list[str]]
    for numbers in files:
        control = numbers["control"]
        header += [NAMES.get(numbers["column"], numbers["column"]), *(["random weights"] if control else [])]
        figures = {"most frequent tag of the word": (numbers["majority"], None)}
        figures |= {view: (score, (control or {}).get(view)) for view, score in numbers["accuracy"].items()}
        for name, (score, random) in figures.items():
            rows[name] += [f"{score:.2f}", *([("" if random is None else f"{random:.2f}")] if control else [])]
    return markdown(header, ([name, *cells] for name, cells in rows.items()))


KINDS: dict[str, Callable[[Sequence[Numbers]], list[str]]] = {"wsd": wsd, "probe": probe}
