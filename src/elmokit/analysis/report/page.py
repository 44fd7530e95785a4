"""Page of text, tables and figures, as self-contained HTML and as Markdown."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

GENERATOR = "elmokit report"  # marks generated pages, which may be replaced


class Bold(str):
    """Bold text."""

    __slots__ = ()


Text = str | tuple[str, ...]  # plain text, or a sequence of plain and Bold parts


@dataclass(frozen=True)
class Table:
    """Table of text; all columns but the first are right-aligned, unless `prose` is set."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    prose: bool = False


@dataclass(frozen=True)
class PageImage:
    """A drawing."""

    name: str  # file name suffix, after the name of the page
    svg: bytes
    says: str  # alternative text


@dataclass(frozen=True)
class Listing:
    """Preformatted text; with a summary, a collapsed `<details>` element."""

    text: str
    summary: str = ""


@dataclass(frozen=True)
class Points:
    """List of sentences."""

    points: tuple[Text, ...]


Block = Text | Table | PageImage | Listing | Points


@dataclass(frozen=True)
class Section:
    """A heading and its content."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Page:
    """A title and sections."""

    title: str
    sections: tuple[Section, ...]

    @property
    def pictures(self) -> list[PageImage]:
        """All figures, in order."""
        return [block for section in self.sections for block in section.blocks if isinstance(block, PageImage)]


_STYLE = """
body { max-width: 72rem; margin: 0 auto; padding: 1rem; font: 1rem/1.5 Georgia, 'Times New Roman', serif; color: #222;
  background: #fff; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-top: 1px solid #ccc;
  padding-top: 0.8rem; }
p, ul, pre { max-width: 50rem; } details pre { max-width: none; } summary { cursor: pointer; color: #555; }
.wide { overflow-x: auto; overflow-wrap: normal; }
table { border-collapse: collapse; font-size: 0.9rem; border-top: 1px solid #222; border-bottom: 1px solid #222; }
th { border-bottom: 1px solid #222; font-weight: normal; font-style: italic; vertical-align: bottom; }
th, td { padding: 0.15rem 0.7rem 0.15rem 0; text-align: right; font-variant-numeric: tabular-nums; }
td { vertical-align: top; } .prose th, .prose td, th:first-child, td:first-child { text-align: left; }
th { min-width: 3.5rem; } .prose { max-width: 60rem; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
pre { font-size: 0.8rem; white-space: pre-wrap; background: #f6f6f6; padding: 0.5rem; }
@media print { body { max-width: none; padding: 0; } h2 { break-after: avoid; } tr, figure { break-inside: avoid; } }
"""


def to_html(page: Page) -> str:
    """Render as one HTML file with embedded figures, without scripts or external resources."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta name="generator" content="{GENERATOR}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(page.title)}</title>",
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        f"<h1>{html.escape(page.title)}</h1>",
    ]
    for section in page.sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [_html_block(block) for block in section.blocks]
    return "\n".join([*parts, "</body>", "</html>", ""])


def _html_block(block: Block) -> str:
    match block:
        case Table(columns, rows, prose):
            head = "".join(f"<th>{_html(column)}</th>" for column in columns)
            body = "\n".join("<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
            kind = "wide prose" if prose else "wide"
            return (
                f'<div class="{kind}"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'
            )
        case PageImage(_, svg, says):
            source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
            return f'<figure><img src="{source}" alt="{html.escape(says)}"></figure>'
        case Listing(text, summary):
            listing = f"<pre>{html.escape(text)}</pre>"
            return f"<details><summary>{html.escape(summary)}</summary>\n{listing}</details>" if summary else listing
        case Points(points):
            return "<ul>\n" + "\n".join(f"<li>{_html(point)}</li>" for point in points) + "\n</ul>"
    return f"<p>{_html(block)}</p>"


def _html(text: Text) -> str:
    return "".join(f"<b>{html.escape(p)}</b>" if isinstance(p, Bold) else html.escape(p) for p in _parts(text))


def to_markdown(page: Page, stem: str) -> str:
    """Render as Markdown, with figures as separate files named `picture_file(stem, picture)`."""
    parts = [f"<!-- {GENERATOR} -->", f"# {_markdown(page.title)}"]
    for section in page.sections:
        parts.append(f"## {_markdown(section.title)}")
        parts += [_markdown_block(block, stem) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def picture_file(stem: str, picture: PageImage) -> str:
    """File name of a figure of a page."""
    return f"{stem}-{picture.name}.svg"


def _markdown_block(block: Block, stem: str) -> str:
    match block:
        case Table(columns, rows, prose):
            line = ["---"] + ["---" if prose else "---:"] * (len(columns) - 1)
            cells: list[Sequence[str]] = [[_markdown(column) for column in columns], line]
            cells += [[_markdown(cell) for cell in row] for row in rows]
            return "\n".join(f"| {' | '.join(row)} |" for row in cells)
        case PageImage(_, _, says):
            return f"![{_markdown(says)}](<{picture_file(stem, block)}>)"
        case Listing(text, summary):
            fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
            listing = f"{fence}\n{text}\n{fence}"
            # the attribute is for MkDocs; GitHub needs none
            folded = f'<details markdown="1"><summary>{html.escape(summary)}</summary>\n\n{listing}\n\n</details>'
            return folded if summary else listing
        case Points(points):
            return "\n".join(f"- {_markdown(point)}" for point in points)
    return _markdown(block)


def _markdown(text: Text) -> str:
    """Escaped text, with Bold parts as markup."""
    pieces = []
    for part in _parts(text):
        plain = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", html.escape(re.sub(r"\s+", " ", part), quote=False))
        pieces.append(f"**{plain}**" if isinstance(part, Bold) else plain)
    return "".join(pieces)


def _parts(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text
