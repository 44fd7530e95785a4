"""Exceptions of elmokit. Messages are one line: what was expected, what was found, what to do.

Code writes an option as its flag, `--batch-tokens`. Python users read the argument, `batch_tokens`; the command line,
which runs inside `naming_flags`, keeps the flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

QUOTED = 60  # characters of a bad value that a message shows
_MESSAGE = 700  # maximum length of a message: the start names the place, the end the fix
_LONG_QUOTE = re.compile(rf"(?<!\w)('[^']{{{QUOTED + 1},}}'|\"[^\"]{{{QUOTED + 1},}}\")")
_LONG_WORD = re.compile(r"\S{300,}")  # no name of a file is as long
_LONG_LIST = re.compile(rf"\[[^\[\]]{{{4 * QUOTED},}}\]")


def one_line(message: str) -> str:
    """Message without line breaks and control characters, with quoted values truncated to QUOTED characters."""
    message = "".join(c if c.isprintable() or "\ud800" <= c <= "\udfff" else " " for c in message[: 2**20])
    message = _LONG_QUOTE.sub(lambda match: f"{match[0][: QUOTED - 1]}...{match[0][-1]}", message)
    message = _LONG_LIST.sub(lambda match: f"{match[0][:QUOTED]}...]", message)
    message = _LONG_WORD.sub(lambda match: f"{match[0][:QUOTED]}...", message)
    if len(message) > _MESSAGE:
        message = f"{message[: _MESSAGE // 2]}...{message[-_MESSAGE // 2 :]}"
    return message.strip()


def first_line(error: BaseException) -> str:
    """Message of an exception of a library, truncated to one short line."""
    text = str(getattr(error, "strerror", None) or error).strip()
    return one_line(text.splitlines()[0])[:200] if text else type(error).__name__


_FLAG = re.compile(r"(?<![\w'\"/.-])(?:--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)|-o)(?![\w-])(:?)")
_COMMAND = re.compile(r"(`[^`]*`)")  # a command in backquotes is shown as it is typed
_IRREGULAR = {  # flags whose argument has another name, and switches
    "forget-sentences": "keep_sentences=False",
    "mixed": "mixed=True",
    "no-elmo": "elmo=False",
    "no-punctuation": "punctuation=False",
    "overwrite": "overwrite=True",
    "resume": "resume=True",
    "split-sentences": "split",
    "substring": "substring=True",
    "use-sentence-keys": "sentence_keys=True",
}
_RAISE_LIMITS = ("elmo --limits 10 ...", "elmokit.disk.limits.raise_limits(10)")
_flags_named = False  # whether messages are for the command line


@contextmanager
def naming_flags() -> Iterator[None]:
    """Context in which messages of new errors name flags, `--batch-tokens`, instead of arguments, `batch_tokens`."""
    global _flags_named
    before, _flags_named = _flags_named, True
    try:
        yield
    finally:
        _flags_named = before


def name_arguments(message: str) -> str:
    """Message with arguments in the place of flags: "--seed: expected ..." becomes "seed: expected ..."."""
    parts = _COMMAND.split(message.replace(*_RAISE_LIMITS))
    return "".join(part if part.startswith("`") else _FLAG.sub(_argument, part) for part in parts)


def _argument(found: re.Match[str]) -> str:
    flag, colon = found[1] or "output", found[2]
    name = _IRREGULAR.get(flag, flag.replace("-", "_"))
    return name.partition("=")[0] + colon if colon else name


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM; handled like Ctrl-C."""


class ElmoError(Exception):
    """Base of all elmokit errors; the command line prints it as one line and exits with code 2."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(self._message(arg) if isinstance(arg, str) else arg for arg in args))

    @staticmethod
    def _message(text: str) -> str:
        return one_line(text) if _flags_named else name_arguments(one_line(text))


class ConfigError(ElmoError, ValueError):
    """An option has an invalid value."""


class FormatError(ElmoError, ValueError):
    """A model or data file is truncated, damaged, of an unknown format, or has unexpected shapes."""


class InputError(ElmoError, ValueError):
    """The input text cannot be read or used."""


class OutputError(ElmoError, OSError):
    """The output cannot be written: it exists, the disk is full, or another process is writing it."""


class ForkError(ElmoError, RuntimeError):
    """The process was forked from a multi-threaded parent, whose threads do not exist in the child."""


class MissingExtraError(ElmoError, ImportError):
    """An optional dependency is not installed; the message is the command that installs it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'elmokit[{extra}]'")
