"""Lists of submodules such as `_scalar_mixes`, stored as the attributes `scalar_mix_0`, `scalar_mix_1`, ...

AllenNLP keeps both, and `forward` uses the list. Here the attributes are the only copy, so that replacing either one
takes effect and replicas of DataParallel use their own submodules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from itertools import count
from typing import Any

from torch import nn


class Submodules:
    """Descriptor: the list of the attributes `<prefix>0`, `<prefix>1`, ... of a module that has `SubmoduleLists`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def __get__(self, owner: nn.Module | None, _: Any = None) -> Any:
        """A list; changes to it change the attributes."""
        if owner is None:
            return self
        values = [getattr(owner, f"{self.prefix}{k}") for k in range(self._length(owner))]
        return _StoredList(values, lambda changed: self.__set__(owner, changed))

    def _length(self, owner: nn.Module) -> int:
        """Length of the list as assigned, or else the number of attributes."""
        length = owner.__dict__.get(f"_n_{self.prefix}")
        return next(k for k in count() if not hasattr(owner, f"{self.prefix}{k}")) if length is None else int(length)

    def __set__(self, owner: nn.Module, values: Iterable[Any]) -> None:
        """Replace the attributes by these modules, or other callables, in number too."""
        values = list(values)
        for k in range(max(len(values), self._length(owner))):
            name = f"{self.prefix}{k}"
            if k >= len(values) or (name in owner._modules and not isinstance(values[k], nn.Module)):
                delattr(owner, name)
            if k < len(values):
                setattr(owner, name, values[k])
        owner.__dict__[f"_n_{self.prefix}"] = len(values)


class SubmoduleLists(nn.Module):
    """Base of modules with `Submodules`; nn.Module alone would register an assigned ModuleList as one more child."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), Submodules):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)


class _StoredList(list[Any]):
    """List that calls `store` with itself after every change."""

    def __init__(self, values: Iterable[Any], store: Callable[[list[Any]], None]) -> None:
        super().__init__(values)
        self._store = store

    def __reduce__(self) -> Any:
        """A copied or pickled list is a plain list."""
        return list, (list(self),)


def _stored(name: str) -> Callable[..., Any]:
    method = getattr(list, name)

    @wraps(method)
    def change(self: _StoredList, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        self._store(self)
        return result

    return change


for _name in [
    "__setitem__",
    "__delitem__",
    "__iadd__",
    "__imul__",
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "remove",
    "reverse",
    "sort",
]:
    setattr(_StoredList, _name, _stored(_name))
