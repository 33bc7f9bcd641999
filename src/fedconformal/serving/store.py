"""What a server tells a monitor: which sets it gave, and later which label was true.

A server works without one; then there is no POST /outcomes. Calls come one at a time, from a worker thread, and what a
call has returned from is acknowledged to the client: it must survive a kill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fedconformal._base.arrays import Booleans, Floats, Integers


class StoreError(Exception):
    """Nothing can be kept now, such as on a full disk: the client gets a 503 with these words and may try again."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows that were answered together; nothing about a row but its id, its site and groups, and its scores.

    `scores` and `sets` are (n, J), a column for each class; `time` is in seconds since 1970.
    """

    ids: Sequence[str]
    time: float
    sets: Booleans
    scores: Floats
    site: str | None = None
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)


class Store(Protocol):
    """Where predictions wait for their outcomes; what it raises is an `InputError` (a 400) or a `StoreError`."""

    def record_predictions(self, batch: Batch) -> None:
        """Keep rows until their outcomes come; an id that is there already is an `InputError`."""

    def record_outcomes(self, ids: Sequence[str], labels: Integers, time: float) -> Mapping[str, int]:
        """Count the true labels of rows, by position of the class; return how many were what, such as unknown."""
