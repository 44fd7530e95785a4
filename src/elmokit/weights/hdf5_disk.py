"""HDF5 files that are written whole, or whose writing fails with an ordinary error."""

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
    """The file under an HDF5 file. The HDF5 library loses data without a word, or crashes, when a write fails.

    So it never learns of it: the fault is remembered, and what cannot be written is kept aside until the file is shut.
    """

    def __init__(self, path: Path) -> None:
        self._file = open(path, "w+b", buffering=0)  # noqa: SIM115
        self._fault: OSError | None = None
        self._aside: list[tuple[int, bytes]] = []  # place and bytes of what could not be written

    def check(self) -> None:
        """Raise the fault, if there was one."""
        if self._fault is not None:
            raise self._fault

    def write(self, data: memoryview) -> int:
        """Write all of it, or remember why not."""
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
        """Fill the buffer from the file, and from what was kept aside; beyond the end there are zeros."""
        at = self._file.tell()
        got = self._file.readinto(buffer) or 0
        buffer[got:] = bytes(len(buffer) - got)
        for place, data in self._aside:
            first, last = max(at, place), min(at + len(buffer), place + len(data))
            if first < last:
                buffer[first - at : last - at] = data[first - place : last - place]
        return len(buffer)

    def read(self, size: int) -> bytes:
        """As `readinto`; h5py wants to see both."""
        buffer = bytearray(size)
        self.readinto(memoryview(buffer))
        return bytes(buffer)

    def seek(self, place: int, whence: int = 0) -> int:
        """As a file."""
        return self._file.seek(place, whence)

    def tell(self) -> int:
        """As a file."""
        return self._file.tell()

    def truncate(self, size: int) -> int:
        """Set the length of the file, or remember why not."""
        try:
            return self._file.truncate(size)
        except OSError as error:
            self._fault = self._fault or error
            return size

    def flush(self) -> None:
        """Nothing waits: every write goes to the system at once."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals wait till the end: an exception in the midst of an HDF5 call would be a failed write to the library."""
    waiting: list[int] = []
    handlers: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # no other thread is ever interrupted
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
    """A function that adds a dataset to a new file. A full disk is an OSError, at the latest when it is closed."""
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
