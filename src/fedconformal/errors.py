"""Exceptions and warnings."""

from __future__ import annotations


class InputError(ValueError):
    """Invalid input. The message says what is wrong, where, and what to do.

    Parameters
    ----------
    message
        One line.
    param
        The parameter to change, by its name in Python; the command line shows it as an option.
    code
        The kind of error, for programs that handle it; its words are not part of the interface.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str = "invalid") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class InputTypeError(InputError, TypeError):
    """A value of an unsupported type."""


class AlteredError(InputError):
    """A file is well formed, but its digest does not match its content."""


class StoreError(InputError):
    """A store cannot be written now, such as on a full disk; nothing has changed and the call can be repeated."""


class NotCalibratedError(InputError, AttributeError):
    """Raised when an estimator is used before `calibrate()` or `fit()`."""


class InfeasibleWarning(UserWarning):
    """Too few scores for the guarantee: the threshold is infinite and every label is in every set."""


class ClassCountsWarning(UserWarning):
    """A summary reveals the number of rows of each class."""


class HeavySiteWarning(UserWarning):
    """One site outweighs the others because of the number of scores that it claims."""


class VersionWarning(UserWarning):
    """Some summaries state less about their scores than others."""
