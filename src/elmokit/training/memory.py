"""The memory that every step of training takes and gives back."""

from __future__ import annotations

import ctypes
import platform

# Of <malloc.h>
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 * 1024 * 1024  # glibc takes no larger one
_KEPT = 2**31 - 1  # bytes: an int's largest


def keep_freed_memory() -> bool:
    """Have this process keep what a step frees for the next one. True where that could be asked for: on Linux.

    The C library gives freed memory back to the system, which clears it and hands it out again page by page: of a
    step's time that can be some hundredths.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD) and mallopt(_TRIM_THRESHOLD, _KEPT))
