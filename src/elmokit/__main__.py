"""The command `elmo`, and `python -m elmokit`: signals are taken care of before anything heavy is imported."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line. Exit code 130: interrupted; 143: terminated; both with one line and no traceback."""
    try:
        from elmokit.errors import Terminated

        def terminate(number: int, frame: FrameType | None) -> None:
            raise Terminated

        signal.signal(signal.SIGTERM, terminate)
        from elmokit.cli import run

        run()
    except KeyboardInterrupt as stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one changes nothing any more
        sys.stderr.write(f"elmo: {stop}\n" if str(stop) else "elmo: interrupted\n")
        sys.exit(130 if type(stop) is KeyboardInterrupt else 143)  # else Terminated, which may not be imported yet


if __name__ == "__main__":
    main()
