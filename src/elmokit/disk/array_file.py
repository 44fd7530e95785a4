"""Arrays in `.npy` files, memory-mapped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from elmokit.errors import FormatError, first_line


def map_array(path: Path, dtype: DTypeLike, n_dims: int, *, mode: Any = "r") -> NDArray[Any]:
    """Memory-map an array; raise a FormatError unless it has this dtype and number of dimensions."""
    try:
        array = np.lib.format.open_memmap(path, mode=mode)
    except Exception as error:  # numpy parses the header as Python source: a damaged one can raise any error
        raise FormatError(f"{path}: expected a .npy file, found it damaged ({first_line(error)})") from None
    if array.ndim != n_dims or array.dtype != dtype:
        raise FormatError(
            f"{path}: expected {n_dims} dimension(s) of {np.dtype(dtype)}, found {array.ndim} of {array.dtype}"
        )
    return array
