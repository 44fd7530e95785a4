"""Answers as JSON, npz, msgpack or Arrow, as the `Accept` header asks."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import msgpack
import numpy as np
import orjson
from numpy.typing import NDArray
from starlette.responses import Response

from elmokit.serve.api_errors import ApiError

JSON, NPZ, MSGPACK, ARROW = (
    "application/json",
    "application/x-npz",
    "application/msgpack",
    "application/vnd.apache.arrow.stream",
)
_KNOWN = {
    JSON: JSON, "application/*": JSON, "*/*": JSON, NPZ: NPZ, MSGPACK: MSGPACK, "application/x-msgpack": MSGPACK,
    "application/vnd.msgpack": MSGPACK, ARROW: ARROW,
}  # fmt: skip

_NO_ARROW = "Accept: Arrow output needs pyarrow on the server: pip install 'elmokit[serve]'"

Encoding = Literal["float", "base64"]
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class TokenVectors:
    """Tokens of some sentences with their vectors."""

    tokens: list[list[str]]  # whole sentences
    offsets: list[list[tuple[int, int]] | None]
    chosen: list[list[int]]  # tokens that have vectors, of each sentence
    vectors: Floats  # (layers, all chosen tokens, D)


def chosen_format(accept: str | None) -> str:
    """Preferred media type of an Accept header; JSON without a preference; 406 if none is supported."""
    wanted: list[tuple[float, str]] = []
    for item in (accept or "*/*").split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        with suppress(ValueError):  # the q value is not a number
            quality = float(next((part[2:] for part in parameters if part.startswith("q=")), "1"))
            wanted.append((quality, kind))
    for quality, kind in sorted(wanted, key=lambda one: -one[0]):  # of equal ones the first
        if kind in _KNOWN and quality > 0:
            return _KNOWN[kind]
    raise ApiError(406, "Validation", f"Accept: expected one of {', '.join((JSON, NPZ, MSGPACK, ARROW))}")


def json_response(content: Any) -> Response:
    """Any content, numpy arrays included; numbers are the shortest decimals that are read back as the same float32."""
    return Response(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY), media_type=JSON)


def base64_floats(array: Floats) -> str:
    """Little-endian float32 as base64."""
    return base64.b64encode(_little(array).tobytes()).decode("ascii")


def sentence_vectors(vectors: Floats, media_type: str, encoding: Encoding) -> Response:
    """(n, D): a list of vectors; `vectors` of an npz; rows of a column `vector`."""
    if media_type == NPZ:
        return _npz(vectors=_little(vectors))
    if media_type == MSGPACK:
        return _msgpack({"shape": list(vectors.shape), "vectors": _little(vectors).tobytes()})
    if media_type == ARROW:
        return _arrow({"vector": _fixed_lists(vectors)})
    if encoding == "base64":
        return json_response([base64_floats(vector) for vector in vectors])
    return json_response(np.ascontiguousarray(vectors))


def token_vectors(found: TokenVectors, media_type: str, encoding: Encoding) -> Response:
    """One object per sentence; in npz and Arrow, the chosen tokens of all sentences one after the other."""
    if media_type == NPZ:
        return _npz(
            vectors=_little(found.vectors),
            lengths=np.array([len(chosen) for chosen in found.chosen], dtype="<i8"),
            tokens=np.frombuffer(orjson.dumps(found.tokens), dtype=np.uint8),  # JSON: numpy would pad all words
        )
    if media_type == ARROW:
        return _arrow(_token_columns(found), {"layers": str(len(found.vectors))})
    sentences, first = [], 0
    for tokens, offsets, chosen in zip(found.tokens, found.offsets, found.chosen, strict=True):
        part = np.ascontiguousarray(found.vectors[:, first : first + len(chosen)])
        first += len(chosen)
        vectors: Any = part
        if media_type == MSGPACK:
            vectors = _little(part).tobytes()
        elif encoding == "base64":
            vectors = base64_floats(part)
        sentences.append({"tokens": tokens, "offsets": offsets, "shape": part.shape, "vectors": vectors})
    return _msgpack(sentences) if media_type == MSGPACK else json_response(sentences)


def _token_columns(found: TokenVectors) -> dict[str, Any]:
    """A row per chosen token: its sentence, its place, its text, its offsets, and its layers end to end."""
    rows = [(s, t) for s, chosen in enumerate(found.chosen) for t in chosen]
    offsets = [known[t] if (known := found.offsets[s]) is not None else (None, None) for s, t in rows]
    return {
        "sentence": np.array([s for s, _ in rows], dtype=np.int32),
        "position": np.array([t for _, t in rows], dtype=np.int32),
        "token": [found.tokens[s][t] for s, t in rows],
        "start": [start for start, _ in offsets],
        "end": [end for _, end in offsets],
        "vectors": _fixed_lists(found.vectors.transpose(1, 0, 2).reshape(len(rows), -1)),
    }


def _little(array: Floats) -> NDArray[np.float32]:
    return np.ascontiguousarray(array, dtype="<f4")


def _npz(**arrays: NDArray[Any]) -> Response:
    file = io.BytesIO()
    np.savez(file, **arrays)  # type: ignore[arg-type]
    return Response(file.getvalue(), media_type=NPZ)


def _msgpack(content: Any) -> Response:
    return Response(msgpack.packb(content), media_type=MSGPACK)


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ApiError(406, "Validation", _NO_ARROW) from None
    return pyarrow


def _fixed_lists(vectors: Floats) -> Any:
    pa = _pyarrow()
    return pa.FixedSizeListArray.from_arrays(pa.array(_little(vectors).ravel()), vectors.shape[1])


def _arrow(columns: dict[str, Any], metadata: dict[str, str] | None = None) -> Response:
    pa = _pyarrow()
    int32 = {"start": pa.int32(), "end": pa.int32()}
    arrays: Sequence[Any] = [
        column if isinstance(column, pa.Array) else pa.array(column, type=int32.get(name))
        for name, column in columns.items()
    ]
    table = pa.Table.from_arrays(list(arrays), names=list(columns)).replace_schema_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)
