"""Access control and limits: an access token, the host that was meant, the size and time of headers and bodies.

Without a token only this machine may ask. A browser is on this machine too, and shows pages of strangers: these cannot
send the content types that are accepted, and a name of theirs that leads here is not a host that is accepted.

A connection without a whole request costs a file descriptor for some seconds. Beyond a number of such connections the
oldest is closed, so that clients which send half a request shut out only each other.
"""

from __future__ import annotations

import asyncio
import hmac
import os
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
"""Paths that need no token."""
HEADER_SECONDS, HEADER_BYTES = 10.0, 2**16
"""Time and size of the headers of a request."""
MOST_WAITING = 500
"""Connections without a whole request."""


class RefusedError(Exception):
    """A request that is not answered: its status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


def read_token(path: Path | None) -> bytes | None:
    """Read the token from a file, or from the environment; None if there is neither. It is never shown."""
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
    """Refuse a request without the token; where there is none, one that means another host than this machine."""
    if request.scope["path"] in OPEN:  # not request.url, which holds what the Host header says
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


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Read the body as it comes, and stop at the limit, whatever length was announced, or if it takes too long."""
    announced = request.headers.get("content-length", "0")
    too_long = RefusedError(413, f"the body has more than {most} bytes; send fewer rows at a time")
    if len(announced) > 15 or int(announced if announced.isdecimal() else 0) > most:
        raise too_long
    parts: list[bytes] = []
    held = 0
    try:
        with anyio.fail_after(seconds):
            async for part in request.stream():
                held += len(part)
                if held > most:
                    raise too_long
                parts.append(part)
    except TimeoutError:
        raise RefusedError(408, f"the body did not come within {seconds:g} seconds") from None
    except ClientDisconnect:
        raise RefusedError(400, "the body ended before its end") from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


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
        if self in self._waiting and self._received > HEADER_BYTES:
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
            self._waiting[self] = self.loop.call_later(HEADER_SECONDS, self.transport.close)
            if len(self._waiting) > MOST_WAITING:
                oldest = next(iter(self._waiting))
                oldest._arrived()
                oldest.transport.close()

    def _arrived(self) -> None:
        timer = self._waiting.pop(self, None)
        if timer is not None:
            timer.cancel()
