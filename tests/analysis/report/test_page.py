"""Pages as HTML and Markdown: all that was said, and nothing that runs."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from elmokit.analysis.report.page import Bold, Listing, Page, PageImage, Points, Section, Table, to_html, to_markdown

NASTY = "<script>alert('x')</script> & \"q\" | *b* _i_ `c` [l](u) # ~"


class _Reader(HTMLParser):
    """Text, tags and attributes of a page; every tag must be closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.values: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.values += [value or "" for _, value in attrs]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def page(text: str) -> Page:
    blocks = (
        text,
        ("before ", Bold(text), " after"),
        Table(("", text), ((text, "1.0"), ((Bold(text),), "2.0"))),
        Table(("a", "b"), (("x", "y"),), prose=True),
        PageImage("figure", b"<svg/>", text),
        Listing(text),
        Points((text,)),
    )
    return Page(text, (Section(text, blocks),))


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1) | st.just(NASTY))
def test_html_says_what_was_said_and_no_more(text: str) -> None:
    read = _Reader(to_html(page(text)))
    assert read.tags <= {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "p",
        "b",
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "figure",
        "img",
        "pre",
        "ul",
        "li",
    }
    assert read.text.count(text) >= 8 or len(text.strip()) == 0
    assert not [value for value in read.values if re.match(r"\s*(https?|javascript):", value) and value != text]


def test_html_by_hand() -> None:
    found = to_html(page(NASTY))
    assert "<script>" not in found and "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in found
    assert '<img src="data:image/svg+xml;base64,PHN2Zy8+" alt="&lt;script&gt;' in found
    assert "<b>&lt;script&gt;" in found and '<div class="wide prose">' in found
    assert "<tr><td>x</td><td>y</td></tr>" in found


def test_markdown_by_hand() -> None:
    found = to_markdown(page(NASTY), "report")
    escaped = "&lt;script&gt;alert('x')&lt;/script&gt; &amp; \"q\" \\| \\*b\\* \\_i\\_ \\`c\\` \\[l\\](u) \\# \\~"
    lines = found.splitlines()
    assert lines[0] == "<!-- elmokit report -->" and f"# {escaped}" in lines and f"## {escaped}" in lines
    assert f"before **{escaped}** after" in lines and f"- {escaped}" in lines
    assert f"| {escaped} | 1.0 |" in lines and f"| **{escaped}** | 2.0 |" in lines
    assert "| --- | ---: |" in lines and "| --- | --- |" in lines
    assert f"![{escaped}](<report-figure.svg>)" in lines
    assert f"```\n{NASTY}\n```" in found
    assert "````\na ``` b\n````" in to_markdown(Page("t", (Section("s", (Listing("a ``` b"),)),)), "x")
    assert to_markdown(Page("t", (Section("s", (Table(("a\nb",), (("c\n\nd",),)),)),)), "x").count("\n\n") == 3
