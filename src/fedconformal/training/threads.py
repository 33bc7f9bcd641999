"""One torch thread: a process that trains beside others computes with one, as threads that wait go on spinning.

Two threads on one small model are slower than one thread on each of two models; where another program has one of the
cores, they are several times as slow as one thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one torch thread, and leave torch's random state as it was.

    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
