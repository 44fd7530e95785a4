"""Model cards as blocks of a page."""

from __future__ import annotations

from elmokit.analysis.report.card_blocks import card_blocks
from elmokit.analysis.report.page import Bold, Points

CARD = """---
license: apache-2.0
---

# base

A small biLM
in two lines.

- **Perplexity**: <!-- result: perplexity.json mean:.1f -->79.8<!-- /result --> on `test`, see
  [the page](https://example.org/page).
- second
"""


def test_headings_lists_and_bold_text() -> None:
    assert card_blocks(CARD) == [
        (Bold("base"),),
        ("A small biLM in two lines.",),
        Points(((Bold("Perplexity"), ": 79.8 on test, see the page (https://example.org/page)."), ("second",))),
    ]


def test_a_card_without_text_has_no_blocks() -> None:
    assert card_blocks("---\nlicense: mit\n---\n") == []
