"""Memory allocator settings for training."""

from __future__ import annotations

import ctypes
import platform

# Constants of <malloc.h>
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 * 1024 * 1024  # maximum that glibc accepts
_KEPT = 2**31 - 1  # bytes: INT_MAX


def keep_freed_memory() -> bool:
    """Make malloc keep freed memory for the next training step. Returns True on success, which requires glibc (Linux).

    By default the C library returns freed memory to the system, which then zeroes the pages again: a few percent of
    the time per step.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and mallopt(_TRIM_THRESHOLD, _KEPT))
