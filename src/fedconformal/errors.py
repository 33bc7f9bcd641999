"""Exceptions and warnings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class InputError(ValueError):
    """Invalid input. The message says what is wrong, where, and what to do.

    Parameters
    ----------
    message
        The problem and its remedy, in one line.
    param
        Name of the Python parameter to change; the command line shows the corresponding option.
    code
        Kind of error, for programs that handle it; the message is for people and may change.
    where
        The invalid file, site or array, prefixed to the message.
    row
        Number of the first invalid row.

    Examples
    --------
    >>> print(InputError("is empty", where="scores"))
    scores: is empty
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str = "invalid",
        where: object = None,
        row: int | None = None,
    ) -> None:
        self.problem, self.param, self.code, self.row = message, param, code, row
        self.where = None if where is None else str(where)
        place = "" if row is None else f"row {row} "
        super().__init__(f"{place}{message}" if where is None else f"{where}: {place}{message}")

    def at(self, where: object) -> Self:
        """Return this error with its location prefixed to the message, unless it is there already."""
        if self.where == str(where):
            return self
        return type(self)(str(self), param=self.param, code=self.code, where=where)


class AlteredError(InputError):
    """Raised when a file is well formed but its digest does not match its content."""


class StoreError(InputError):
    """Raised when a store cannot be written, as on a full disk; it is unchanged and the call can be repeated."""


class InfeasibleWarning(UserWarning):
    """Issued when no finite threshold keeps the guarantee, usually for lack of scores; sets then hold all labels."""


class ClassCountsWarning(UserWarning):
    """Issued when a summary reveals the number of rows of each class or group."""


class HeavySiteWarning(UserWarning):
    """Issued when one site dominates the others by its claimed number of scores."""


class SuspiciousInputWarning(UserWarning):
    """Issued for valid input that is probably a mistake, such as reordered classes or duplicate rows."""


@contextmanager
def prefix_errors(where: object) -> Iterator[None]:
    """Prefix the message of an `InputError` raised inside with a file, site or array."""
    try:
        yield
    except InputError as error:
        raise error.at(where) from None


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Convert an `ImportError` raised inside to an `InputError` that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"this needs {error.name}: pip install 'fedconformal[{extra}]'") from None
