"""Every error that elmokit raises on purpose: one line that says what was expected, what was found, and the fix."""


class ElmoError(Exception):
    """Base of all elmokit errors; the command line prints it as one line and exits with code 2."""


class ConfigError(ElmoError, ValueError):
    """An option has a value that cannot work."""


class FormatError(ElmoError, ValueError):
    """A model or data file is not what it should be: truncated, of another format, or of other shapes."""


class InputError(ElmoError, ValueError):
    """The text to work on cannot be read or used."""


class OutputError(ElmoError, OSError):
    """The result cannot be written: it exists, the disk is full, or another process is writing it."""


class MissingExtraError(ElmoError, ImportError):
    """An optional dependency is not installed; the message is the command that installs it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency: pip install 'elmokit[{extra}]'")
