"""Commands that are killed (-9) and run again: nothing differs, and nothing is left.

They are killed before file operations and at random times. The ordinary tests kill a few times; the slow ones before
every operation, or many that are spread over all, and at many times. FAULTS_SEED chooses other operations and times.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from commands import NAMES, Command, listing, make_commands
from killed import count_operations, killed_after, killed_before

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SEED = os.environ.get("FAULTS_SEED", "0")
Record = Callable[[str, object], None]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Command]:
    return make_commands(tmp_path_factory.mktemp("inputs"))


class Campaign:
    """Kills of one command, each from the start, and what the next run makes of it."""

    def __init__(self, command: Command, place: Path) -> None:
        self._command, self._place, self.count = command, place, 0
        whole = place / "whole"
        whole.mkdir(parents=True)
        started = time.monotonic()
        command.complete(whole)
        self.seconds = time.monotonic() - started
        self._expected, self._names = command.content(whole), listing(whole)

    def kill(self, label: str, *kills: Callable[[Callable[[], object]], bool]) -> bool:
        """Kill the command, and its resumption as often as there are more kills, then let it finish.

        Returns whether it was killed at all.
        """
        part = self._place / "part"
        part.mkdir()
        command, was_killed = self._command, False
        for number, kill in enumerate(kills):
            work = command.resume if number else command.complete
            if not kill(lambda work=work: work(part)):  # type: ignore[misc]
                break
            was_killed = True
            self.count += 1
        if was_killed:
            command.resume(part)
        where = f"{command.name}, seed {SEED}, killed {label}"
        assert command.content(part) == self._expected, f"{where}: a difference"
        assert listing(part) == self._names, f"{where}: something is left"
        shutil.rmtree(part)
        return was_killed

    def spread(self, most: int) -> list[int]:
        """Numbers of all operations, or of so many that are spread from the first to the last."""
        place = self._place / "counted"
        place.mkdir()
        n = count_operations(lambda: self._command.complete(place))
        shutil.rmtree(place)
        rng, edges = random.Random(f"{SEED} {self._command.name}"), [n * k // most for k in range(most + 1)]
        return list(range(n)) if n <= most else [rng.randrange(*pair) for pair in itertools.pairwise(edges)]

    def before_operations(self, operations: Iterable[int]) -> None:
        """Kill before these operations, as far as there are so many."""
        for number in operations:
            if not self.kill(f"before operation {number}", lambda work, n=number: killed_before(n, work)):  # type: ignore[misc]
                break
        print(f"{self._command.name}: {self.count} kills before operations, no difference, nothing left", flush=True)

    def at_random_times(self, n: int) -> None:
        """Kill n times or more, sometimes a second time."""
        rng = random.Random(f"{SEED} {self._command.name}")
        before, attempts = self.count, 0
        while self.count < before + n and attempts < 3 * n:
            attempts += 1
            times = [rng.uniform(0, 1.1 * self.seconds) for _ in range(rng.choice((1, 1, 2)))]
            label = "after " + " and ".join(f"{seconds:.3f} s" for seconds in times)
            self.kill(label, *(lambda work, t=seconds: killed_after(t, work) for seconds in times))  # type: ignore[misc]
        print(f"{self._command.name}: {self.count - before} kills at random times, seed {SEED}, no difference, "
              "nothing left", flush=True)  # fmt: skip
        assert self.count > before

    def record(self, record_property: Record) -> None:
        """Put the number of kills on record: conftest.py adds them up, and expects 300 of all slow tests."""
        record_property("kills", self.count)
        record_property("seed", SEED)


@pytest.mark.parametrize("name", ["embed", "convert", "pretrain", "task"])
def test_a_few_kills(commands: dict[str, Command], name: str, tmp_path: Path, record_property: Record) -> None:
    campaign = Campaign(commands[name], tmp_path)
    campaign.before_operations([random.Random(f"{SEED} {name}").randrange(15)])
    assert campaign.count == 1
    if name != "pretrain":
        campaign.at_random_times(1)
    campaign.record(record_property)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_kills_before_operations(
    commands: dict[str, Command], name: str, tmp_path: Path, record_property: Record
) -> None:
    campaign = Campaign(commands[name], tmp_path)
    operations = campaign.spread(25 if name == "ablate" else 45)
    campaign.before_operations(operations)
    campaign.record(record_property)
    assert campaign.count >= len(operations) - 1  # the last few depend on random names and on timing


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_kills_at_random_times(
    commands: dict[str, Command], name: str, tmp_path: Path, record_property: Record
) -> None:
    campaign = Campaign(commands[name], tmp_path)
    campaign.at_random_times(8 if name == "ablate" else 20)
    campaign.record(record_property)
