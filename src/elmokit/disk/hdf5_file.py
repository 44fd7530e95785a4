"""HDF5 output whose write errors are reported as ordinary exceptions."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Hdf5Disk:
    """File object for h5py that hides write errors from the HDF5 library, which loses data or crashes when one occurs.

    The first error is recorded for `check`; data that cannot be written stay in memory until the file is closed.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115
        self._fault: OSError | None = None
        self._aside: list[tuple[int, bytes]] = []  # offset and bytes of failed writes

    def check(self) -> None:
        """Raise the first write error, if any."""
        if self._fault is not None:
            raise self._fault

    def write(self, data: memoryview) -> int:
        """Write all bytes, or record the error."""
        at, done = self._file.tell(), 0
        try:
            while self._fault is None and done < len(data):
                done += self._file.write(data[done:])
        except OSError as error:
            self._fault = error
        if done < len(data):
            self._aside.append((at + done, bytes(data[done:])))
            self._file.seek(at + len(data))
        return len(data)

    def readinto(self, buffer: memoryview) -> int:
        """Fill the buffer from the file and from failed writes, with zeros beyond the end."""
        at = self._file.tell()
        got = self._file.readinto(buffer) or 0
        buffer[got:] = bytes(len(buffer) - got)
        for place, data in self._aside:
            first, last = max(at, place), min(at + len(buffer), place + len(data))
            if first < last:
                buffer[first - at : last - at] = data[first - place : last - place]
        return len(buffer)

    def read(self, size: int) -> bytes:
        """As `readinto`; h5py requires both."""
        buffer = bytearray(size)
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def seek(self, place: int, whence: int = 0) -> int:
        """As `io.RawIOBase`."""
        return self._file.seek(place, whence)

    def tell(self) -> int:
        """As `io.RawIOBase`."""
        return self._file.tell()

    def truncate(self, size: int) -> int:
        """Set the length of the file, or record the error."""
        try:
            return self._file.truncate(size)
        except OSError as error:
            self._fault = self._fault or error
            return size

    def flush(self) -> None:
        """Do nothing: writes are unbuffered."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer signals: an exception during an HDF5 call would look like a failed write to the library."""
    waiting: list[int] = []
    handlers: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # signal handlers run in the main thread only
            for number in (signal.SIGINT, signal.SIGTERM):
                handlers[number] = signal.signal(number, lambda number, _: waiting.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for late in waiting:
            signal.raise_signal(late)


@contextmanager
def new_hdf5(path: Path) -> Iterator[Callable[[str, NDArray[np.floating]], None]]:
    """Create a file; yields a function that adds a dataset. A full disk raises an OSError, at the latest on closing."""
    import h5py

    disk = Hdf5Disk(path)
    file = h5py.File(disk, "w")

    def add(name: str, array: NDArray[np.floating]) -> None:
        with uninterrupted():
            file.create_dataset(name, data=array)
        disk.check()

    try:
        yield add
    finally:
        with uninterrupted():
            file.close()
            disk.close()
    disk.check()
