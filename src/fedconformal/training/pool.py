"""Local engine: worker processes that live for all rounds, with one torch thread each.

The tensors of a step are written once to shared memory, and each result to a slot of shared memory; only small
values go through pipes. Answers come in the order of the sites, and a task depends on nothing but its site and the
step, so the result does not depend on the number of workers.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import pickle
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch import multiprocessing as processes

from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer
from fedconformal.training.step import Step, Update

SLOT_BYTES = 2**28
"""Maximum memory for results; beyond it there are two slots for each worker."""
START_SECONDS = 3.0
"""Approximate time to start a process that imports torch."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Constants of glibc's malloc.h."""

Layout = list[tuple[str, tuple[int, ...]]]
"""Names and shapes of consecutive tensors in a vector."""


class SiteError(InputError):
    """An error at one site, with its name."""


class Task(Protocol):
    """The work for one site, sent once to every worker with its tensors in shared memory."""

    def __call__(self, site: int, step: Step) -> Update:
        """Take one step for the site with this index."""


class WorkerPool:
    """Context manager that runs a task for every site, in worker processes or in this process.

    Args:
        task: the work for one site.
        sites: names of the sites.
        sent: maximum number of elements in the tensors of a step.
        received: maximum number of elements in the tensors of an update.
        workers: number of processes, 1 for none; None for one per core, started once the work has taken as long as
            they take to start.
    """

    def __init__(
        self, task: Task, sites: Sequence[str], *, sent: int, received: int, workers: int | None = None
    ) -> None:
        self.sites = tuple(sites)
        self.workers = available_workers(workers, len(sites))
        self._task = task
        self._sent, self._received = sent, received
        self._wait = START_SECONDS if workers is None else 0.0
        self._team: _Team | None = None
        self._settings = contextlib.ExitStack()

    def __enter__(self) -> WorkerPool:
        self._settings.enter_context(one_thread())  # threads of this process would compete with the workers
        self._start_if_worth_it()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._settings.close()
        if self._team is not None:
            if kind is not None:  # end workers at once: nobody needs their results
                self._team.alive.close()
            self._team.executor.shutdown(cancel_futures=True)
            self._team.alive.close()
            self._team = None

    def ask(self, step: Step) -> Iterator[Answer[Update]]:
        """Take the step for every site and yield the updates in the order of the sites."""
        done = 0
        while done < len(self.sites) and self._team is None:
            start = time.perf_counter()
            try:
                update = self._task(done, step)
            except Exception as error:
                raise SiteError(f"{self.sites[done]}: {_message(error)}") from error
            self._wait -= time.perf_counter() - start
            yield Answer(self.sites[done], update)
            done += 1
            self._start_if_worth_it()
        if self._team is not None:
            yield from self._ask_workers(self._team, range(done, len(self.sites)), step)

    def _ask_workers(self, team: _Team, sites: range, step: Step) -> Iterator[Answer[Update]]:
        order = (step.what, write(step.tensors, team.vector), step.numbers)
        waiting, pending, slots = iter(sites), deque[Future[Any]](), len(team.slots)
        for site in sites:
            with _interrupts_held():  # a submission may start a process
                for ahead in islice(waiting, slots - len(pending)):
                    pending.append(team.executor.submit(_work, ahead, ahead % slots, order))
            try:
                fault, found = pending.popleft().result()
            except BrokenProcessPool:
                raise team.failure(self.sites[site]) from None
            if fault is not None:
                error = SiteError(f"{self.sites[site]}: {fault[0]}")
                error.add_note(fault[1])
                raise error
            rows, layout, numbers, finite = found
            yield Answer(self.sites[site], Update(rows, read(team.slots[site % slots], layout), numbers, finite))

    def _start_if_worth_it(self) -> None:
        if self.workers == 1 or self._wait > 0 or self._team is not None:
            return
        slots = min(len(self.sites), max(2 * self.workers, SLOT_BYTES // max(1, 4 * self._received)))
        try:
            self._team = _Team.start(self._task, self.workers, self._sent, (slots, self._received))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self._settings.close()
            advice = "define the model in a module, or set workers=1"
            raise InputError(f"the task cannot be sent to a worker process ({error}); {advice}") from None


class _Team(NamedTuple):
    """Running worker processes and the memory shared with them."""

    executor: ProcessPoolExecutor
    started: Future[int]
    alive: Connection[Any, Any]
    """Workers end when this end of their pipe closes, also because this process was killed."""
    vector: Tensor
    slots: Tensor

    @classmethod
    def start(cls, task: Task, workers: int, sent: int, slots: tuple[int, int]) -> _Team:
        vector, results = torch.zeros(sent).share_memory_(), torch.zeros(slots).share_memory_()
        context = processes.get_context("spawn")
        theirs, ours = context.Pipe(duplex=False)
        executor = ProcessPoolExecutor(
            workers, mp_context=context, initializer=_begin, initargs=(task, vector, results, theirs)
        )
        with _interrupts_held():
            return cls(executor, executor.submit(int), ours, vector, results)

    def failure(self, site: str) -> InputError:
        """Return the error for a worker that ended by itself."""
        if self.started.exception() is not None:  # spawned as a copy of this program, it needs its modules
            advice = "call fit under `if __name__ == '__main__':` with the model in a module, or set workers=1"
            return InputError(f"a worker process could not start; {advice}")
        return SiteError(f"{site} or a later site: its worker process ended; was there too little memory?")


_worker: tuple[Task, Tensor, Tensor]
"""Task, vector and slots of this worker process."""


def _begin(task: Task, vector: Tensor, slots: Tensor, alive: Connection[Any, Any]) -> None:
    """Prepare a worker process."""
    global _worker  # noqa: PLW0603
    _worker = task, vector, slots
    torch.set_num_threads(1)
    _keep_freed_memory()

    def end_with_the_run() -> None:
        with contextlib.suppress(EOFError, OSError):
            alive.recv()
        os._exit(1)

    threading.Thread(target=end_with_the_run, daemon=True).start()


def _work(site: int, slot: int, order: tuple[str, Layout, Mapping[str, float]]) -> tuple[Any, Any]:
    """Take a step in a worker: return what went wrong, or the update with its tensors in the slot."""
    task, vector, slots = _worker
    what, layout, numbers = order
    try:
        update = task(site, Step(what, read(vector, layout), numbers))
        return None, (update.rows, write(update.tensors, slots[slot]), update.numbers, update.finite)
    except Exception as error:  # noqa: BLE001
        return (_message(error), traceback.format_exc()), None


def available_workers(workers: int | None, sites: int) -> int:
    """Return the number of worker processes: as asked for, or one per core; at most one per site.

    >>> available_workers(8, sites=3)
    3
    """
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(workers, sites))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one torch thread, and restore torch's random state.

    Threads that wait for each other spin: two of them on a small model are slower than one.

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


def _keep_freed_memory() -> None:
    """Let glibc keep up to a gigabyte of freed memory: clearing pages again takes up to a quarter of a small step."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_TRIM_THRESHOLD, 2**30)
        mallopt(M_MMAP_THRESHOLD, 2**25)  # the largest value that glibc accepts


def _message(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block Ctrl-C while processes start; they inherit that, so only this process acts on it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # its start would let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
