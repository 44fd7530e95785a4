"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from elmokit.errors import InputError


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
