"""Requests that wait at the same moment are answered together, and a watch stores them in one transaction.

While one batch is stored, the next requests collect, so that a durable commit is shared by all of them. A row gets the
same bits in any company. Nothing is acknowledged before its commit. If one request is refused, each is processed alone,
and only that one fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import numpy as np
from anyio import to_thread

from fedconformal.errors import InputError, StoreError
from fedconformal.monitoring.events import NO_OUTCOMES, Outcomes
from fedconformal.monitoring.store import Watch
from fedconformal.serving.bodies import MOST_ROWS, Answer, Rows
from fedconformal.serving.service import Service

MOST = 64
"""Requests in a batch; others are read meanwhile."""
SWITCH_SECONDS = 0.0005
"""Switch interval of threads for a process with a watch: its statements do not wait for the event loop."""

Result = Answer | dict[str, int]


class Batcher:
    """Collects requests for predictions and for outcomes, and processes them in batches."""

    def __init__(self, service: Callable[[], Service], watch: Watch | None, lock: anyio.Lock) -> None:
        self._service, self._watch, self._lock = service, watch, lock
        self._waiting: list[tuple[Rows | Outcomes, asyncio.Future[Any]]] = []
        self._running: asyncio.Task[None] | None = None
        self._syncing: set[asyncio.Task[None]] = set()
        if watch is not None:
            watch.defer_sync()

    async def process(self, request: Rows | Outcomes) -> Any:
        """Return the answer to rows, or the counts of outcomes, once they are stored."""
        coming: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, coming))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await coming

    async def _run(self) -> None:
        await asyncio.sleep(0)  # what has come by the next turn of the loop goes together
        while self._waiting:
            now = self._next()
            requests = [request for request, _ in now]
            results: Sequence[Result | Exception]
            try:
                if self._watch is None:
                    results = self._results(requests)
                else:
                    async with self._lock:
                        results = await to_thread.run_sync(self._results, requests)
            except Exception as fault:  # noqa: BLE001
                # A fault of the server, which its log has; nobody is left waiting.
                results = [fault] * len(now)
            coming = [future for _, future in now]
            if self._watch is None:
                _settle(coming, results)
                await asyncio.sleep(0)
            else:  # the next batch is committed while this one reaches the disk
                task = asyncio.create_task(self._acknowledge(self._watch, coming, results))
                self._syncing.add(task)
                task.add_done_callback(self._syncing.discard)

    async def _acknowledge(
        self, watch: Watch, coming: Sequence[asyncio.Future[Any]], results: Sequence[Result | Exception]
    ) -> None:
        """Answer once all commits so far are on the disk."""
        try:
            await to_thread.run_sync(watch.sync)
        except StoreError as error:
            results = [error] * len(results)
        _settle(coming, results)

    def _next(self) -> list[tuple[Rows | Outcomes, asyncio.Future[Any]]]:
        """Take the next requests, as many as have about the rows of one large request."""
        rows = np.cumsum([len(request) for request, _ in self._waiting[:MOST]])
        count = max(1, int(np.searchsorted(rows, MOST_ROWS, side="right")))
        now, self._waiting = self._waiting[:count], self._waiting[count:]
        return now

    def _results(self, requests: Sequence[Rows | Outcomes]) -> Sequence[Result | Exception]:
        try:
            return self._together(requests)
        except StoreError as error:
            return [error] * len(requests)
        except InputError as error:
            return [error] if len(requests) == 1 else [self._results([one])[0] for one in requests]

    def _together(self, requests: Sequence[Rows | Outcomes]) -> list[Result]:
        service = self._service()
        asked = [one for one in requests if isinstance(one, Rows)]
        came = [one for one in requests if isinstance(one, Outcomes)]
        answers = iter(service.answers(asked) if asked else [])
        found: list[Result] = [next(answers) if isinstance(one, Rows) else {} for one in requests]
        if self._watch is None:
            return found
        rows = service.predicted(asked, [one for one in found if isinstance(one, Answer)])
        fates = self._watch.record(rows, _all_outcomes(came))[1]
        for place, one in enumerate(requests):
            if isinstance(one, Outcomes):
                kinds = [fates[name] for name in one.ids]
                found[place] = {kind: kinds.count(kind) for kind in ("counted", "repeated", "conflicting", "early")}
        return found


def _all_outcomes(came: Sequence[Outcomes]) -> Outcomes:
    if not came:
        return NO_OUTCOMES
    ids = [name for one in came for name in one.ids]
    times, values = (np.concatenate([getattr(one, name) for one in came]) for name in ("times", "values"))
    return Outcomes(ids=ids, times=times, values=values)


def _settle(coming: Sequence[asyncio.Future[Any]], results: Sequence[Result | Exception]) -> None:
    for future, result in zip(coming, results, strict=True):
        if future.done():  # its client has gone
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
