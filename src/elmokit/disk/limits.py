"""Limits on decompression and reading, so that a small file cannot exhaust memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from elmokit.errors import ConfigError, FormatError


@dataclass(frozen=True)
class Limits:
    """Limits of this process; changed by `raise_limits`."""

    line: int = 64 * 2**20  # bytes per line of text
    ratio: int = 200  # decompressed bytes per compressed byte, above `small`
    small: int = 64 * 2**20  # decompressed bytes up to which the ratio is not checked
    text: int = 256 * 2**20  # bytes of a vocabulary, an alphabet, an options file, a database file
    words: int = 20_000_000  # words per vocabulary
    member: int = 8 * 2**30  # bytes per file in an archive; the largest published one has 1.6 GB


_limits = Limits()


def limits() -> Limits:
    """Current limits."""
    return _limits


def raise_limits(factor: float) -> None:
    """Multiply the default limits; 1 restores them."""
    global _limits
    if not 1 <= factor <= 1e6:
        raise ConfigError(f"--limits: expected a factor from 1 to 1000000, found {factor:g}")
    given = Limits()
    _limits = replace(given, **{name: int(value * factor) for name, value in vars(given).items()})


def exceeded(label: str, what: str) -> FormatError:
    """Create the error for an exceeded limit."""
    return FormatError(f"{label}: {what}; if that size is intended, raise the limits: elmo --limits 10 ...")


def check_ratio(label: str, packed: int, unpacked: int) -> None:
    """Raise a FormatError for an implausible compression ratio (decompression bomb)."""
    if unpacked > max(_limits.small, _limits.ratio * packed):
        raise exceeded(
            label, f"refused, as {packed:,} bytes unpack to {unpacked:,} or more, over {_limits.ratio} times as many"
        )
