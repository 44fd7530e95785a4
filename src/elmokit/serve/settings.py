"""Settings of `elmo serve`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from elmokit.errors import ConfigError
from elmokit.tasks.text_tagger import packaged_taggers
from elmokit.weights.locate import is_packaged

Dtype = Literal["float32", "int8"]

_TASK_NAME = re.compile(r"[\w.-]+")
_LEAST = {
    "port": 0, "workers": 1, "threads": 1, "batch_tokens": 1, "max_sentences": 1, "max_tokens": 1, "max_bytes": 1,
    "queue_requests": 1, "queue_tokens": 1,
}  # fmt: skip


@dataclass(frozen=True)
class ServeSettings:
    """Settings of the server: models, address and limits."""

    model: str | None = None  # folder, file, zip or name; None is the packaged model
    tasks: dict[str, Path] = field(default_factory=dict)  # name in the address -> folder of the run
    index: Path | None = None  # folder that `elmo index build` wrote
    vectors: Path | None = None  # static vectors for /neighbors
    tokenizer: str | None = None  # of raw text; None is that of the model
    dtype: Dtype = "float32"
    device: str | None = None

    host: str = "127.0.0.1"
    port: int = 8000  # 0 is any free one
    api_key: str | None = field(default=None, repr=False)  # never shown
    origins: tuple[str, ...] = ()  # allowed by CORS

    workers: int = 1  # engine processes
    threads: int | None = None  # CPU threads of each; None is what torch chooses
    batch_tokens: int = 4096

    max_sentences: int = 1024  # per request
    max_tokens: int = 8192  # per request
    max_bytes: int = 2 * 2**20  # of a request body
    queue_requests: int = 512  # requests that wait or whose answer is being sent
    queue_tokens: int = 65536  # tokens of these requests
    timeout: float = 30.0  # seconds that a request may wait, and that sending a response may stall

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ConfigError(f"--{name.replace('_', '-')}: expected {least} or more, found {value}")
        if self.port > 65535:
            raise ConfigError(f"--port: expected 0 to 65535, found {self.port}")
        if not 0 < self.timeout < 86400:
            raise ConfigError(f"--timeout: expected seconds between 0 and 86400, found {self.timeout}")
        if self.queue_tokens < self.max_tokens:
            raise ConfigError(
                f"--queue-tokens: expected at least the {self.max_tokens} of --max-tokens, found {self.queue_tokens}"
            )
        for name in self.tasks:
            if not _TASK_NAME.fullmatch(name):
                raise ConfigError(
                    f"--task: expected letters, digits, . _ and - in a name, found {name!r}; use NAME=RUN"
                )
        for origin in self.origins:
            if not re.fullmatch(r"https?://[^/\s*]+", origin):
                raise ConfigError(f"--allow-origin: expected an origin such as https://example.org, found {origin!r}")


def served_tasks(values: list[str], model: str | Path | None) -> dict[str, Path]:
    """The runs of `--task` by name; with the packaged model its taggers, too, unless a run has the same name."""
    return {**(packaged_taggers() if is_packaged(model) else {}), **named_tasks(values)}


def named_tasks(values: list[str]) -> dict[str, Path]:
    """Runs by name: `runs/ner` is called ner, `people=runs/ner` people."""
    found: dict[str, Path] = {}
    for value in values:
        name, equals, folder = value.partition("=")
        path = Path(folder if equals else value).expanduser()
        name = name if equals else path.resolve().name
        if name in found:
            raise ConfigError(f"--task: expected different names, found {name!r} twice; use NAME=RUN")
        found[name] = path
    return found
