"""Pickles that would take memory, or call something, are refused before they are read."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from pathlib import Path

import pytest

from elmokit.errors import FormatError
from elmokit.weights.files import single
from elmokit.weights.pickle_guard import check_pickle
from elmokit.weights.torch_layout import read_state_dict

GREEDY = b"\x80\x02cbuiltins\nbytearray\nJ\x00\x28\x6b\xeeK\x00\x85R."


@pytest.mark.parametrize("content", [GREEDY, pickle.dumps(bytearray(10), 5), pickle.dumps({1j}), pickle.dumps(print)])
@pytest.mark.parametrize("zipped", [True, False])
def test_other_calls_are_refused(tmp_path: Path, content: bytes, zipped: bool) -> None:
    if zipped:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("archive/data.pkl", content)
            archive.writestr("archive/version", "3\n")
        content = buffer.getvalue()
    (tmp_path / "x.th").write_bytes(content)
    with pytest.raises(FormatError, match=r"expected a pickle of tensors and nothing else; (it was )?refused"):
        read_state_dict(single(tmp_path / "x.th"))
    file = io.BytesIO(b"no pickle at all")
    with pytest.raises((FormatError, ValueError)):
        check_pickle(file, "x")
    assert file.tell() == 0


@pytest.mark.parametrize("way", ["upper case", "twice", "appended zip", "damaged directory"])
def test_pickles_that_torch_would_find_are_checked_wherever_they_are(tmp_path: Path, way: str) -> None:
    """Files that Python's `zipfile` and torch read in different ways: nothing unchecked may reach torch."""
    buffer = io.BytesIO()
    plain = pickle.dumps({}, 2)
    name = "archive/DATA.PKL" if way == "upper case" else "archive/data.pkl"
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)  # of the same name twice
        archive.writestr("a.txt" if way == "appended zip" else name, GREEDY)
        if way == "twice":
            archive.writestr(name, plain)
        archive.writestr("archive/version", "3\n")
    content = buffer.getvalue()
    if way == "appended zip":
        content = plain * 3 + GREEDY + content
    elif way == "damaged directory":
        content = content.replace(b"archive/version", b"archive/versiom", 1).replace(b"archive/data.pkl", b"x" * 16, 1)
    (tmp_path / "x.th").write_bytes(content)
    with pytest.raises(FormatError, match=r"refused: it calls 'builtins\.bytearray'|found a damaged"):
        read_state_dict(single(tmp_path / "x.th"))
    with pytest.raises(ValueError):
        check_pickle(io.BytesIO(content), "x")
