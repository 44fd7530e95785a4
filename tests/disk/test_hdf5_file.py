"""HDF5 output: a write that fails is an ordinary error, and signals wait until the library has returned."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
from full_disk import file_size_limit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmokit.disk.hdf5_file import Hdf5Disk, new_hdf5, uninterrupted


def test_datasets_are_written(tmp_path: Path) -> None:
    with new_hdf5(tmp_path / "x.h5") as add:
        add("a/b", np.arange(3.0))
        add("c", np.ones((2, 2), np.float32))
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["a/b"][:].tolist() == [0, 1, 2] and file["c"].dtype == np.float32


@pytest.mark.parametrize("limit", [100, 3000, 50_000])
def test_a_full_disk_is_an_os_error(limit: int, tmp_path: Path) -> None:
    with file_size_limit(limit), pytest.raises(OSError, match="File too large"), new_hdf5(tmp_path / "x.h5") as add:
        for number in range(20):
            add(str(number), np.ones(1000))


OPERATION = st.tuples(st.sampled_from(["write", "read"]), st.integers(0, 60), st.binary(min_size=1, max_size=30))


@given(operations=st.lists(OPERATION, max_size=15), room=st.integers(0, 80))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_reads_see_all_writes_even_those_that_failed(
    tmp_path: Path, operations: list[tuple[str, int, bytes]], room: int
) -> None:
    """Beside a plain bytearray, on a disk with little room."""
    disk, twin, failed = Hdf5Disk(tmp_path / "x"), bytearray(200), False
    with file_size_limit(room):
        for kind, place, data in operations:
            disk.seek(place)
            if kind == "write":
                assert disk.write(memoryview(data)) == len(data) and disk.tell() == place + len(data)
                twin[place : place + len(data)] = data
                failed |= place + len(data) > room
            else:
                assert disk.read(len(data)) == bytes(twin[place : place + len(data)])
        disk.flush()
        if failed:
            with pytest.raises(OSError, match="File too large"):
                disk.check()
        else:
            disk.check()
    disk.close()


def test_a_failed_truncation_is_recorded(tmp_path: Path) -> None:
    disk = Hdf5Disk(tmp_path / "x")
    with file_size_limit(10):
        assert disk.truncate(5) == 5
        disk.check()
        assert disk.truncate(100) == 100
    with pytest.raises(OSError, match="File too large"):
        disk.check()
    disk.close()
    assert os.path.getsize(tmp_path / "x") == 5


def test_signals_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        reached.append("the end of the block")
    assert reached == ["the end of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_no_signals_to_wait_for() -> None:
    faults: list[BaseException] = []

    def work() -> None:
        try:
            with uninterrupted():
                pass
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not faults
