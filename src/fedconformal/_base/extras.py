"""Say which extra to install where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fedconformal.errors import InputError


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Turn a failed import into advice."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"this needs {error.name}: pip install 'fedconformal[{extra}]'") from None
