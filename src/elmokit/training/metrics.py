"""Training metrics: JSON Lines and TensorBoard event files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from elmokit.disk.json_file import parse_json, read_bytes
from elmokit.disk.whole import new_file
from elmokit.errors import FormatError, OutputError, first_line

FILE = "metrics.jsonl"
BOARD = "tensorboard/events.out.tfevents.*"


class MetricsLog:
    """Writer of `metrics.jsonl` and, if TensorBoard is installed, of event files in `tensorboard/`.

    Lines after the last checkpoint of a killed run are removed, because these steps will be repeated.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / FILE
        self._board: Any = None
        try:
            _remove_after(self.path, step)
            self._file = self.path.open("a", encoding="utf-8")
        except OutputError:
            raise
        except (OSError, FormatError) as error:
            raise _unwritable(self.path, error) from None
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)  # type: ignore[no-untyped-call]

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Append one line: {"kind": "step", "step": 10, "loss": ...}."""
        try:
            self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self.path, error) from None
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a full disk was reported when the line was written
            self._file.close()
        if self._board is not None:
            self._board.close()


def _remove_after(path: Path, step: int) -> None:
    if not path.exists():
        return
    kept = [line for line in read_metrics(path) if line["step"] <= step]
    with new_file(path, advice="; make room, then continue with --resume") as fresh:
        fresh.write_text("".join(f"{json.dumps(line)}\n" for line in kept), encoding="utf-8")


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Parsed lines of a metrics file; truncated or damaged lines are skipped."""
    lines: list[dict[str, Any]] = []
    for text in read_bytes(path, 2**40).split(b"\n"):
        with suppress(FormatError):
            line = parse_json(text, str(path), finite=False)  # a perplexity may be infinite
            if isinstance(line, dict) and type(line.get("step")) is int and isinstance(line.get("kind"), str):
                lines.append(line)
    return lines


def is_metrics(path: Path) -> bool:
    """Whether a file has lines of metrics."""
    try:
        return bool(read_metrics(path))
    except FormatError:
        return False


def _unwritable(path: Path, error: Exception) -> OutputError:
    return OutputError(f"{path}: cannot be written: {first_line(error)}; make room, then continue with --resume")
