"""Connections whose request does not arrive: headers are limited in time and size.

A connection without a whole request costs nobody anything but a file descriptor, for some seconds. Beyond a number of
such connections the oldest one is closed, so that those who send half a request shut out only each other.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SECONDS = 10.0
"""In which the headers of a request have to arrive."""
MOST_BYTES = 2**16
"""Of the headers of a request."""
MOST_WAITING = 500


class LimitedProtocol(HttpToolsProtocol):
    """HTTP as uvicorn speaks it, with limits on headers."""

    _waiting: ClassVar[dict[LimitedProtocol, asyncio.TimerHandle]] = {}
    _received = 0

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Parse data; between two requests, wait for headers again."""
        if getattr(self.cycle, "response_complete", True):
            self._wait()
        self._received += len(data)
        super().data_received(data)
        if self in self._waiting and self._received > MOST_BYTES:
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Stop to wait."""
        self._arrived()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._arrived()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self not in self._waiting:
            self._received = 0
            self._waiting[self] = self.loop.call_later(SECONDS, self.transport.close)
            if len(self._waiting) > MOST_WAITING:
                oldest = next(iter(self._waiting))
                oldest._arrived()
                oldest.transport.close()

    def _arrived(self) -> None:
        timer = self._waiting.pop(self, None)
        if timer is not None:
            timer.cancel()
