"""Find every score, summary and guarantee by its name, so that adding one is adding one file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from fedconformal.errors import InputError

T = TypeVar("T")


def members(base: type[T], package: str) -> dict[str, type[T]]:
    """Return the named subclasses of `base`: those of every module of the package, and those that users define.

    >>> from fedconformal.scores.base import Score
    >>> sorted(members(Score, "fedconformal.scores"))
    ['aps', 'lac', 'raps']
    """
    _import_modules(package)
    found: dict[str, type[T]] = {}
    pending: list[type[Any]] = [base]
    while pending:
        for cls in pending.pop().__subclasses__():
            pending.append(cls)
            ours = cls.__module__.startswith(f"{package}.")
            if "name" in vars(cls) and (ours or cls.name not in found):
                found[cls.name] = cls
    return found


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)


def find(name: str, base: type[T], package: str) -> type[T]:
    """Return the subclass of `base` with this name, or say which names there are."""
    known = members(base, package)
    if name not in known:
        what = base.__name__.lower()
        raise InputError(f"no {what} is called {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def build(described: Mapping[str, Any], base: type[T], package: str) -> T:
    """Rebuild a score or a guarantee from its name and parameters, as found in a file."""
    parameters = dict(described)
    name = parameters.pop("name", None)
    cls = find(str(name), base, package)
    expected = {field.name for field in fields(cls)}  # type: ignore[arg-type]
    if set(parameters) != expected:
        raise InputError(f"{name}: has the parameters {sorted(parameters)}, expected {sorted(expected)}")
    return cls(**parameters)
