"""The examples of docs/embedding.md do what they show."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "embedding.md"


def test_examples_print_what_the_page_shows() -> None:
    blocks = re.findall(r"```python\n(>>>.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "page", str(PAGE), 0)
    assert len(examples.examples) >= 12
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples).failed == 0
