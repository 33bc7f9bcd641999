"""Clients at work in parallel: processes that stay for all rounds, one torch thread each, vectors in shared memory.

Two threads on one small model are slower than one thread on each of two models. So every worker process trains whole
clients with one thread. The global vector is written once to shared memory; results come back in slots of shared
memory, and through a pipe only a few numbers. Results are handed out in the order of the clients, and a task sees
nothing but its client, the vector and the message, so any number of workers gives the same bits.

The memory has no name in the file system (on Linux), and a worker ends when its pipe closes: nothing is left behind
when the run is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch import multiprocessing as processes

from fedconformal.errors import InputError

SLOT_BYTES = 2**28
"""Results of all clients lie in memory at once up to this size; beyond it, of a few clients a worker."""
MOST_AHEAD = 8
START_SECONDS = 3.0
"""About what it takes to start a process that imports torch."""
PATIENCE = 5.0
"""Seconds that a worker has to end by itself."""
TRIM, MMAP = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h."""
LARGEST_BLOCK = 2**25
"""The most that glibc takes for the second."""


class ClientError(InputError):
    """What went wrong at one client, with its name."""


class Task(Protocol):
    """What is done for a client; sent to every worker once, with its tensors in shared memory."""

    def __call__(self, client: int, vector: Tensor, out: Tensor, message: Any) -> Any:
        """Read the vector that all clients get, fill `out`, and return a few plain numbers."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Done:
    """What one client gave back; `out` is valid until the next result is asked for."""

    client: int
    out: Tensor
    info: Any


def available_workers(workers: int | None, clients: int) -> int:
    """Return how many worker processes are worth starting: as many as asked for, or as there are cores.

    >>> available_workers(8, clients=3)
    3
    """
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(workers, clients))


class Crew:
    """A task, the clients it is done for, and the workers that do it.

    With one worker everything happens in this process, with the same result. Use it in a `with` block: leaving
    it, for whatever reason, ends the processes and frees the memory.

    Args:
        task: what is done for a client.
        clients: the names of the clients.
        vector: how many numbers all clients get.
        out: how many numbers a client gives back.
        workers: how many processes; None for one a core, once the work has taken as long as they take to start.
        costs: what each client costs, such as its rows: the most expensive start first.
    """

    def __init__(
        self,
        task: Task,
        clients: Sequence[str],
        *,
        vector: int,
        out: int,
        workers: int | None = None,
        costs: Sequence[float] | None = None,
    ) -> None:
        self.clients = tuple(clients)
        self.workers = available_workers(workers, len(clients))
        self._task = task
        self._vector = torch.zeros(vector)
        self._slots = torch.zeros(1, out)
        self._costs = costs
        self._wait = START_SECONDS if workers is None else 0.0
        self._team: list[_Worker] = []

    def __enter__(self) -> Crew:
        self._start_if_worth_it()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._team:
            worker.pipe.close()
            if kind is not None:  # do not wait for clients that nobody wants any more
                worker.process.terminate()
        for worker in self._team:
            worker.process.join(PATIENCE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.process.close()
        self._team = []

    def round(self, vector: Tensor, message: Any = None) -> Iterator[Done]:
        """Do the task for every client and yield what came out, in the order of the clients."""
        self._vector.copy_(vector.detach().reshape(-1))
        done = 0
        while done < len(self.clients) and not self._team:
            yield self._here(done, message)
            done += 1
            self._start_if_worth_it()
        if done < len(self.clients):
            yield from self._in_workers(range(done, len(self.clients)), message)

    def _here(self, client: int, message: Any) -> Done:
        start = time.perf_counter()
        with one_thread():
            try:
                info = self._task(client, self._vector, self._slots[0], message)
            except Exception as error:
                raise ClientError(f"{self.clients[client]}: {_told(error)}") from error
        self._wait -= time.perf_counter() - start
        return Done(client=client, out=self._slots[0], info=info)

    def _in_workers(self, clients: range, message: Any) -> Iterator[Done]:
        waiting, free = list(clients), list(range(len(self._slots)))
        if self._costs is not None and len(free) >= len(waiting):  # else they have to come in their order
            waiting.sort(key=self._costs.__getitem__, reverse=True)
        waiting.reverse()
        # Where clients are many and small, a worker has the next ones at hand and need not wait for this process.
        ahead = 1 + min(MOST_AHEAD, len(waiting) // (8 * self.workers))
        finished: dict[int, tuple[int, Any]] = {}
        for client in clients:
            while client not in finished:
                while waiting and free and min(worker.busy for worker in self._team) < ahead:
                    min(self._team, key=lambda worker: worker.busy).begin(waiting.pop(), free.pop(), message)
                for heard in _heard(self._team):
                    done, slot, info = heard.result(self.clients)
                    finished[done] = slot, info
            slot, info = finished.pop(client)
            yield Done(client=client, out=self._slots[slot], info=info)
            free.append(slot)

    def _start_if_worth_it(self) -> None:
        if self.workers == 1 or self._wait > 0 or self._team:
            return
        size = self._slots.shape[1]
        slots = min(len(self.clients), max(2 * self.workers, SLOT_BYTES // max(1, 4 * size)))
        self._slots = torch.zeros(slots, size).share_memory_()
        self._vector.share_memory_()
        try:
            with _interrupts_held():
                for _ in range(self.workers):
                    self._team.append(_start(self._task, self._vector, self._slots))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            if isinstance(error, pickle.PicklingError | AttributeError | TypeError):
                advice = "define the model in a module, or set workers=1"
                raise InputError(f"the task cannot be sent to a worker process ({error}); {advice}") from None
            raise


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one torch thread and leave torch's random state as it was.

    This process too: threads that wait for each other while the workers have the cores wait for long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)


@dataclass(eq=False, kw_only=True)
class _Worker:
    process: Any
    pipe: Connection[Any, Any]
    jobs: deque[tuple[int, int]] = field(default_factory=deque)
    proven: bool = False

    @property
    def busy(self) -> int:
        return len(self.jobs)

    def begin(self, client: int, slot: int, message: Any) -> None:
        self.jobs.append((client, slot))
        with contextlib.suppress(OSError):  # the worker is gone: `result` says so
            self.pipe.send((client, slot, message))

    def result(self, names: Sequence[str]) -> tuple[int, int, Any]:
        client, slot = self.jobs.popleft()
        try:
            fault, info = self.pipe.recv()
        except (EOFError, OSError):
            raise self._lost(names[client]) from None
        if fault is not None:
            error = ClientError(f"{names[client]}: {fault[0]}")
            error.add_note(fault[1])
            raise error
        self.proven = True
        return client, slot, info

    def _lost(self, name: str) -> InputError:
        self.process.join(PATIENCE)
        code = self.process.exitcode
        if code == 1 and not self.proven:  # Python gave up: spawned as a copy of this program, it needs its modules
            advice = "call fit under `if __name__ == '__main__':` with the model in a module, or set workers=1"
            return InputError(f"a worker process could not start; {advice}")
        return ClientError(f"{name}: its worker process ended with exit code {code}; was there too little memory?")


def _start(task: Task, vector: Tensor, slots: Tensor) -> _Worker:
    context = processes.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, task, vector, slots), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process=process, pipe=ours)


def _keep_memory() -> None:
    """Let this process keep what it frees, up to a gigabyte, for its next step, where the C library is glibc.

    Every step frees what it allocated. glibc would give that back to the system, which clears each page when it is
    asked for again, and that can take a quarter of a small model's step.
    """
    with contextlib.suppress(OSError, TypeError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(TRIM, 2**30)
        mallopt(MMAP, LARGEST_BLOCK)


def _work(pipe: Connection[Any, Any], task: Task, vector: Tensor, slots: Tensor) -> None:
    torch.set_num_threads(1)
    _keep_memory()
    with contextlib.suppress(EOFError, OSError):  # the pipe closes when the run is over
        while True:
            client, slot, message = pipe.recv()
            answer: tuple[tuple[str, str] | None, Any]
            try:
                answer = None, task(client, vector, slots[slot], message)
            except Exception as error:  # noqa: BLE001
                answer = (_told(error), traceback.format_exc()), None
            pipe.send(answer)


def _heard(team: Sequence[_Worker]) -> Iterator[_Worker]:
    busy = {worker.pipe: worker for worker in team if worker.jobs}
    for pipe in wait(list(busy)):
        yield busy[pipe]  # type: ignore[index]


def _told(error: Exception) -> str:
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
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
