"""Commands on a disk that is too small: one line and exit code 2, nothing lost; with more room they finish.

A real disk of some kilobytes where the system allows mounting one, and file operations that fail for want of room.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import NAMES, Command, listing, make_commands
from full_disk import mount_small_disk, resize_small_disk
from killed import fails_without_room
from limits import Outcome, limited
from typer.testing import Result

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")

SEED = os.environ.get("FAULTS_SEED", "0")
Record = Callable[[str, object], None]
ENOUGH = 2**30


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Command]:
    return make_commands(tmp_path_factory.mktemp("inputs"))


def check_message(command: Command, result: Result) -> None:
    """One line that says what could not be written, and exit code 2."""
    assert result.exit_code == 2, f"{command.name}: {result.exit_code} {result.output} {result.exception!r}"
    [line] = [line for line in result.stderr.splitlines() if "warning" not in line]
    assert line.startswith("elmo: ") and ("No space left" in line or "cannot be written" in line), line


def on_small_disk(command: Command, place: Path, size: int) -> tuple[bool, dict[str, bytes], list[str]] | None:
    """Run a command on a disk of some size, then with more room; returns whether it was too small, and the output."""
    if not mount_small_disk(place, size):
        return None
    result = command.run(place)
    was_full = result.exit_code != 0
    if was_full:
        check_message(command, result)
        resize_small_disk(place, ENOUGH)
        command.resume(place)
    return was_full, command.content(place), listing(place)


def without_room(command: Command, place: Path, operation: int) -> bool:
    """Run a command whose n-th operation that needs room fails; returns whether one did."""
    has_failed = fails_without_room(operation)
    result = command.run(place)
    if has_failed() and result.exit_code != 0:
        check_message(command, result)
    assert has_failed() or result.exit_code == 0, result.output
    return has_failed()


class Campaign:
    """Full disks for one command."""

    def __init__(self, command: Command, place: Path) -> None:
        self._command, self._place, self.count = command, place, 0
        whole = place / "whole"
        whole.mkdir()
        command.complete(whole)
        self._expected, self._names = command.content(whole), listing(whole)
        self._size = sum(path.stat().st_size + 4096 for path in whole.rglob("*"))

    def small_disks(self, n: int) -> None:
        """Disks of n random sizes."""
        rng, before = random.Random(f"{SEED} {self._command.name}"), self.count
        for _ in range(n):
            size = rng.randrange(8192, self._size)
            found = self._limited(lambda place, size=size: on_small_disk(self._command, place, size))  # type: ignore[misc]
            if found is None:
                pytest.skip("this system does not let us mount a disk")
            was_full, content, names = found
            self.count += was_full
            assert content == self._expected, f"{self._command.name} on a disk of {size} bytes: a difference"
            assert names == self._names, f"{self._command.name} on a disk of {size} bytes: something is left"
        shown = f"{self.count - before} of {n} disks were full, seed {SEED}, no difference, nothing left"
        print(f"{self._command.name}: {shown}", flush=True)

    def operations(self, numbers: range | list[int]) -> None:
        """No room for the n-th operation and all after it, and then a run with room."""
        before = self.count
        for number in numbers:

            def work(place: Path, number: int = number) -> bool:
                return without_room(self._command, place, number)

            if not self._limited(work, then=self._command.resume):
                break
            self.count += 1
        print(f"{self._command.name}: {self.count - before} operations without room, no difference", flush=True)

    def _limited(self, work: Callable[[Path], Any], then: Callable[[Path], None] | None = None) -> Any:
        part = self._place / "part"
        part.mkdir()
        outcome: Outcome = limited(lambda: pickle.dumps(work(part)))
        assert outcome.kind == "result", f"{self._command.name}, seed {SEED}: {outcome.value}"
        if then is not None:
            then(part)
            assert self._command.content(part) == self._expected
            assert listing(part) == self._names
        shutil.rmtree(part)
        return pickle.loads(outcome.value)


@pytest.mark.parametrize("name", ["embed", "index"])
def test_a_full_disk(commands: dict[str, Command], name: str, tmp_path: Path, record_property: Record) -> None:
    campaign = Campaign(commands[name], tmp_path)
    campaign.operations([random.Random(f"{SEED} {name}").randrange(8)])
    campaign.small_disks(1)
    record_property("full disks", campaign.count)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_small_disks(commands: dict[str, Command], name: str, tmp_path: Path, record_property: Record) -> None:
    campaign = Campaign(commands[name], tmp_path)
    campaign.small_disks(4 if name == "ablate" else 10)
    record_property("full disks", campaign.count)
    assert campaign.count


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_operations_without_room(
    commands: dict[str, Command], name: str, tmp_path: Path, record_property: Record
) -> None:
    campaign = Campaign(commands[name], tmp_path)
    campaign.operations(range(0, 150, 15) if name == "ablate" else range(20))
    record_property("full disks", campaign.count)
    assert campaign.count
