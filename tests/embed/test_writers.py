"""The formats, read back with the libraries that their users have."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from full_disk import file_size_limit
from stored_records import DIM, TEXTS, records, write

from elmokit.embed import writers
from elmokit.embed.record import Record, RecordLayout
from elmokit.embed.writers import Format, format_of
from elmokit.errors import ConfigError


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("n_layers", [3, None])
def test_hdf5_has_one_dataset_a_line(tmp_path: Path, n_layers: int | None, dtype: str) -> None:
    rows = records(n_layers, dtype)
    path = write(tmp_path / "a.h5", "hdf5", RecordLayout(DIM, n_layers), rows)
    with h5py.File(path) as file:
        assert set(file) == {"0", "1", "2", "3", "4", "sentence_to_index"}
        for k, record in enumerate(rows):
            assert file[str(k)].dtype == dtype
            assert file[str(k)].shape == record.vectors.shape
            np.testing.assert_array_equal(file[str(k)][()], record.vectors)
        assert file["1"].shape[-2] == 0


def test_hdf5_sentence_to_index_is_allennlps(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "a.h5", "hdf5", RecordLayout(DIM, 3), records())) as file:
        dataset = file["sentence_to_index"]
        assert dataset.shape == (1,)
        assert h5py.check_string_dtype(dataset.dtype).length is None
        # as readers of allennlp's files do; the last of equal sentences counts
        index = json.loads(dataset[0])
    assert index == {"A cat .": "3", "": "1", TEXTS[2].strip(): "2", "padded": "4"}


def test_hdf5_can_forget_the_sentences(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "a.h5", "hdf5", RecordLayout(DIM, 3), records(), keep_sentences=False)) as file:
        assert set(file) == {"0", "1", "2", "3", "4"}


def test_hdf5_has_tokens_as_attributes(tmp_path: Path) -> None:
    long = ["word" + str(k) for k in range(30_000)]  # 64 KB is the most that an attribute can hold itself
    more = [
        Record("raw text", ["raw", "text"], None, np.zeros((2, DIM), np.float32), 7),
        Record("\ud800 a/b", ["\ud800", "a/b"], [(0, 1), (2, 5)], np.zeros((2, DIM), np.float32)),
        Record(" ".join(long), long, [(k, k + 1) for k in range(len(long))], np.zeros((len(long), DIM), np.float32)),
    ]
    with h5py.File(write(tmp_path / "a.h5", "hdf5", RecordLayout(DIM, None), [*records(None), *more])) as file:
        for k, record in enumerate([*records(None), *more]):
            attributes = {name: json.loads(value) for name, value in file[str(k)].attrs.items()}
            assert attributes.pop("tokens") == record.tokens
            assert attributes.pop("offsets", None) == (record.offsets and [list(span) for span in record.offsets])
            assert attributes == ({} if record.line is None else {"line": 7})


def test_hdf5_of_nothing_is_a_file(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path / "a.h5", "hdf5", RecordLayout(DIM, 3), [])) as file:
        assert json.loads(file["sentence_to_index"][0]) == {}


def test_npz_opens_without_pickle(tmp_path: Path) -> None:
    rows = records()
    path = write(tmp_path / "a.npz", "npz", RecordLayout(DIM, 3), rows)
    with np.load(path, allow_pickle=False) as file:
        assert file.files == [name for k in range(5) for name in (f"{k}", f"{k}.json")]
        for k, record in enumerate(rows):
            facts = json.loads(file[f"{k}.json"])
            assert facts == {
                "text": record.text,
                "tokens": record.tokens,
                "offsets": [[n, n + 1] for n, _ in facts["offsets"]],
            }
            assert file[str(k)].dtype == np.float32
            np.testing.assert_array_equal(file[str(k)], record.vectors)
    assert path.read_bytes() == write(tmp_path / "b.npz", "npz", RecordLayout(DIM, 3), rows).read_bytes()


def test_npz_without_sentences(tmp_path: Path) -> None:
    with np.load(write(tmp_path / "a.npz", "npz", RecordLayout(DIM, 3), records(), keep_sentences=False)) as file:
        assert file.files == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_npz_of_pooled_sentences_is_a_matrix(tmp_path: Path, dtype: str) -> None:
    rows = records(None, dtype, pooled=True)
    layout = RecordLayout(DIM, None, pooled=True, dtype=dtype)  # type: ignore[arg-type]
    with np.load(write(tmp_path / "a.npz", "npz", layout, rows, count=len(rows)), allow_pickle=False) as file:
        assert file["vectors"].dtype == dtype
        np.testing.assert_array_equal(file["vectors"], np.stack([record.vectors for record in rows]))
        assert json.loads(file["texts.json"]) == TEXTS
    path = write(tmp_path / "b.npz", "npz", layout, rows, count=len(rows), keep_sentences=False)
    assert np.load(path).files == ["vectors"]
    with np.load(write(tmp_path / "c.npz", "npz", layout, [], count=0)) as file:
        assert file["vectors"].shape == (0, DIM) and json.loads(file["texts.json"]) == []


def test_npz_of_pooled_sentences_has_their_lines(tmp_path: Path) -> None:
    rows = [replace(record, line=k // 2 + 1) for k, record in enumerate(records(None, pooled=True))]
    layout = RecordLayout(DIM, None, pooled=True)
    with np.load(write(tmp_path / "a.npz", "npz", layout, rows, count=len(rows))) as file:
        assert file.files == ["vectors", "texts.json", "lines.json"]
        assert json.loads(file["lines.json"]) == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("format", ["hdf5", "parquet", "npz"])
def test_a_full_disk_is_an_oserror_wherever_it_comes(tmp_path: Path, format: Format) -> None:
    """The HDF5 library by itself would crash, or lose data without a word."""
    rows = records() * 12
    whole = write(tmp_path / "whole", format, RecordLayout(DIM, 3), rows).stat().st_size
    for limit in [*range(0, whole, whole // 37), whole - 1]:
        with file_size_limit(limit), pytest.raises(OSError, match="too large"):
            write(tmp_path / "part", format, RecordLayout(DIM, 3), rows)
    assert write(tmp_path / "part", format, RecordLayout(DIM, 3), rows).stat().st_size == whole


@pytest.mark.parametrize("at", [0, 7, 40, 10**9])
def test_an_interrupt_in_the_midst_of_hdf5_comes_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """At the write number `at` to the file, or while the file is closed."""
    disk_write, disk_truncate, count = writers.Hdf5Disk.write, writers.Hdf5Disk.truncate, 0

    def write_interrupted(self: Any, data: memoryview) -> int:
        nonlocal count
        count += 1
        if count == at + 1:
            signal.raise_signal(signal.SIGINT)
        return disk_write(self, data)

    def truncate_interrupted(self: Any, size: int) -> int:
        if at == 10**9:
            signal.raise_signal(signal.SIGINT)
        return disk_truncate(self, size)

    monkeypatch.setattr(writers.Hdf5Disk, "write", write_interrupted)
    monkeypatch.setattr(writers.Hdf5Disk, "truncate", truncate_interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "a.h5", "hdf5", RecordLayout(DIM, 3), records() * 30)
    with h5py.File(tmp_path / "a.h5") as file:  # closed as a sound file all the same
        for name in set(file) - {"sentence_to_index"}:
            assert np.isfinite(file[name][()]).all()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_format_from_the_suffix() -> None:
    assert format_of(Path("a.H5")) == format_of(Path("b.hdf5")) == "hdf5"
    assert format_of(Path("a.parquet")) == "parquet"
    assert format_of(Path("a.b.npz")) == "npz"
    assert format_of(Path("a.txt"), "npz") == "npz"
    with pytest.raises(ConfigError, match=r"a\.txt: expected .*\.parquet.*format"):
        format_of(Path("a.txt"))
    with pytest.raises(ConfigError, match="format: expected hdf5, parquet, npz, found 'csv'"):
        format_of(Path("a.h5"), "csv")
