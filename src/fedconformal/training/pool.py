"""The engine on this machine: worker processes that stay for all rounds, one torch thread each.

What every site gets is written once to shared memory, and results come back in slots of shared memory. Answers come in
the order of the sites, and a task sees nothing but its site and the step, so any number of workers gives the same bits.
The memory has no name in the file system (on Linux): nothing is left behind when the run is killed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from types import TracebackType

import torch

from fedconformal.errors import InputError
from fedconformal.federated.ask import Answer
from fedconformal.training.process import (
    Order,
    SiteError,
    Task,
    Worker,
    interrupts_held,
    message_of,
    with_results,
    write,
)
from fedconformal.training.step import Step, Update
from fedconformal.training.threads import one_thread

SLOT_BYTES = 2**28
"""Results of all sites are in memory at once up to this size; beyond it, a few for each worker."""
MOST_AHEAD = 8
START_SECONDS = 3.0
"""About how long it takes to start a process that imports torch."""


def available_workers(workers: int | None, sites: int) -> int:
    """Return how many worker processes to use: as many as asked for, or as there are cores, one a site at most.

    >>> available_workers(8, sites=3)
    3
    """
    if workers is None:
        workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(workers, sites))


class WorkerPool:
    """A task, the sites it is done for, and the worker processes that do it.

    With one worker everything happens in this process, with the same result. Use it in a `with` block: leaving
    it, for whatever reason, ends the processes and frees the memory.

    Args:
        task: what is done for a site.
        sites: the names of the sites.
        sent: the most numbers that a step has in its tensors.
        received: the most numbers that an update has in its tensors.
        workers: how many processes; None for one a core, once the work has taken as long as they take to start.
        costs: what each site costs, such as its rows: the most expensive start first.
    """

    def __init__(
        self,
        task: Task,
        sites: Sequence[str],
        *,
        sent: int,
        received: int,
        workers: int | None = None,
        costs: Sequence[float] | None = None,
    ) -> None:
        self.sites = tuple(sites)
        self.workers = available_workers(workers, len(sites))
        self._task = task
        self._sent, self._received = sent, received
        self._vector = self._slots = torch.zeros(0)
        self._costs = costs
        self._wait = START_SECONDS if workers is None else 0.0
        self._team: list[Worker] = []
        self._settings = contextlib.ExitStack()

    def __enter__(self) -> WorkerPool:
        self._settings.enter_context(one_thread())  # threads of this process would wait for cores that workers have
        self._start_if_worth_it()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._settings.close()
        for worker in self._team:
            worker.pipe.close()
            if kind is not None:  # do not wait for sites whose result is not needed any more
                worker.process.terminate()
        for worker in self._team:
            worker.end()
        self._team = []

    def ask(self, step: Step) -> Iterator[Answer[Update]]:
        """Take the step for every site and yield the updates, in the order of the sites."""
        done = 0
        while done < len(self.sites) and not self._team:
            yield Answer(self.sites[done], self._here(done, step))
            done += 1
            self._start_if_worth_it()
        if done < len(self.sites):
            order = (step.what, write(step.tensors, self._vector), step.numbers)
            yield from self._in_workers(range(done, len(self.sites)), order)

    def _here(self, site: int, step: Step) -> Update:
        start = time.perf_counter()
        try:
            update = self._task(site, step)
        except Exception as error:
            raise SiteError(f"{self.sites[site]}: {message_of(error)}") from error
        self._wait -= time.perf_counter() - start
        return update

    def _in_workers(self, sites: range, order: Order) -> Iterator[Answer[Update]]:
        waiting, free = list(sites), list(range(len(self._slots)))
        if self._costs is not None and len(free) >= len(waiting):  # else they have to come in their order
            waiting.sort(key=self._costs.__getitem__, reverse=True)
        waiting.reverse()
        # Where sites are many and small, a worker has the next ones at hand and need not wait for this process.
        ahead = 1 + min(MOST_AHEAD, len(waiting) // (8 * self.workers))
        finished: dict[int, tuple[int, Update]] = {}
        for site in sites:
            while site not in finished:
                while waiting and free and min(len(worker.jobs) for worker in self._team) < ahead:
                    min(self._team, key=lambda worker: len(worker.jobs)).begin(waiting.pop(), free.pop(), order)
                for worker in with_results(self._team):
                    done, slot, update = worker.result(self.sites, self._slots)
                    finished[done] = slot, update
            slot, update = finished.pop(site)
            yield Answer(self.sites[site], update)
            free.append(slot)

    def _start_if_worth_it(self) -> None:
        if self.workers == 1 or self._wait > 0 or self._team:
            return
        slots = min(len(self.sites), max(2 * self.workers, SLOT_BYTES // max(1, 4 * self._received)))
        try:
            self._slots = torch.zeros(slots, self._received).share_memory_()
            self._vector = torch.zeros(self._sent).share_memory_()
            with interrupts_held():
                for _ in range(self.workers):
                    self._team.append(Worker.start(self._task, self._vector, self._slots))
        except BaseException as error:
            self.__exit__(type(error), error, None)
            if isinstance(error, pickle.PicklingError | AttributeError | TypeError):
                advice = "define the model in a module, or set workers=1"
                raise InputError(f"the task cannot be sent to a worker process ({error}); {advice}") from None
            raise
