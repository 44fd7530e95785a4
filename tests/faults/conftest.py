"""Totals of the campaign, printed at its end; and whether the slow version made as many kills as it should."""

from __future__ import annotations

from collections import Counter

import pytest

KILLS = 300  # at least, in the slow version
_SLOW_KILLS = ("test_kills_before_operations", "test_kills_at_random_times")
_COUNTED = ("mutated files", "kills", "full disks")
# Tests record their counts as properties, which reach this process with their reports, from xdist's workers, too
_totals: Counter[str] = Counter()
_seeds: set[str] = set()
_slow_kills: Counter[str] = Counter()  # by the name of the test, with its parameter


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the counts of a test."""
    if report.when != "call":
        return
    values = dict(report.user_properties)
    for name in _COUNTED:
        _totals[name] += int(str(values.get(name, 0)))
    if "seed" in values:
        _seeds.add(str(values["seed"]))
    test = report.nodeid.rpartition("::")[2]
    if test.startswith(_SLOW_KILLS):
        _slow_kills[test] = int(str(values.get("kills", 0)))


def missing_kills(counts: Counter[str]) -> str:
    """Complaint about too few kills; "" if there are enough, or if not all slow tests of kills ran."""
    from commands import NAMES

    if len(counts) < len(NAMES) * len(_SLOW_KILLS) or counts.total() >= KILLS:
        return ""
    return f"expected {KILLS} kills or more, found {counts.total()}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the session for too few kills. Workers of xdist leave that to the process that started them."""
    if not hasattr(session.config, "workerinput") and missing_kills(_slow_kills):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the totals."""
    if any(_totals.values()):
        counts = ", ".join(f"{_totals[name]:,} {name}" for name in _COUNTED if _totals[name])
        terminalreporter.write_line(f"faults: {counts}; seed {', '.join(sorted(_seeds))}")
    if complaint := missing_kills(_slow_kills):
        terminalreporter.write_line(f"faults: {complaint}", red=True)
