"""Names of a package that are imported when they are first used, so that importing the package stays cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Where = Mapping[str, Sequence[str]]
"""The names that a package passes on, by the module that has them."""


def imported_late(
    package: str, where: Where, otherwise: Callable[[str], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package; `otherwise` finds, or refuses, a name that is in no module here.

    >>> find, names = imported_late("fedconformal.tables", {"pairing": ["beside", "pair"]})
    >>> find("pair").__module__, names()[:3]
    ('fedconformal.tables.pairing', ['Predictions', 'Table', 'beside'])
    >>> find("impair")
    Traceback (most recent call last):
    ...
    AttributeError: module 'fedconformal.tables' has no attribute 'impair'
    """
    module_of = {name: module for module, names in where.items() for name in names}

    def find(name: str) -> Any:
        if name in module_of:
            found = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        elif otherwise is not None and not name.startswith("_"):
            found = otherwise(name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return find, names
