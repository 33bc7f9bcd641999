"""What a server tells a monitor: which sets it gave, and later which label was true.

A server works without one; then there is no POST /outcomes. Calls come one at a time, from a worker thread, and what a
call has returned from is acknowledged to the client: it must survive a kill.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fedconformal._base.arrays import Integers
from fedconformal.errors import StoreError
from fedconformal.monitoring.rows import Batch

__all__ = ["Batch", "Store", "StoreError"]


class Store(Protocol):
    """Where predictions wait for their outcomes; what it raises is an `InputError` (a 400) or a `StoreError`."""

    def record_predictions(self, batch: Batch) -> None:
        """Keep rows until their outcomes come; an id that is there already is an `InputError`."""

    def record_outcomes(self, ids: Sequence[str], labels: Integers, time: float) -> Mapping[str, int]:
        """Count the true labels of rows, by position of the class; return how many were what, such as unknown."""
