"""The command from its first instant: signals while it starts, limits, outputs that are devices, messages."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elmokit.disk.limits import limits, raise_limits
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.text.lines import read_lines


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("seconds", [0.3, 0.8])
def test_signals_while_it_starts(number: int, code: int, seconds: float, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c\n" * 20_000)
    command = [sys.executable, "-m", "elmokit", "embed", "text.txt", "-o", "out.npz"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    process.send_signal(number)
    _, shown = process.communicate(timeout=120)
    if process.returncode < 0 or "site.py" in shown or "<frozen" in shown:
        pytest.skip("Python itself had not started yet")
    assert process.returncode == code and "Traceback" not in shown and len(shown.strip().splitlines()) == 1


def test_a_device_as_an_output_is_refused_at_once() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "elmokit", "polysemy", "-o", "/dev/full"], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 2 and "found a device, pipe or socket" in result.stderr


def test_a_line_without_end_is_refused_and_the_limit_can_be_raised(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "bomb.txt.gz", "wb", compresslevel=1) as file:
        for _ in range(70):
            file.write(b"x" * 2**20)
    with pytest.raises(
        InputError, match=r"line 1 is longer than 67,108,864 bytes.*raise_limits\(10\)|refused, as .* unpack"
    ):
        list(read_lines(tmp_path / "bomb.txt.gz"))
    try:
        raise_limits(10)
        assert [len(line) for line in read_lines(tmp_path / "bomb.txt.gz")] == [70 * 2**20]
    finally:
        raise_limits(1)
    assert limits().line == 64 * 2**20
    with pytest.raises(ConfigError, match="limits: expected"):
        raise_limits(float("nan"))


def test_messages_are_one_line_and_quote_little() -> None:
    message = str(ConfigError(f"--layers: expected all, found {'x' * 100_000!r};\nuse one of\x00 them"))
    assert len(message) < 200 and "\n" not in message and "\x00" not in message
    assert message.startswith("layers: expected all, found 'xxx") and message.endswith("use one of  them")
    message = str(FormatError(f"{'y' * 100_000}: expected a model, found {'z' * 250} there"))  # a path is not quoted
    assert len(message) < 400 and message.endswith(f"{'z' * 250} there")
