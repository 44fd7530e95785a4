"""`from_params`, and the dictionary of settings that it reads."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Self

from elmokit.disk.json_file import parse_json, read_json
from elmokit.errors import ConfigError

_MISSING = object()


class Params(MutableMapping[str, Any]):
    """Dictionary of settings that are popped one by one, as `allennlp.common.Params`."""

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        self.params = dict(params or {})

    @classmethod
    def from_file(
        cls,
        params_file: str | os.PathLike[str],
        params_overrides: str | Mapping[str, Any] = "",
        ext_vars: Mapping[str, str] | None = None,
    ) -> Self:
        """Read a JSON file. Jsonnet is not evaluated: a file with its comments or variables is an error.

        params_overrides: settings as JSON or a dictionary, nested or with dots as in "model.dropout".
        """
        if ext_vars:
            raise ConfigError("ext_vars: expected none, because Jsonnet is not evaluated; write the values into a file")
        content = read_json(Path(params_file))
        if isinstance(params_overrides, str):
            params_overrides = parse_json(params_overrides, "params_overrides") if params_overrides.strip() else {}
        if not isinstance(content, dict) or not isinstance(params_overrides, Mapping):
            raise ConfigError(f"{params_file}: expected an object of settings")
        _override(content, params_overrides)
        return cls(content)

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        """Pop a setting; nested settings are returned as `Params`."""
        if default is _MISSING and key not in self.params:
            raise ConfigError(f"params: expected {key!r}, found {', '.join(self.params) or 'nothing'}")
        value = self.params.pop(key, default)
        return Params(value) if isinstance(value, dict) else value

    def pop_int(self, key: str, default: Any = _MISSING) -> int | None:
        """Pop an integer."""
        value = self.pop(key, default)
        return None if value is None else int(value)

    def pop_float(self, key: str, default: Any = _MISSING) -> float | None:
        """Pop a number."""
        value = self.pop(key, default)
        return None if value is None else float(value)

    def pop_bool(self, key: str, default: Any = _MISSING) -> bool | None:
        """Pop a boolean."""
        value = self.pop(key, default)
        return None if value is None else _boolean(key, value)

    def pop_choice(self, key: str, choices: Sequence[Any], default_to_first_choice: bool = False) -> Any:
        """Pop a setting that must be one of `choices`, of which the first may be the default."""
        value = self.pop(key, choices[0] if default_to_first_choice else _MISSING)
        if value not in choices:
            raise ConfigError(f"{key}: expected {', '.join(map(str, choices))}, found {value!r}")
        return value

    def duplicate(self) -> Params:
        """A deep copy, for settings that are needed twice."""
        return copy.deepcopy(self)

    def as_dict(self, quiet: bool = False) -> dict[str, Any]:
        """Remaining settings as a dictionary."""
        return self.params

    def assert_empty(self, class_name: str) -> None:
        """Raise a ConfigError if settings remain."""
        if self.params:
            raise ConfigError(f"{class_name}: unknown settings: {', '.join(self.params)}")

    def add_file_to_archive(self, name: str) -> None:
        """Nothing to do: there are no archives here."""

    def __getitem__(self, key: str) -> Any:
        """Get a setting without removing it."""
        value = self.params[key]
        return Params(value) if isinstance(value, dict) else value

    def __setitem__(self, key: str, value: Any) -> None:
        """Change a setting."""
        self.params[key] = value

    def __delitem__(self, key: str) -> None:
        """Remove a setting."""
        del self.params[key]

    def __iter__(self) -> Iterator[str]:
        """Names of the settings."""
        return iter(self.params)

    def __len__(self) -> int:
        """Number of settings."""
        return len(self.params)


def _override(settings: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    for key, value in overrides.items():
        first, _, rest = key.partition(".")
        value = {rest: value} if rest else value
        if isinstance(value, Mapping):
            inner = settings.get(first)
            settings[first] = inner if isinstance(inner, dict) else {}
            _override(settings[first], value)
        else:
            settings[first] = value


class FromParams:
    """Construction from settings by name, as in old configuration files."""

    @classmethod
    def from_params(cls, params: Any = None, vocab: Any = None, **extras: Any) -> Self:
        """Create an instance from `Params` or a dictionary, which is consumed; `namespace_to_cache` uses `vocab`.

        Both orders of the arguments work: `from_params(vocab, params)` of AllenNLP 0.9 as well.
        """
        if not hasattr(params, "pop") and hasattr(vocab, "pop"):
            params, vocab = vocab, params
        if not hasattr(params, "pop"):
            raise ConfigError(f"{cls.__name__}.from_params: expected Params or a dictionary, found {params!r}")
        params.pop("type", None)
        accepted = inspect.signature(cls).parameters
        settings: dict[str, Any] = {}
        for name in list(params.keys()):
            value = params.pop(name)
            if name == "namespace_to_cache" and "vocab_to_cache" in accepted:
                if value is not None:
                    settings["vocab_to_cache"] = list(vocab.get_token_to_index_vocabulary(value))
                continue
            if name not in accepted:
                raise ConfigError(f"{cls.__name__}: expected settings among {', '.join(accepted)}, found {name!r}")
            value = value.as_dict() if hasattr(value, "as_dict") else value
            settings[name] = _boolean(name, value) if isinstance(accepted[name].default, bool) else value
        settings |= {name: value for name, value in extras.items() if name in accepted}
        for name, parameter in accepted.items():
            if parameter.default is parameter.empty and name not in settings:
                raise ConfigError(f"{cls.__name__}: expected a setting {name!r}, found none")
        return cls(**settings)


def _boolean(name: str, value: Any) -> Any:
    """Convert booleans that JSON or the command line gives as strings."""
    if isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name}: expected true or false, found {value!r}")
        return value.lower() == "true"
    return value
