"""Find every score, summary and guarantee by its name, so that adding one is adding one file."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError

T = TypeVar("T")

logger = logging.getLogger(__name__)


def members(base: Callable[..., T]) -> dict[str, type[T]]:
    """Return the named subclasses of `base`: in the modules beside it, in other packages, and those that users define.

    Another package says in its metadata where its own are, as entry points of the group that is called like the
    package of `base`, such as fedconformal.scores. None of them takes the place of one of ours.

    >>> from fedconformal.scores.score import Score
    >>> members(Score)["lac"]
    <class 'fedconformal.scores.lac.LAC'>
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
def _own_members(base: Callable[..., T]) -> dict[str, type[T]]:
    """Return the members in the package of `base`, whose names nobody else can take."""
    package = base.__module__.rpartition(".")[0]
    return {name: cls for name, cls in members(base).items() if cls.__module__.startswith(f"{package}.")}


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
    for entry in entry_points(group=package):
        try:
            entry.load()
        except (ImportError, AttributeError) as error:
            logger.warning("%s of %s cannot be imported and is left out: %s", entry.name, entry.value, error)


def find(name: str, base: Callable[..., T]) -> type[T]:
    """Return the subclass of `base` with this name, or say which names there are."""
    found = _own_members(base).get(name) or members(base).get(name)
    if found is None:
        noun = noun_of(base)
        there = ", ".join(sorted(members(base)))
        raise InputError(
            f"no {noun} is called {abbreviate(repr(name))}; there are {there}",
            param=param_of(base),
            code="unknown-name",
        )
    return found


def noun_of(base: Callable[..., Any]) -> str:
    """Return the noun for the subclasses of `base`."""
    return str(getattr(base, "noun", base.__name__.lower()))


def param_of(base: Callable[..., Any]) -> str:
    """Return the usual name of a parameter that takes one: the last word of its noun."""
    return noun_of(base).split()[-1]


def build(described: Mapping[str, Any], base: Callable[..., T], within: tuple[str, ...] = ()) -> T:
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
                if value.get("name") in (name, *within):  # so that no file makes this go very deep
                    raise InputError("keeps one of its own kind", where=name)
                parameters[key] = build(value, base, (str(name), *within))
        built: Any = cls(**parameters)
        known = set(built.to_dict()) - {"name"} if hasattr(built, "to_dict") else known
        if set(parameters) == known:
            found: T = built
            return found
    raise InputError(f"has the parameters {sorted(parameters)}, expected {sorted(known)}", where=name)
