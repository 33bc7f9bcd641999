"""Batching: concurrent requests are answered together and stored in one transaction.

Requests that arrive during a commit share the next one. Nothing is acknowledged before its commit is on disk. If a
request of a batch is refused, each is processed alone, so that only the invalid request fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
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
"""Maximum number of requests in a batch."""
AT_ONCE = 1000
"""Maximum rows of a batch processed in the event loop; larger and stored batches are processed in a thread."""

Request = Rows | Outcomes
Result = Answer | dict[str, int] | Exception
FATES = ("counted", "repeated", "conflicting", "early")


class Batcher:
    """Batch processor of requests for predictions and for outcomes; `lock` is held while the watch is used."""

    def __init__(self, service: Service, watch: Watch | None, lock: anyio.Lock) -> None:
        self._service, self._watch, self._lock = service, watch, lock
        self._waiting: list[tuple[Request, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    async def process(self, request: Request) -> Any:
        """Return the answer to rows, or the counts of outcomes, once they are stored."""
        coming: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, coming))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        result = await coming
        if isinstance(result, Exception):
            raise result
        return result

    async def _run(self) -> None:
        await asyncio.sleep(0)  # one batch of all requests until the next turn of the loop
        while self._waiting:
            now = self._next()
            for (_, coming), result in zip(now, await self._results([request for request, _ in now]), strict=True):
                if not coming.done():  # its client has disconnected
                    coming.set_result(result)
            await asyncio.sleep(0)

    def _next(self) -> list[tuple[Request, asyncio.Future[Result]]]:
        """Take the next requests, limited to about the rows of one large request."""
        rows = np.cumsum([len(request) for request, _ in self._waiting[:MOST]])
        count = max(1, int(np.searchsorted(rows, MOST_ROWS, side="right")))
        now, self._waiting = self._waiting[:count], self._waiting[count:]
        return now

    async def _results(self, requests: Sequence[Request]) -> list[Result]:
        try:
            async with self._lock:
                if self._watch is None and sum(map(len, requests)) <= AT_ONCE:
                    return self._together(requests)
                return await to_thread.run_sync(self._together, requests)
        except Exception as error:  # noqa: BLE001
            if isinstance(error, InputError) and not isinstance(error, StoreError) and len(requests) > 1:
                return [(await self._results([request]))[0] for request in requests]
            return [error] * len(requests)  # every caller gets an answer

    def _together(self, requests: Sequence[Request]) -> list[Result]:
        row_requests = [request for request in requests if isinstance(request, Rows)]
        outcomes = [request for request in requests if isinstance(request, Outcomes)]
        batch = self._service.answer(row_requests) if row_requests else None
        answers, fates = iter([] if batch is None else batch.answers), dict[str, str]()
        if self._watch is not None:
            rows = None if batch is None else batch.predicted()
            fates = self._watch.record(rows, _all_outcomes(outcomes))[1]
        return [next(answers) if isinstance(request, Rows) else _counts(request.ids, fates) for request in requests]


def _all_outcomes(requests: Sequence[Outcomes]) -> Outcomes:
    if not requests:
        return NO_OUTCOMES
    ids = [name for request in requests for name in request.ids]
    times, values = (np.concatenate([getattr(request, name) for request in requests]) for name in ("times", "values"))
    return Outcomes(ids=ids, times=times, values=values)


def _counts(ids: Sequence[str], fates: Mapping[str, str]) -> dict[str, int]:
    own = [fates[name] for name in ids]
    return {fate: own.count(fate) for fate in FATES}
