"""The command `elmo`, and `python -m elmokit`: signals are taken care of before anything heavy is imported."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from elmokit.errors import Terminated


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def main() -> None:
    """Run the command line. Exit code 130: interrupted; 143: terminated; both with one line and no traceback."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        from elmokit.cli import run

        run()
    except KeyboardInterrupt as stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one changes nothing any more
        sys.stderr.write(f"elmo: {stop}\n" if str(stop) else "elmo: interrupted\n")
        sys.exit(143 if isinstance(stop, Terminated) else 130)


if __name__ == "__main__":
    main()
