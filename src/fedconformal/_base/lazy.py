"""Names of a package that are imported when they are first used, so that importing the package stays cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def imported_late(package: str, where: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, from its modules and the names that it passes on from each.

    >>> find = imported_late("fedconformal._base", {"arrays": ["softmax"]})
    >>> find("softmax").__module__
    'fedconformal._base.arrays'
    >>> find("softmin")
    Traceback (most recent call last):
    ...
    AttributeError: module 'fedconformal._base' has no attribute 'softmin'
    """
    module_of = {name: module for module, names in where.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
