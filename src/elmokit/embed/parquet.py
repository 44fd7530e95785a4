"""Vectors as a Parquet file, a row for each token or for each sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmokit.embed.record import Record, RecordLayout
from elmokit.errors import MissingExtraError

Rows = Literal["tokens", "sentences"]

ROW_GROUP_BYTES = 32 * 2**20  # of vectors and tokens that are gathered before they are written
_TOKEN_BYTES = 256  # of a token and its offsets, as Python objects


class ParquetWriter:
    """One row per token: sentence, line, index, token, start, end; or per sentence: sentence, line, text, tokens.

    Then the vectors: a column `vector`, or `layer_0`, `layer_1`, ... when all layers are kept. With one row per
    sentence it is a list of the tokens' vectors, or the pooled vector itself. `line` is the number of the line where
    lines were cut into sentences, else null; `start` and `end` are null where unknown. `first` is the number of the
    first sentence.
    """

    def __init__(self, path: Path, layout: RecordLayout, *, rows: Rows = "tokens", first: int = 0) -> None:
        pa, pq = load_pyarrow()
        self._pa, self._layout, self._rows = pa, layout, rows
        vector = pa.list_(pa.from_numpy_dtype(layout.dtype), layout.dim)
        if rows == "tokens":
            columns = {"sentence": pa.int64(), "line": pa.int64(), "index": pa.int32(), "token": pa.string()}
            columns |= {"start": pa.int64(), "end": pa.int64()}
        else:
            columns = {"sentence": pa.int64(), "line": pa.int64(), "text": pa.string()}
            columns |= {"tokens": pa.list_(pa.string())}
            vector = vector if layout.pooled else pa.list_(vector)
        names = ["vector"] if layout.n_layers is None else [f"layer_{k}" for k in range(layout.n_layers)]
        self._schema = pa.schema({**columns, **dict.fromkeys(names, vector)})
        # vectors hardly repeat: dictionary encoding would only cost time
        self._file = pq.ParquetWriter(path, self._schema, use_dictionary=["token", "tokens.list.element"])
        self._count = first  # number of the next sentence
        self._bytes = 0
        self._waiting: list[tuple[int, Record]] = []

    def write(self, record: Record) -> None:
        """Add the rows of a sentence; every ROW_GROUP_BYTES a row group is written."""
        self._waiting.append((self._count, record))
        self._count += 1
        self._bytes += record.vectors.nbytes + 8 * len(record.text) + _TOKEN_BYTES * len(record.tokens) + 64
        if self._bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the last row group and the schema."""
        try:
            self._flush()
        finally:
            self._file.close()

    def _flush(self) -> None:
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        records = [record for _, record in waiting]
        arrays = self._token_columns(waiting) if self._rows == "tokens" else self._sentence_columns(waiting)
        if self._layout.n_layers is None:
            arrays.append(self._vectors([record.vectors for record in records]))
        else:
            arrays += [self._vectors([record.vectors[k] for record in records]) for k in range(self._layout.n_layers)]
        table = self._pa.Table.from_arrays([self._as(k, array) for k, array in enumerate(arrays)], schema=self._schema)
        self._file.write_table(table, row_group_size=len(table) or None)
        del table, arrays, records, waiting
        self._pa.default_memory_pool().release_unused()  # Arrow would keep it, and ask for more

    def _token_columns(self, waiting: list[tuple[int, Record]]) -> list[Any]:
        unknown = (None, None)
        spans: list[tuple[int | None, int | None]] = []
        for _, record in waiting:
            spans += [unknown] * len(record.tokens) if record.offsets is None else record.offsets
        return [
            [number for number, record in waiting for _ in record.tokens],
            [record.line for _, record in waiting for _ in record.tokens],
            [place for _, record in waiting for place in range(len(record.tokens))],
            [token for _, record in waiting for token in record.tokens],
            [start for start, _ in spans],
            [end for _, end in spans],
        ]

    def _sentence_columns(self, waiting: list[tuple[int, Record]]) -> list[Any]:
        return [
            [number for number, _ in waiting],
            [record.line for _, record in waiting],
            [record.text for _, record in waiting],
            [record.tokens for _, record in waiting],
        ]

    def _vectors(self, arrays: list[NDArray[np.floating]]) -> Any:
        """Arrays (n, 2D), concatenated, or (2D,), one row each, as an Arrow column, without Python numbers."""
        flat = np.concatenate([array.reshape(-1) for array in arrays])
        vectors = self._pa.FixedSizeListArray.from_arrays(self._pa.array(flat), self._layout.dim)
        if self._rows == "tokens" or self._layout.pooled:
            return vectors
        ends = np.cumsum([0, *(len(array) for array in arrays)], dtype=np.int32)
        return self._pa.ListArray.from_arrays(self._pa.array(ends), vectors)

    def _as(self, column: int, values: Any) -> Any:
        kind = self._schema.field(column).type
        return values.cast(kind) if isinstance(values, self._pa.Array) else self._pa.array(values, kind)


def load_pyarrow() -> tuple[Any, Any]:
    """The modules `pyarrow` and `pyarrow.parquet`, or the error that says how to install them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("writing Parquet", "parquet") from None
    return pyarrow, pyarrow.parquet
