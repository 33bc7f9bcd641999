"""Find every score, summary and guarantee by its name, so that adding one is adding one file."""

from __future__ import annotations

import importlib
import logging
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache
from importlib.machinery import PathFinder
from typing import Any, TypeVar

from fedconformal._base.names import shown
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


def of_others(group: str) -> Any:
    """Return what other packages offer in this group of entry points."""
    offered = _offered()
    return () if offered is not None and f"[{group}]" not in offered else _entry_points().select(group=group)


@cache
def _entry_points() -> Any:
    """Look through the metadata of all that is installed, once."""
    from importlib.metadata import entry_points

    return entry_points()


@cache
def _offered() -> str | None:
    """Return the lists of entry points that name a group of ours, of all that is installed; None if that is not sure.

    To look for these lists takes a twentieth of the time that it takes to import what reads metadata and to read it.
    """
    found = []
    for place in sys.path:
        try:
            names = os.listdir(place or ".")  # noqa: PTH208, of hundreds of files few are wanted
        except NotADirectoryError:  # an archive
            return None
        except OSError:
            continue
        for name in names:
            if name.endswith("-info"):
                with suppress(OSError), open(f"{place or '.'}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                    found.append(file.read().decode("utf-8", "replace"))
    if any(place.endswith(".egg") for place in sys.path) or any(
        hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path
    ):
        return None
    return "".join(text for text in found if "[fedconformal." in text)


@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(module.name)
    for entry in of_others(package):
        try:
            entry.load()
        except (ImportError, AttributeError) as error:
            logger.warning("%s of %s cannot be imported and is left out: %s", entry.name, entry.value, error)


def public(name: str, base: Callable[..., T]) -> type[T]:
    """Return the class of this name in the package of `base`, for the package's `__getattr__`.

    >>> from fedconformal.scores.score import Score
    >>> public("LAC", Score)
    <class 'fedconformal.scores.lac.LAC'>
    """
    package = base.__module__.rpartition(".")[0]
    for cls in members(base).values() if name[:1].isupper() else ():
        if cls.__name__ == name and cls.__module__.startswith(f"{package}."):
            return cls
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def find(name: str, base: Callable[..., T]) -> type[T]:
    """Return the subclass of `base` with this name, or say which names there are."""
    found = known_as(name, base)
    if found is None:
        noun = noun_of(base)
        there = ", ".join(sorted(members(base)))
        raise InputError(
            f"no {noun} is called {shown(repr(name))}; there are {there}", param=param_of(base), code="unknown-name"
        )
    return found


def noun_of(base: Callable[..., Any]) -> str:
    """Return the noun for the subclasses of `base`."""
    return str(getattr(base, "noun", base.__name__.lower()))


def param_of(base: Callable[..., Any]) -> str:
    """Return the usual name of a parameter that takes one: the last word of its noun."""
    return noun_of(base).split()[-1]


def known_as(name: str, base: Callable[..., T]) -> type[T] | None:
    """Return the subclass of `base` with this name, if there is one.

    One of ours that is in the file of its name is found without importing the others.

    >>> from fedconformal.scores.score import Score
    >>> known_as("lac", Score), known_as("residual", Score)
    (<class 'fedconformal.scores.lac.LAC'>, None)
    """
    file = f"{base.__module__.rpartition('.')[0]}.{name}"
    if name.isidentifier() and not name.startswith("_"):
        with suppress(ImportError):
            for cls in vars(importlib.import_module(file)).values():
                own = isinstance(cls, type) and cls.__module__ == file and vars(cls).get("name") == name
                if own:
                    found: type[T] | None = cls if issubclass(cls, base) else None  # type: ignore[arg-type]
                    return found
    return members(base).get(name)


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
