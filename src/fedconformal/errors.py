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
        One line.
    param
        The parameter to change, by its name in Python; the command line shows it as an option.
    code
        The kind of error, for programs that handle it; the message is for people and may change.
    where
        The file, site or array that is invalid; stands before the message.
    row
        The number of the first invalid row there.
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
        """Return this error with a place before its message, unless it has that place already."""
        if self.where == str(where):
            return self
        return type(self)(str(self), param=self.param, code=self.code, where=where)


class AlteredError(InputError):
    """A file is well formed, but its digest does not match its content."""


class StoreError(InputError):
    """A store cannot be written now, such as on a full disk; nothing has changed and the call can be repeated."""


class InfeasibleWarning(UserWarning):
    """Too few scores for the guarantee: the threshold is infinite and every label is in every set."""


class ClassCountsWarning(UserWarning):
    """A summary reveals the number of rows of each class."""


class HeavySiteWarning(UserWarning):
    """A site outweighs the others by the number of scores that it claims."""


class SuspiciousInputWarning(UserWarning):
    """Valid input that is probably a mistake, such as classes in another order or the same rows twice."""


@contextmanager
def prefix_errors(where: object) -> Iterator[None]:
    """Put a file, site or array before the message of an `InputError` raised inside."""
    try:
        yield
    except InputError as error:
        raise error.at(where) from None


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Raise `InputError` with the extra to install if an import inside fails."""
    try:
        yield
    except ImportError as error:
        raise InputError(f"this needs {error.name}: pip install 'fedconformal[{extra}]'") from None
