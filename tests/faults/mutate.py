"""Mutations of files: of their bytes, of the values in JSON, and of what a container holds.

A change inside a compressed file, a zip or a safetensors header would mostly be caught by the container's own checks;
so the content is changed, and the container is made again around it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import zipfile
import zlib
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 1.5, -0.0, "", "x", "\ud800", "x" * 70_000, [], {}, [1], {"a": 1},
    float("nan"), float("inf"), -float("inf"), [[]], [None], ["x"],
)  # fmt: skip
ODD_TEXTS = (
    "1" * 5000, "1e999", "-1e999", "NaN", "Infinity", "[" * 100_000, '{"a":' * 2000, '"\\ud800"', "\x00", "nul",
    "\u2028", "\ufeff", "\u202e", "((((", "%s%n", "../../x", "1e-400", "-", "\r", "\t\t\t",
)  # fmt: skip


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A changed file; half of the time as what it is, if that is known."""
    if rng.random() < 0.5:
        try:
            inside = _mutated_inside(content, rng)
        except (ValueError, EOFError, OSError, RuntimeError, zlib.error, lzma.LZMAError, tarfile.TarError):
            inside = None
        if inside is not None:
            return inside
    return _mutated_bytes(content, rng)


def _mutated_inside(content: bytes, rng: random.Random) -> bytes | None:
    if content[:1] in (b"{", b"["):
        return _mutated_json_lines(content, rng)
    if content[:2] == b"\x1f\x8b":
        return gzip.compress(mutated(gzip.decompress(content), rng), 1)
    if content[:6] == b"\xfd7zXZ\x00":
        return lzma.compress(mutated(lzma.decompress(content), rng), preset=0)
    if content[:3] == b"BZh":
        return bz2.compress(mutated(bz2.decompress(content), rng), 1)
    if content[:4] == b"PK\3\4":
        return _mutated_zip(content, rng)
    if content[257:262] == b"ustar":
        return _mutated_tar(content, rng)
    if content[:6] == b"\x93NUMPY":
        size = int.from_bytes(content[8:10], "little")
        header = _mutated_bytes(content[10 : 10 + size], rng)[:65_535]
        return content[:8] + len(header).to_bytes(2, "little") + header + content[10 + size :]
    size = int.from_bytes(content[:8], "little")
    if content[8:9] == b"{" and size < len(content):  # safetensors
        header = _mutated_json_lines(content[8 : 8 + size], rng)
        return len(header).to_bytes(8, "little") + header + content[8 + size :]
    return None


def _mutated_zip(content: bytes, rng: random.Random) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    chosen = rng.choice(sorted(members))
    if any(name.endswith("data.pkl") for name in members) and rng.random() < 0.6:  # the program of a pickle
        chosen = next(name for name in members if name.endswith("data.pkl"))
    members[chosen] = mutated(members[chosen], rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def _mutated_tar(content: bytes, rng: random.Random) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as source, tarfile.open(fileobj=file, mode="w") as target:
        members = [(info, source.extractfile(info)) for info in source]
        chosen = rng.randrange(len(members))
        for number, (info, member) in enumerate(members):
            data = b"" if member is None else member.read()
            if number == chosen:
                data = mutated(data, rng)
                info.size = len(data)
            target.addfile(info, io.BytesIO(data))
    return file.getvalue()


def _mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        # headers are where most of the meaning is
        at = rng.randrange(min(len(data), rng.choice((16, 256, 4096, 2**30))) or 1) if data else 0
        kind = rng.randrange(9)
        if kind == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and data:
            data[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, 10, 32, rng.randrange(256)))
        elif kind == 2:
            del data[at : at + rng.choice((1, 2, 8, 100))]
        elif kind == 3:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 4, 50))))
        elif kind == 4:
            del data[at:]  # cut off
        elif kind == 5:
            data[at:at] = data[at : at + rng.choice((4, 64, 1000))]
        elif kind == 6:
            data[at : at + 8] = rng.choice((2**63 - 1, 2**64 - 1, 2**32, 0)).to_bytes(8, "little")
        elif kind == 7 and data:  # one piece in the place of another
            other = rng.randrange(len(data))
            size = rng.choice((1, 8, 40))
            data[at : at + size] = data[other : other + size]
        else:
            data[at:at] = rng.choice(ODD_TEXTS)[: rng.choice((10, 10_000, 10**6))].encode("utf-8", "surrogatepass")
    return bytes(data)


def _mutated_json_lines(content: bytes, rng: random.Random) -> bytes:
    try:
        return _mutated_json(json.loads(content), rng)
    except ValueError:
        lines = content.splitlines()  # one value per line
        chosen = rng.randrange(len(lines))
        lines[chosen] = _mutated_json(json.loads(lines[chosen]), rng)
        return b"\n".join(lines) + b"\n"


def _mutated_json(value: Any, rng: random.Random) -> bytes:
    places = list(_places(value))
    text = None
    for _ in range(rng.choice((1, 1, 2))):
        if not places:
            return json.dumps(rng.choice(ODD_VALUES)).encode()
        parent, key = rng.choice(places)
        kind = rng.randrange(5)
        try:
            if kind == 0:
                del parent[key]
            elif kind == 1 and isinstance(parent, dict):
                parent[rng.choice(("other", "", "x" * 1000))] = parent[key]
            elif kind == 2:
                parent[key], text = "@ODD@", rng.choice(ODD_TEXTS)
            elif kind == 3:
                other, name = rng.choice(places)
                parent[key] = json.loads(json.dumps(other[name]))  # one value in the place of another
            else:
                parent[key] = rng.choice(ODD_VALUES)
        except (KeyError, IndexError):
            continue
    found = json.dumps(value)
    return (found if text is None else found.replace('"@ODD@"', text)).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Any:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])
