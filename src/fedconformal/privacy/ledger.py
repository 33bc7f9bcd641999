"""How much privacy has been spent on whose rows: every release adds up, and the budget is never exceeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import msgspec

from fedconformal.errors import InputError
from fedconformal.files import naming, read_bytes, write_bytes
from fedconformal.guarantees.base import as_decimal

Positive = Annotated[float, msgspec.Meta(gt=0)]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One release: on whose rows, how much of epsilon, and what for."""

    data: str
    epsilon: Positive
    purpose: str


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All releases so far, and how much a data set may spend in all."""

    budget: Positive
    entries: list[Entry] = []

    def spent(self, data: str) -> Fraction:
        """Add up: losses of privacy on the same rows add up, those on different rows do not."""
        return sum((as_decimal(entry.epsilon) for entry in self.entries if entry.data == data), Fraction(0))

    def spend(self, data: Sequence[str], epsilon: float, purpose: str) -> Ledger:
        """Enter a release on these data sets, or refuse it.

        >>> ledger = Ledger(budget=1.0).spend(["clinic-a"], 0.75, "threshold")
        >>> ledger.spend(["clinic-a"], 0.5, "threshold")
        Traceback (most recent call last):
        fedconformal.errors.InputError: 'clinic-a' has spent 0.75 of 1; 0.5 more is over its budget
        """
        for name, times in Counter(data).items():
            if self.spent(name) + times * as_decimal(epsilon) > as_decimal(self.budget):
                raise InputError(
                    f"{name!r} has spent {float(self.spent(name)):g} of {self.budget:g}; "
                    f"{times * epsilon:g} more is over its budget"
                )
        return Ledger(self.budget, [*self.entries, *(Entry(name, epsilon, purpose) for name in data)])


@contextmanager
def spending(path: Path | None, data: Sequence[str], epsilon: float, purpose: str) -> Iterator[None]:
    """Make a release inside: refused if it is over a budget, entered when it is made; without a ledger just made.

    Nobody else spends from the same ledger meanwhile, or both could pass and one entry be lost.
    """
    if path is None:
        yield
        return
    with _locked(path):
        after = read_ledger(path).spend(data, epsilon, purpose)
        yield
        write_ledger(path, after)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = path.with_name(f"{path.name}.lock")
    try:
        lock.touch(exist_ok=False)
    except FileExistsError:
        raise InputError(f"{path}: is in use by another release; wait, or delete {lock} if there is none") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be locked ({error.strerror})") from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def read_ledger(path: Path) -> Ledger:
    """Read a ledger."""
    with naming(path):
        try:
            return msgspec.json.decode(read_bytes(path), type=Ledger)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not a privacy ledger: {error}") from None


def write_ledger(path: Path, ledger: Ledger) -> None:
    """Write a ledger."""
    write_bytes(path, msgspec.json.format(msgspec.json.encode(ledger), indent=1) + b"\n")
