"""One worker process, from both sides of its pipe.

The process gets the task once. Then a message names a site, a slot and a step; the result goes into the slot, and only
a few numbers go back through the pipe. The process ends when its pipe closes, so nothing is left when a run is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import signal
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

import torch
from torch import Tensor
from torch import multiprocessing as processes

from fedconformal.errors import InputError
from fedconformal.training.step import Step, Update

PATIENCE = 5.0
"""Seconds that a worker has to end by itself."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""In glibc's malloc.h."""

Layout = list[tuple[str, tuple[int, ...]]]
"""Names and shapes of tensors that follow one another in a vector."""
Order = tuple[str, Layout, Mapping[str, float]]
"""A step as it goes through the pipe, with its tensors in the shared vector: plain values, as those pickle fastest."""


class SiteError(InputError):
    """What went wrong at one site, with its name."""


class Task(Protocol):
    """What is done for a site; sent to every worker once, with its tensors in shared memory."""

    def __call__(self, site: int, step: Step) -> Update:
        """Take one step for the site with this number."""


def write(tensors: Mapping[str, Tensor], vector: Tensor) -> Layout:
    """Copy tensors one after another into a vector, and return their layout."""
    start = 0
    for tensor in tensors.values():
        vector[start : start + tensor.numel()].copy_(tensor.detach().reshape(-1))
        start += tensor.numel()
    return [(name, tuple(tensor.shape)) for name, tensor in tensors.items()]


def read(vector: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Return the tensors in a vector, without a copy.

    >>> found = torch.zeros(6)
    >>> read(found, write({"a": torch.ones(2), "b": torch.zeros(1, 2)}, found))
    {'a': tensor([1., 1.]), 'b': tensor([[0., 0.]])}
    """
    found, start = {}, 0
    for name, shape in layout:
        end = start + math.prod(shape)
        found[name], start = vector[start:end].view(shape), end
    return found


@dataclass(eq=False, kw_only=True)
class Worker:
    """A worker process as the pool sees it, with the jobs that it has to do."""

    process: Any
    pipe: Connection[Any, Any]
    jobs: deque[tuple[int, int]] = field(default_factory=deque)
    proven: bool = False

    @classmethod
    def start(cls, task: Task, vector: Tensor, slots: Tensor) -> Worker:
        """Start the process."""
        context = processes.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, task, vector, slots), daemon=True)
        process.start()
        theirs.close()
        return cls(process=process, pipe=ours)

    def begin(self, site: int, slot: int, order: Order) -> None:
        """Send a job."""
        self.jobs.append((site, slot))
        with contextlib.suppress(OSError):  # the worker is gone: `result` says so
            self.pipe.send((site, slot, order))

    def result(self, names: Sequence[str], slots: Tensor) -> tuple[int, int, Update]:
        """Receive the result of the oldest job: its site, its slot and the update."""
        site, slot = self.jobs.popleft()
        try:
            fault, found = self.pipe.recv()
        except (EOFError, OSError):
            raise self._lost(names[site]) from None
        if fault is not None:
            error = SiteError(f"{names[site]}: {fault[0]}")
            error.add_note(fault[1])
            raise error
        self.proven = True
        rows, layout, numbers, finite = found
        return site, slot, Update(rows, read(slots[slot], layout), numbers, finite)

    def end(self) -> None:
        """Wait until the process has ended, and kill it if it takes too long."""
        self.process.join(PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()

    def _lost(self, name: str) -> InputError:
        self.process.join(PATIENCE)
        code = self.process.exitcode
        if code == 1 and not self.proven:  # Python gave up: spawned as a copy of this program, it needs its modules
            advice = "call fit under `if __name__ == '__main__':` with the model in a module, or set workers=1"
            return InputError(f"a worker process could not start; {advice}")
        return SiteError(f"{name}: its worker process ended with exit code {code}; was there too little memory?")


def _work(pipe: Connection[Any, Any], task: Task, vector: Tensor, slots: Tensor) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    with contextlib.suppress(EOFError, OSError):  # the pipe closes when the run is over
        while True:
            site, slot, (what, layout, numbers) = pipe.recv()
            answer: tuple[tuple[str, str] | None, Any]
            try:
                update = task(site, Step(what, read(vector, layout), numbers))
                answer = None, (update.rows, write(update.tensors, slots[slot]), update.numbers, update.finite)
            except Exception as error:  # noqa: BLE001
                answer = (message_of(error), traceback.format_exc()), None
            pipe.send(answer)


def keep_freed_memory() -> None:
    """Let this process keep up to a gigabyte of what it frees; do nothing where the C library is not glibc.

    Every step of training frees what it allocated. By default glibc gives that back to the system, which clears each
    page before it hands it out again. On a small model that takes up to a quarter of a step.
    """
    with contextlib.suppress(OSError, TypeError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, 2**30)
        mallopt(M_MMAP_THRESHOLD, 2**25)  # the largest value that glibc accepts


def with_results(workers: Sequence[Worker]) -> Iterator[Worker]:
    """Wait for results, and yield the workers that have one."""
    busy = {worker.pipe: worker for worker in workers if worker.jobs}
    for pipe in wait(list(busy)):
        yield busy[pipe]  # type: ignore[index]


def message_of(error: Exception) -> str:
    """Return one line that says what an error is."""
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while processes start; they inherit that, so only this process acts on it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
