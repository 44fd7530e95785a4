"""Memory-mapped arrays: what is read, and what damaged or foreign files are told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from elmokit.disk.array_file import map_array
from elmokit.errors import FormatError


def test_an_array_is_mapped_and_not_read(tmp_path: Path) -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "a.npy", array)
    mapped = map_array(tmp_path / "a.npy", np.float32, 2)
    assert isinstance(mapped, np.memmap) and np.array_equal(mapped, array)
    with pytest.raises(ValueError, match="read-only"):
        mapped[0, 0] = 1


def test_a_copy_on_write_leaves_the_file_unchanged(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3, np.int64))
    mapped = map_array(tmp_path / "a.npy", np.int64, 1, mode="c")
    mapped[:] = 7
    assert map_array(tmp_path / "a.npy", np.int64, 1).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("dtype", "n_dims", "message"),
    [
        (np.float32, 1, r"expected 1 dimension\(s\) of float32, found 2 of float32"),
        (np.float16, 2, r"expected 2 dimension\(s\) of float16, found 2 of float32"),
    ],
)
def test_another_shape_or_type(tmp_path: Path, dtype: type, n_dims: int, message: str) -> None:
    np.save(tmp_path / "a.npy", np.zeros((2, 2), np.float32))
    with pytest.raises(FormatError, match=rf"a\.npy: {message}"):
        map_array(tmp_path / "a.npy", dtype, n_dims)


def damaged(tmp_path: Path, how: str) -> Path:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(1000, np.float32))
    content = path.read_bytes()
    if how == "objects":
        np.save(path, np.array([{}], dtype=object))
    elif how == "archive":
        np.savez(path.with_suffix(".npz"), a=np.zeros(3))
        return path.with_suffix(".npz")
    else:
        changed = {"empty": b"", "truncated": content[:2000], "header": content.replace(b"'<f4'", b"[[[[[")}
        path.write_bytes(changed[how])
    return path


@pytest.mark.parametrize("how", ["empty", "truncated", "header", "objects", "archive"])
def test_damaged_files(tmp_path: Path, how: str) -> None:
    path = damaged(tmp_path, how)
    with pytest.raises(FormatError, match=rf"{path.name}: expected") as caught:
        map_array(path, np.float32, 1)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"a\.npy: expected a \.npy file"):
        map_array(tmp_path / "a.npy", np.float32, 1)
