"""Large arrays in chunks that fit the cache, on several threads: numpy releases the lock while it computes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

CHUNK = 2**20
"""Entries of a chunk. With smaller ones threads wait for each other, as only one at a time runs Python."""
SHARE = 2
"""Chunks that are work enough for a thread."""
MOST_THREADS = 4
"""Every thread has its own work space, and more of them would mostly wait for memory."""


def chunks(array: NDArray[Any], size: int, shares: int = 1) -> Iterator[slice]:
    """Cut the rows of a matrix into slices of at most `size` entries; as many for each share of the work."""
    count = max(1, -(-len(array) // max(1, size // array.shape[1])))
    step = max(1, -(-len(array) // (-(-count // shares) * shares)))
    for start in range(0, len(array), step):
        yield slice(start, min(start + step, len(array)))


def for_each_chunk(array: NDArray[Any], work: Callable[[slice], None], *, size: int = CHUNK) -> None:
    """Call `work` with every slice of rows, on several threads; raise the error of the first bad slice."""
    threads = max(1, min(cores(), MOST_THREADS, array.size // (SHARE * size)))
    if threads == 1:
        for rows in chunks(array, size):
            work(rows)
        return
    with ThreadPoolExecutor(threads) as pool:
        started = [pool.submit(work, rows) for rows in chunks(array, size, threads)]
        try:
            for one in started:
                one.result()
        finally:
            pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Count the processor cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1
