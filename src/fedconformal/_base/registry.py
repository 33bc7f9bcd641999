"""Find every score, summary and guarantee by its name, so that adding one is adding one file."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar

from fedconformal.errors import InputError

T = TypeVar("T")


def members(base: Callable[..., T]) -> dict[str, type[T]]:
    """Return the named subclasses of `base`: those in the modules beside it, and those that users define.

    >>> from fedconformal.scores.score import Score
    >>> sorted(members(Score))
    ['aps', 'lac', 'raps']
    """
    package = base.__module__.rpartition(".")[0]
    _import_modules(package)
    found: dict[str, type[T]] = {}
    pending: list[Any] = [base]
    while pending:
        for cls in pending.pop().__subclasses__():
            pending.append(cls)
            ours = cls.__module__.startswith(f"{package}.")
            if isinstance(vars(cls).get("name"), str) and (ours or cls.name not in found):
                found[cls.name] = cls
    return found


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)


def find(name: str, base: Callable[..., T]) -> type[T]:
    """Return the subclass of `base` with this name, or say which names there are."""
    known = members(base)
    if name not in known:
        noun = getattr(base, "noun", base.__name__.lower())
        raise InputError(f"no {noun} is called {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def build(described: Mapping[str, Any], base: Callable[..., T]) -> T:
    """Rebuild a score, a guarantee or a partition from its name and parameters, as found in a file.

    What its own `to_dict` leaves out may be absent, and nothing else. A parameter may be described in turn, such as the
    guarantee that another one keeps for every class.
    """
    parameters = dict(described)
    name = parameters.pop("name", None)
    cls: Any = find(str(name), base)
    known = {field.name for field in fields(cls)}
    needed = {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}
    if needed <= set(parameters) <= known:
        for key, value in parameters.items():
            if isinstance(value, Mapping):
                if value.get("name") == name:  # so that no file makes this go very deep
                    raise InputError(f"{name}: keeps one of its own kind")
                parameters[key] = build(value, base)
        built: Any = cls(**parameters)
        known = set(built.to_dict()) - {"name"} if hasattr(built, "to_dict") else known
        if set(parameters) == known:
            found: T = built
            return found
    raise InputError(f"{name}: has the parameters {sorted(parameters)}, expected {sorted(known)}")
