"""Access control and limits: access token, requested host, size and time of headers and bodies.

Without a token only requests to this machine are answered. A browser on this machine may show foreign pages: these
cannot send the accepted content types, and a foreign name that resolves to this machine is not an accepted host.

A connection without a request, with an incomplete one, or after an answer holds a file descriptor for some seconds.
Beyond a number of such connections, or of incomplete bodies, the oldest is closed: they affect only each other.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar

import anyio
from starlette.requests import ClientDisconnect, Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fedconformal._base.files import read_bytes
from fedconformal.errors import InputError, prefix_errors

HERE = {"127.0.0.1", "localhost", "::1"}
LEAST_TOKEN = 16
VARIABLE = "FEDCONFORMAL_TOKEN"
OPEN = {"/health", "/ready"}
"""Paths without access control."""
HEADER_SECONDS, HEADER_BYTES = 10.0, 2**16
"""Limits on time and size of the headers of a request."""
MOST_WAITING, MOST_READING = 500, 500
"""Maximum numbers of connections on which no request is being answered, and of bodies on their way."""


class RefusedError(Exception):
    """Raised for a refused request, with HTTP status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def read_token(path: Path | None) -> bytes | None:
    """Read the token from a file or the environment; None without either. It is never displayed."""
    if path is None:
        given = os.environ.get(VARIABLE)
        return None if given is None else _checked(given.encode(), f"the variable {VARIABLE}")
    with prefix_errors(path):
        return _checked(read_bytes(path), "the file")


def _checked(given: bytes, where: str) -> bytes:
    token = given.strip()
    if len(token) < LEAST_TOKEN or not token.isascii() or len(token.split()) != 1:
        raise InputError(f"{where} holds no token; write one line of at least {LEAST_TOKEN} letters and digits")
    return token


def check_caller(request: Request, token: bytes | None) -> None:
    """Refuse a request without the token; if no token is set, refuse a request to another host."""
    if request.scope["path"] in OPEN:  # not request.url, which contains the Host header
        return
    if token is None:
        host = request.headers.get("host", "").lower()
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name.strip("[]") not in HERE:
            raise RefusedError(403, "without a token only this machine is answered, by the name localhost or 127.0.0.1")
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token):
        raise RefusedError(401, "the access token is missing or wrong; send it as Authorization: Bearer TOKEN")


reading = OrderedDict[anyio.CancelScope, None]()
"""Bodies on their way, in order of arrival."""


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Read the body up to the limits of size, whatever length was announced, and time."""
    announced = request.headers.get("content-length", "0")
    too_long = RefusedError(413, f"the body has more than {most} bytes; send fewer rows at a time")
    if len(announced) > 15 or int(announced if announced.isdecimal() else 0) > most:
        raise too_long
    body = bytearray()
    try:
        with anyio.fail_after(seconds) as scope:
            reading[scope] = None
            if len(reading) > MOST_READING:
                reading.popitem(last=False)[0].deadline = -math.inf
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_long
    except TimeoutError:
        raise RefusedError(408, f"the body did not come in time, {seconds:g} seconds at most") from None
    except ClientDisconnect:
        raise RefusedError(400, "the body is incomplete") from None
    finally:
        reading.pop(scope, None)
    return bytes(body)


class LimitedProtocol(HttpToolsProtocol):
    """Uvicorn's HTTP protocol, with limits on headers."""

    _waiting: ClassVar[dict[LimitedProtocol, asyncio.TimerHandle]] = {}
    _received = 0

    def connection_made(self, transport: Any) -> None:
        """Start the timer for headers."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Parse data; close a connection with too many bytes between two requests."""
        self._received += len(data)
        super().data_received(data)
        if self in self._waiting and self._received > HEADER_BYTES:
            self.transport.close()

    def on_headers_complete(self) -> None:
        """Stop the timer for headers."""
        self._arrived()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Restart the timer, also while the body of a refused request is still on its way."""
        super().on_response_complete()
        if self.cycle.response_complete and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._arrived()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self not in self._waiting:
            self._received = 0
            self._waiting[self] = self.loop.call_later(HEADER_SECONDS, self.transport.close)
            if len(self._waiting) > MOST_WAITING:
                oldest = next(iter(self._waiting))
                oldest._arrived()
                oldest.transport.close()

    def _arrived(self) -> None:
        timer = self._waiting.pop(self, None)
        if timer is not None:
            timer.cancel()
