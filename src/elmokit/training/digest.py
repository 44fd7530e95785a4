"""What a file holds, as one number: by it a run knows its data again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from elmokit.errors import InputError


def file_sha256(path: Path) -> str:
    """SHA-256 of a file as it lies on disk."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
