"""Privacy ledger: the epsilons of releases on the same rows add up, and never exceed the budget.

Rows are identified by the SHA-256 of their scores, so that a new name gets no new budget, and by their site's name, so
that a changed row gets none either. A ledger is never sent: a digest of rows would be another release.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np

from fedconformal._base.files import read_bytes, write_bytes
from fedconformal._base.names import name_key
from fedconformal.errors import InputError, prefix_errors
from fedconformal.guarantees.guarantee import as_decimal
from fedconformal.summaries.summary import Summary

Positive = Annotated[float, msgspec.Meta(gt=0)]


class ChargedRows(NamedTuple):
    """The calibration rows of a site: its name, and the SHA-256 of their scores."""

    site: str
    digest: str


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A release on the rows of one site."""

    site: str
    digest: str
    epsilon: Positive
    purpose: str


class OpenedSums(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sessions that opened sums of some rows without noise: a digest of their sites, and their number."""

    sites: str = ""
    count: Annotated[int, msgspec.Meta(ge=0)] = 0


class Ledger(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All releases so far, and the total budget of a data set.

    Parameters
    ----------
    budget
        The largest sum of epsilon over the releases on any rows.
    entries
        Releases with noise.
    sessions
        Sessions without noise, by digest of rows.

    Examples
    --------
    >>> rows = [ChargedRows("clinic-a", "0f3a")]
    >>> Ledger(budget=1.0).spend(rows, 0.75, "threshold").spend(rows, 0.5, "threshold")
    Traceback (most recent call last):
    fedconformal.errors.InputError: 'clinic-a' has spent 0.75 of 1; 0.5 more is over its budget
    """

    budget: Positive
    entries: list[Entry] = []
    sessions: dict[str, OpenedSums] = {}

    def opened(self, data: Sequence[str]) -> OpenedSums:
        """Return the sessions of rows with any of these digests; the entry with most sessions if they differ."""
        sessions = [self.sessions[name] for name in data if name in self.sessions]
        return max(sessions, key=lambda session: session.count, default=OpenedSums())

    def spent(self, rows: ChargedRows) -> Fraction:
        """Return the sum of epsilon over releases on rows with this name or this digest."""
        name = name_key(rows.site)
        entries = [entry for entry in self.entries if entry.digest == rows.digest or name_key(entry.site) == name]
        return sum((as_decimal(entry.epsilon) for entry in entries), Fraction(0))

    def spend(self, data: Sequence[ChargedRows], epsilon: float, purpose: str) -> Ledger:
        """Return the ledger with a release on these rows; refused if it exceeds the budget."""
        entries = [Entry(site, digest, epsilon, purpose) for site, digest in data]
        after = msgspec.structs.replace(self, entries=self.entries + entries)
        for rows in data:
            before, total = self.spent(rows), after.spent(rows)
            if total > as_decimal(self.budget):
                raise InputError(
                    f"{rows.site!r} has spent {float(before):g} of {self.budget:g}; "
                    f"{float(total - before):g} more is over its budget"
                )
        return after


def rows_of(summaries: Sequence[Summary]) -> list[ChargedRows]:
    """Return the rows of every named site, from summaries that hold all scores."""
    charged = []
    for summary in summaries:
        scores = np.repeat(summary.points, np.diff(summary.lower_counts, prepend=0)).astype("<f8").tobytes()
        for place, site in enumerate(summary.sites):  # a pool mixes the scores of its sites, which differ by position
            prefix = b"fedconformal scores %d of %d\n" % (place + 1, len(summary.sites))
            charged.append(ChargedRows(site, hashlib.sha256(prefix + scores).hexdigest()))
    return charged


@contextmanager
def spending(path: Path | None, data: Sequence[ChargedRows], epsilon: float, purpose: str) -> Iterator[None]:
    """Lock the ledger during a release; refuse it over budget, enter it on success. Without a path, do nothing."""
    if path is None:
        yield
        return
    path = path.resolve()
    read_ledger(path)
    with locked(path):
        after = read_ledger(path).spend(data, epsilon, purpose)
        yield
        write_ledger(path, after)


def enter_session(path: Path, data: Sequence[str], sites: str, before: int) -> None:
    """Enter a session of rows, by each of their digests; refused unless the ledger holds `before` sessions of them."""
    with locked(path):
        ledger = read_ledger(path)
        if ledger.opened(data).count != before:
            raise InputError(f"{path}: these rows were summed in another session meanwhile; start this one again")
        sessions = ledger.sessions | dict.fromkeys(data, OpenedSums(sites, before + 1))
        write_ledger(path, msgspec.structs.replace(ledger, sessions=sessions))


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of a file. The operating system releases it when the process ends, however it ends."""
    try:
        handle = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"{path}: cannot be locked ({error.strerror})") from None
    try:
        try:
            _lock(handle, wait=wait)
        except (BlockingIOError, PermissionError):
            raise InputError(f"{path}: is in use by another release; wait until it is done") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be locked ({error.strerror}); keep it on a local disk") from None
        yield
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def read_ledger(path: Path) -> Ledger:
    """Read a ledger."""
    if not path.exists():
        how = 'a new ledger is a file with a budget for epsilon, such as {"budget": 3}'
        raise InputError(f"{path}: cannot be read (there is no such file); {how}")
    with prefix_errors(path):
        if path.stat().st_nlink > 1:  # writing would separate the names, each with the whole budget
            raise InputError("has a second name, a hard link, under which the budget would be spent again; remove it")
        try:
            return msgspec.json.decode(read_bytes(path), type=Ledger)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not a privacy ledger: {error}") from None


def write_ledger(path: Path, ledger: Ledger) -> None:
    """Write a ledger, readable by its owner only."""
    write_bytes(path, msgspec.json.format(msgspec.json.encode(ledger), indent=1) + b"\n", private=True)
