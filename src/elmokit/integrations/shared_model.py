"""Models shared by the adapters of one process: copies of an estimator or pipeline load the same model once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, get_args

from elmokit.config import IndependentState
from elmokit.errors import ConfigError

if TYPE_CHECKING:
    from elmokit.embed.elmo import Dtype, Elmo

ModelName = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None


def shared_model(
    model: ModelName = None,
    *,
    state: IndependentState | None = None,
    dtype: Dtype | None = None,
    device: str | None = None,
) -> Elmo:
    """Load a model as `Elmo.from_pretrained` does, or return the one that this process loaded from the same files.

    state: "reset" or "warm", by default the model's own. "carry" is rejected: adapters embed texts in any order, and
        with carried state the vectors would depend on it.
    """
    if state is not None and state not in get_args(IndependentState):
        raise ConfigError(f"state: expected {' or '.join(get_args(IndependentState))}, found {state!r}")
    if model is None:
        return _load((), (), state, dtype, device)
    if isinstance(model, str | os.PathLike):
        names: tuple[str, ...] = (os.fspath(model),)
    elif isinstance(model, Sequence) and model and all(isinstance(name, str | os.PathLike) for name in model):
        names = tuple(os.fspath(name) for name in model)
    else:
        raise ConfigError(f"model: expected a path, an (options, weights) pair or None, found {model!r}")
    return _load(names, tuple(map(_version, names)), state, dtype, device)


@lru_cache(maxsize=2)
def _load(
    names: tuple[str, ...],
    versions: tuple[object, ...],  # part of the cache key only
    state: IndependentState | None,
    dtype: Dtype | None,
    device: str | None,
) -> Elmo:
    from elmokit.embed.elmo import Elmo

    elmo = Elmo.from_pretrained(
        names if len(names) > 1 else names[0] if names else None, state=state, dtype=dtype, device=device
    )
    if not elmo.independent:
        raise ConfigError('state: the model carries its state by default; choose state="reset" or state="warm"')
    return elmo


def _version(name: str) -> tuple[object, ...]:
    """Times and sizes of a file, or of the files in a folder: a model that was replaced is loaded again."""
    try:
        paths = [name] if not os.path.isdir(name) else sorted(entry.path for entry in os.scandir(name))
        return tuple((path, os.stat(path).st_mtime_ns, os.stat(path).st_size) for path in paths)
    except OSError:
        return ()  # a missing file is reported by the loader; a name without a file is a packaged model
