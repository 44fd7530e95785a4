"""Model card as blocks of a page: headings, lists and bold text of its Markdown; the rest stays as written."""

from __future__ import annotations

import re

from elmokit.analysis.report.page import Block, Bold, Points, Text


def card_blocks(card: str) -> list[Block]:
    """Blocks of a model card without its front matter."""
    blocks: list[Block] = []
    points: list[Text] = []
    for paragraph in _paragraphs(_text_of(card)):
        if paragraph.startswith(("- ", "* ")):
            points.append(_inline(paragraph[2:]))
            continue
        if points:
            blocks.append(Points(tuple(points)))
            points = []
        heading = re.match(r"#+\s+(.*)", paragraph)
        blocks.append((Bold(heading[1]),) if heading else _inline(paragraph))
    return [*blocks, Points(tuple(points))] if points else blocks


def _paragraphs(text: str) -> list[str]:
    """Paragraphs, headings and list items, each on one line."""
    found: list[str] = []
    fresh = True
    for line in text.splitlines():
        stripped = line.strip()
        starts = stripped.startswith(("- ", "* ", "#"))
        if stripped and (fresh or starts):
            found.append(stripped)
        elif stripped:
            found[-1] += f" {stripped}"
        fresh = not stripped or stripped.startswith("#")
    return found


def _inline(text: str) -> Text:
    """Bold parts as such; code without its backticks, links with their address behind them."""
    text = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", r"\1 (\2)", text).replace("`", "")
    pieces = re.split(r"\*\*(.+?)\*\*", text)
    return tuple(Bold(piece) if k % 2 else piece for k, piece in enumerate(pieces) if piece) or ""


def _text_of(card: str) -> str:
    """Text of a card, without front matter and without comments, which mark its figures."""
    lines = card.strip().splitlines()
    if lines[:1] == ["---"] and "---" in lines[1:]:
        lines = lines[lines.index("---", 1) + 1 :]
    return re.sub(r"<!--.*?-->", "", "\n".join(lines), flags=re.DOTALL).strip()
