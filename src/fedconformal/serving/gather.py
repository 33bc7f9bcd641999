"""Requests that come at the same moment are answered together: most of the time of one row goes into calls.

A row gets the same bits in any company, so this changes no answer. Nobody waits for others: what has come by the next
turn of the event loop goes together. If one request is refused, each is answered alone, and only that one fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fedconformal.errors import InputError
from fedconformal.serving.bodies import Answer, Rows
from fedconformal.serving.service import Service

MOST = 64
"""Requests that are answered in one go, so that the loop turns in between."""


class Gatherer:
    """Collects requests until the event loop turns."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: list[tuple[Rows, asyncio.Future[Answer]]] = []

    async def answer(self, rows: Rows) -> Answer:
        """Answer rows, with those of other requests."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._flush)
        coming: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((rows, coming))
        return await coming

    def _flush(self) -> None:
        now, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        try:
            for (_, coming), one in zip(now, self._answers([rows for rows, _ in now]), strict=True):
                if coming.done():  # its client has gone
                    continue
                if isinstance(one, Answer):
                    coming.set_result(one)
                else:
                    coming.set_exception(one)
        finally:  # a fault of the server goes to the loop, which logs it; nobody is left waiting
            for _, coming in now:
                if not coming.done():
                    coming.set_exception(RuntimeError("the answer was not made; the log says why"))

    def _answers(self, requests: list[Rows]) -> Sequence[Answer | InputError]:
        try:
            return self._service.answers(requests)
        except InputError as error:
            return [error] if len(requests) == 1 else [self._answers([rows])[0] for rows in requests]
