"""Local engine: persistent worker processes with one torch thread each.

Rows are in shared memory; weights are sent through pipes. Answers are returned in the order of the sites, and a task
depends only on its site and the step, so the result does not depend on the number of workers.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import repeat
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import multiprocessing as processes

from fedconformal._base.arrays import cores
from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer, Ask
from fedconformal.training.step import Step, Update

START_SECONDS = 3.0
"""Approximate time to start a process that imports torch."""

Arrays = Mapping[str, NDArray[Any]]

Task = Callable[[int, Step], Update]
"""Runs a step at the site with this index; sent to every worker once, with its tensors in shared memory."""


@contextlib.contextmanager
def local_engine(task: Task, sites: Sequence[str], *, workers: int | None = None) -> Iterator[Ask[Step, Update]]:
    """Yield a function that runs a task for every site, in `workers` processes (None: one per core), or in this one."""
    count, wait = available_workers(workers, len(sites)), START_SECONDS if workers is None else 0.0
    team: _Team | None = None

    def ask(step: Step) -> Iterator[Answer[Update]]:
        nonlocal team, wait
        for site, name in enumerate(sites):
            if count > 1 and wait <= 0:
                team = team or _Team.start(task, count)
                yield from team.ask(step, range(site, len(sites)), sites[site:])
                return
            start = time.perf_counter()
            update = _take(task, site, name, step)
            wait -= time.perf_counter() - start
            yield Answer(name, update)

    with one_thread():  # threads of this process would compete with the workers
        try:
            yield ask
        except BaseException:
            if team is not None:  # the results are not needed: end the workers at once
                team.alive.close()
            raise
        finally:
            if team is not None:
                team.executor.shutdown(cancel_futures=True)
                team.alive.close()


class _Team(NamedTuple):
    """Running worker processes; they end when the parent's end of the pipe closes, even if the parent is killed."""

    executor: ProcessPoolExecutor
    alive: Connection[Any, Any]

    @classmethod
    def start(cls, task: Task, workers: int) -> _Team:
        context = processes.get_context("spawn")
        theirs, ours = context.Pipe(duplex=False)
        executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(task, theirs))
        try:
            with contextlib.ExitStack() as after:  # workers inherit ignored signals: Ctrl-C is for this process
                if threading.current_thread() is threading.main_thread():
                    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
                    after.callback(signal.signal, signal.SIGINT, before or signal.SIG_DFL)
                ready = [executor.submit(int) for _ in range(workers)]
            for worker in ready:
                worker.result()
        except (pickle.PicklingError, AttributeError, TypeError, BrokenProcessPool) as error:
            # spawned as a copy of this program, a worker needs its modules
            advice = "call fit under `if __name__ == '__main__':` with the model in a module, or set workers=1"
            raise InputError(f"a worker process could not start ({error}); {advice}") from None
        return cls(executor, ours)

    def ask(self, step: Step, sites: range, names: Sequence[str]) -> Iterator[Answer[Update]]:
        order = (step.what, _arrays(step.tensors), step.numbers)
        answers = self.executor.map(_work, sites, names, repeat(order))
        for name in names:
            try:
                arrays, update = next(answers)
            except BrokenProcessPool:
                problem = "or a later site: its worker process ended; was there too little memory?"
                raise InputError(f"{name} {problem}") from None
            yield Answer(name, update._replace(tensors=_tensors(arrays)))


_task: Task


def _begin(task: Task, alive: Connection[Any, Any]) -> None:
    """Initialise a worker process."""
    global _task  # noqa: PLW0603
    _task = task
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)

    def end_with_the_run() -> None:
        with contextlib.suppress(EOFError, OSError):
            alive.recv()
        os._exit(1)

    threading.Thread(target=end_with_the_run, daemon=True).start()


def _work(site: int, name: str, order: tuple[str, Arrays, Mapping[str, float]]) -> tuple[Arrays, Update]:
    """Run a step in a worker; arrays are copied through the pipe, while tensors would be shared by file handle."""
    what, arrays, numbers = order
    update = _take(_task, site, name, Step(what, _tensors(arrays), numbers))
    return _arrays(update.tensors), update._replace(tensors={})


def _take(task: Task, site: int, name: str, step: Step) -> Update:
    try:
        return task(site, step)
    except Exception as error:
        text = " ".join(str(error).split()) or "no message"
        text = text if isinstance(error, InputError) else f"{type(error).__name__}: {text}"
        raise InputError(f"{name}: {text}") from error


def _arrays(tensors: Mapping[str, Tensor]) -> Arrays:
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def _tensors(arrays: Arrays) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def available_workers(workers: int | None, sites: int) -> int:
    """Return the number of worker processes: as requested, or one per core; at most one per site."""
    return max(1, min(cores() if workers is None else workers, sites))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one torch thread, as waiting threads spin, and restore torch's random state."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.set_num_threads(threads)
