"""glibc's mallopt: a worker process keeps the memory that it frees.

Every step of training frees what it allocated. By default glibc gives that back to the system, which clears each page
before it hands it out again. On a small model that takes up to a quarter of a step.
"""

from __future__ import annotations

import contextlib
import ctypes

TRIM, MMAP = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD in glibc's malloc.h."""
MOST_KEPT = 2**30
LARGEST_BLOCK = 2**25
"""The largest value that glibc accepts for M_MMAP_THRESHOLD."""


def keep_freed_memory() -> None:
    """Keep up to a gigabyte of freed memory in this process; do nothing where the C library is not glibc."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(TRIM, MOST_KEPT)
        mallopt(MMAP, LARGEST_BLOCK)
