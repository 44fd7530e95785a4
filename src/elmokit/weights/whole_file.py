"""Files that are there in full or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from elmokit.errors import OutputError
from elmokit.weights.model import first_line


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; what was written takes its place at the end, unless something went wrong."""
    fresh = path.with_name(f".{path.stem}.new-{secrets.token_hex(4)}{path.suffix}")
    try:
        yield fresh
        fresh.replace(path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise OutputError(f"{path}: cannot be written: {reason}") from None
    finally:
        fresh.unlink(missing_ok=True)
