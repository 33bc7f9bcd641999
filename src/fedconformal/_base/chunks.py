"""Large arrays in pieces: each piece stays in the cache, memory stays bounded, and all cores take part.

numpy lets other threads run while it computes, so threads are enough; none outlives the call.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from numpy.typing import NDArray

CHUNK = 2**20
"""Entries worked on at a time. A quarter as many stay in the cache of a core, but then threads wait for each other, as
only one at a time runs Python: on two cores APS takes a third longer, and LAC longer than on one."""

SHARE = 2
"""How many chunks are work enough for a thread."""

MOST_THREADS = 4
"""Every thread has its own work space, and more of them would mostly wait for memory."""


def chunks(array: NDArray[Any], size: int, shares: int = 1) -> Iterator[slice]:
    """Cut the rows of a matrix into slices of at most `size` entries; as many for each share of the work."""
    count = max(1, -(-len(array) // max(1, size // array.shape[1])))
    step = max(1, -(-len(array) // (-(-count // shares) * shares)))
    for start in range(0, len(array), step):
        yield slice(start, min(start + step, len(array)))


def for_each_chunk(array: NDArray[Any], work: Callable[[slice], None], *, size: int = CHUNK) -> None:
    """Call `work` with every slice of rows, several at a time; what it raises for the first bad one is raised."""
    if array.size <= size:  # one piece: nothing to share out
        if len(array):
            work(slice(0, len(array)))
        return
    threads = max(1, min(cores(), MOST_THREADS, array.size // (SHARE * size)))
    pending = deque(chunks(array, size, threads))
    failed: list[tuple[int, Exception]] = []

    def run() -> None:
        while True:
            try:
                rows = pending.popleft()
            except IndexError:
                return
            try:
                work(rows)
            except Exception as error:  # noqa: BLE001
                failed.append((rows.start, error))
                pending.clear()

    helpers = _threads(run, threads - 1)
    try:
        run()
    finally:
        pending.clear()
        for helper in helpers:
            helper.join()
    if failed:  # slices are handed out in order, so no row before the first of these is bad
        raise min(failed, key=lambda one: one[0])[1]


def _threads(run: Callable[[], None], number: int) -> list[Any]:
    if number < 1:
        return []
    from threading import Thread

    helpers = [Thread(target=run, daemon=True) for _ in range(number)]
    for helper in helpers:
        helper.start()
    return helpers


def cores() -> int:
    """Count the processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1
