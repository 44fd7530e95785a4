"""What a run was like, step by step: JSON lines for programs, TensorBoard for people."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from elmokit.errors import OutputError

FILE = "metrics.jsonl"


class Metrics:
    """Appends to `metrics.jsonl` and, where it is installed, to TensorBoard's files in `tensorboard/`.

    What a run that was killed had written past its last checkpoint is taken back: those steps will come again.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / FILE
        self._board: Any = None
        try:
            _forget_after(self.path, step)
            self._file = self.path.open("a", encoding="utf-8")
        except OSError as error:
            raise _unwritable(self.path, error) from None
        with suppress(ImportError):
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)  # type: ignore[no-untyped-call]

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """One line: {"kind": "step", "step": 10, "loss": ...}."""
        try:
            self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
            self._file.flush()
        except OSError as error:
            raise _unwritable(self.path, error) from None
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)

    def __enter__(self) -> Metrics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a full disk was told of when the line was written
            self._file.close()
        if self._board is not None:
            self._board.close()


def _forget_after(path: Path, step: int) -> None:
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError, KeyError, TypeError):  # the last line may have been cut short
            if json.loads(line)["step"] <= step:
                kept.append(line)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot be written: {error.strerror}; make room, then go on with --resume")
