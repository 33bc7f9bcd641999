"""Requests that are half sent: nobody else waits for them, and they end."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
import uvicorn

from fedconformal.serving import guard
from fedconformal.serving.app import Settings, make_app
from fedconformal.serving.guard import LimitedProtocol
from tests.serving.models import TOKEN, predictor

HALF = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server over a real socket, with small limits."""
    monkeypatch.setattr(guard, "HEADER_SECONDS", 1.0)
    monkeypatch.setattr(guard, "MOST_WAITING", 20)
    app = make_app(predictor(), settings=Settings(token=TOKEN))
    server = uvicorn.Server(uvicorn.Config(app, http=LimitedProtocol, lifespan="off", ws="none", log_level="error"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join()


def answered(port: int) -> int:
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", "/health")
        return connection.getresponse().status


def ends(connection: socket.socket) -> bool:
    """Whether the server closes a connection."""
    connection.settimeout(20)
    with contextlib.suppress(ConnectionError):
        return connection.recv(100) == b""
    return True


def test_half_sent_requests_shut_nobody_out_and_end(port: int) -> None:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(60)]
        for connection in held:
            with contextlib.suppress(ConnectionError):  # the oldest are closed already
                connection.sendall(HALF)
        assert answered(port) == 200
        start = time.monotonic()
        assert all(ends(connection) for connection in held)
        assert time.monotonic() - start < 15
    assert answered(port) == 200


def test_long_headers_are_refused(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HALF)
        with contextlib.suppress(ConnectionError):
            for _ in range(40):
                connection.sendall(b"X-More: " + b"x" * 4000 + b"\r\n")
        assert ends(connection)
    assert answered(port) == 200
