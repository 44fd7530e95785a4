"""Files of columns, good and bad."""

from __future__ import annotations

from pathlib import Path

import pytest
from compressed import SUFFIXES, compress

from elmokit.errors import InputError
from elmokit.text.columns import read_blocks


def write(folder: Path, text: str, suffix: str = "") -> Path:
    path = folder / f"data.txt{suffix}"
    path.write_bytes(compress(text.encode(), suffix))
    return path


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_blocks_know_their_lines(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, "\n\na O\nb B-X\n\n \nc  O\n", suffix)
    blocks = list(read_blocks(path))
    assert [(block.line, block.rows) for block in blocks] == [(3, [["a", "O"], ["b", "B-X"]]), (7, [["c", "O"]])]


def test_a_tab_separates_where_there_is_one(tmp_path: Path) -> None:
    path = write(tmp_path, "New York\tO\nno\u00a0break\tO\n\nno\u00a0break O\n")
    tokens = [row[0] for block in read_blocks(path) for row in block.rows]
    assert tokens == ["New York", "no\u00a0break", "no\u00a0break"]


def test_comments_end_a_block_and_go_with_the_next(tmp_path: Path) -> None:
    path = write(tmp_path, "# one\na 1\n# two\n# three\nb 2\n# end\n")
    found = [(block.comments, block.rows[0][0], block.line) for block in read_blocks(path, comment="#")]
    assert found == [(["# one"], "a", 2), (["# two", "# three"], "b", 5)]
    assert sum(len(block.rows) for block in read_blocks(path)) == 6  # without, they are tokens


def test_broken_lines_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data.txt: line 2: expected at least 2 columns, found 1 in 'b'"):
        list(read_blocks(write(tmp_path, "a O\nb\n")))
    with pytest.raises(InputError, match=r"line 3: expected 2 columns, as in line 2, found 3: 'b B O'"):
        list(read_blocks(write(tmp_path, "\na O\nb B O\n")))
    with pytest.raises(InputError, match="No such file"):
        list(read_blocks(tmp_path / "absent"))
