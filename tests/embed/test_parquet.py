"""Parquet, read back with pyarrow."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored_records import DIM, TEXTS, records, write

from elmokit.embed import parquet
from elmokit.embed.record import Record, RecordLayout
from elmokit.embed.writers import format_of
from elmokit.errors import MissingExtraError


def test_parquet_rows_of_tokens(tmp_path: Path) -> None:
    rows = records()
    table = pq.read_table(write(tmp_path / "a.parquet", "parquet", RecordLayout(DIM, 3), rows))
    assert table.column_names == ["sentence", "line", "index", "token", "start", "end", "layer_0", "layer_1", "layer_2"]
    assert table.schema.field("layer_0").type == pa.list_(pa.float32(), DIM)
    flat = [(k, place, token) for k, record in enumerate(rows) for place, token in enumerate(record.tokens)]
    assert list(zip(*(table[name].to_pylist() for name in ("sentence", "index", "token")), strict=True)) == flat
    assert table["end"].to_pylist() == [place + 1 for _, place, _ in flat]
    for layer in range(3):
        expected = np.concatenate([record.vectors[layer] for record in rows])
        np.testing.assert_array_equal(np.array(table[f"layer_{layer}"].to_pylist(), np.float32), expected)


def test_parquet_without_offsets_has_nulls(tmp_path: Path) -> None:
    known, unknown = records(None)[0], Record("b c", ["b", "c"], None, np.ones((2, DIM), np.float32))
    table = pq.read_table(write(tmp_path / "a.parquet", "parquet", RecordLayout(DIM, None), [known, unknown]))
    assert table["start"].to_pylist() == [0, 1, 2, None, None]
    assert table.column_names[-1] == "vector"


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_parquet_rows_of_sentences(tmp_path: Path, dtype: str) -> None:
    rows = records(None, dtype)
    layout = RecordLayout(DIM, None, dtype=dtype)  # type: ignore[arg-type]
    table = pq.read_table(write(tmp_path / "a.parquet", "parquet", layout, rows, rows="sentences"))
    assert table["text"].to_pylist() == TEXTS
    assert table["tokens"].to_pylist() == [record.tokens for record in rows]
    for record, vectors in zip(rows, table["vector"].to_pylist(), strict=True):
        np.testing.assert_array_equal(np.array(vectors, dtype).reshape(-1, DIM), record.vectors)


def test_parquet_rows_of_pooled_sentences(tmp_path: Path) -> None:
    rows = records(pooled=True)
    layout = RecordLayout(DIM, None, pooled=True)
    table = pq.read_table(write(tmp_path / "a.parquet", "parquet", layout, rows, rows="sentences"))
    assert table.schema.field("vector").type == pa.list_(pa.float32(), DIM)
    np.testing.assert_array_equal(
        np.array(table["vector"].to_pylist(), np.float32), np.stack([record.vectors for record in rows])
    )


def test_parquet_row_groups_bound_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 300)
    rows = records() * 20
    path = write(tmp_path / "a.parquet", "parquet", RecordLayout(DIM, 3), rows)
    assert pq.ParquetFile(path).num_row_groups > 10
    assert pq.read_table(path)["sentence"].to_pylist() == [k for k, record in enumerate(rows) for _ in record.tokens]


def test_parquet_of_nothing_has_its_schema(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "a.parquet", "parquet", RecordLayout(DIM, 3), []))
    assert len(table) == 0
    assert "layer_2" in table.column_names


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'elmokit\[parquet\]'"):
        format_of(Path("a.parquet"))
