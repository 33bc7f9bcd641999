"""Who may ask and how much; what is hostile is refused with one line."""

import asyncio
import contextlib
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.datastructures import URL
from starlette.requests import Request

from fedconformal.errors import InputError
from fedconformal.serving import app as app_module
from fedconformal.serving import guard
from fedconformal.serving.app import Settings, make_app
from fedconformal.serving.bodies import JSON
from fedconformal.serving.guard import LimitedProtocol, RefusedError, read_body, read_token
from tests.serving.models import TOKEN, client, predictor

GOOD = {"probabilities": [[0.5, 0.25, 0.25]]}
BEARER = {"Authorization": f"Bearer {TOKEN.decode()}"}


def refused(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.text
    (reason,) = answer.json().values()
    assert "\n" not in reason
    assert len(reason) < 400
    return str(reason)


@pytest.mark.parametrize(
    ("path", "header"),
    [("/metrics", "Bearer wrong"), ("/predict", "Basic ?"), ("/outcomes", "Bearer \xe9"), ("/predict", "")],
)
def test_without_the_token_nothing_is_answered(path: str, header: str) -> None:
    sent = {"Authorization": header.encode("latin-1")} if header else {}
    answer = client(token=TOKEN).request("GET" if path == "/metrics" else "POST", path, headers=sent)
    assert "access token" in refused(answer, 401)
    assert TOKEN.decode() not in answer.text


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("path", ["/metrics", "/predict"])
def test_the_host_header_does_not_choose_the_path(path: str, old: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if old:  # Starlette before 1.0.1 takes the header as it is (CVE-2026-48710)
        url = property(lambda request: URL(f"http://{request.headers['host']}{request.scope['path']}"))
        monkeypatch.setattr(Request, "url", url)
    verb = "GET" if path == "/metrics" else "POST"
    answer = client(token=TOKEN).request(verb, path, headers={"Host": "x/health?"})
    assert "access token" in refused(answer, 401)


def test_with_the_token_all_is_answered_and_health_without() -> None:
    asking = client(token=TOKEN)
    assert asking.post("/predict", json=GOOD, headers=BEARER).status_code == 200
    assert asking.get("/health").status_code == asking.get("/ready").status_code == 200


def test_tokens_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDCONFORMAL_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("FEDCONFORMAL_TOKEN", TOKEN.decode())
    assert read_token(None) == TOKEN
    assert TOKEN.decode() not in repr(Settings(token=TOKEN))
    file = tmp_path / "token"
    file.write_bytes(TOKEN[::-1] + b"\n")
    assert read_token(file) == TOKEN[::-1]
    for bad in (b"short", b"two words that are long", b""):
        file.write_bytes(bad)
        with pytest.raises(InputError, match="holds no token") as error:
            read_token(file)
        assert not bad or bad.decode() not in str(error.value)


def test_without_a_token_only_this_machine_is_answered() -> None:
    asking = client()
    for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example"):
        assert "only this machine" in refused(asking.post("/predict", json=GOOD, headers={"Host": host}), 403)
    for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:9", "[::1]:8000", "[::1]"):
        assert asking.post("/predict", json=GOOD, headers={"Host": host}).status_code == 200


def test_what_a_form_on_a_web_page_can_send_is_refused() -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = client().post("/predict", content=json.dumps(GOOD), headers={"Content-Type": kind})
        assert "the content type is" in refused(answer, 415)


def test_a_body_is_limited_with_and_without_its_length() -> None:
    asking, headers = client(max_body=1000), {"Content-Type": JSON}
    for body in ({"content": b" " * 2000}, {"pieces": [b" " * 100] * 20}):
        answer = asking.post("/predict", headers=headers, **body)
        assert "more than 1000 bytes" in refused(answer, 413)
        assert answer.headers["connection"] == "close"


def test_a_body_has_to_come_in_time_and_to_its_end() -> None:
    body, headers = json.dumps(GOOD).encode(), {"Content-Type": JSON}
    pieces = [body[:9], body[9:]]
    slow = client(seconds=0.05).post("/predict", pieces=pieces, headers=headers, wait=0.04)
    assert "did not come in time" in refused(slow, 408)
    assert client().post("/predict", pieces=pieces, headers=headers).status_code == 200

    async def leave() -> dict[str, str]:
        return {"type": "http.disconnect"}

    with pytest.raises(RefusedError, match="is incomplete"):
        asyncio.run(read_body(Request({"type": "http", "headers": []}, leave), 1000, 1.0))


HOSTILE: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "cannot be read"),
    "not UTF-8": (b'{"ids": ["\xff\xfe"], "probabilities": [[1]]}', "cannot be read"),
    "no rows": (b'{"probabilities": []}', "has no rows"),
    "two kinds": (b'{"probabilities": [[1]], "logits": [[1]]}', "probabilities and logits"),
    "unknown field": (b'{"probs": [[1]]}', "field `probs`; the fields are columns, ids, site, groups, prob"),
    "deep": (b'{"probabilities": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", "cannot be read"),
    "deep objects": (b'{"a":' * 100_000, "cannot be read"),
    "NaN": (b'{"probabilities": [[NaN, 0.5, 0.5]]}', "cannot be read"),
    "text": (b'{"probabilities": [["0.5", 0.25, 0.25]]}', "cannot be read"),
    "infinite": (b'{"probabilities": [[1e999, 0.5, 0.5]]}', "cannot be read"),
    "huge": (b'{"probabilities": [[1e300, 0, 0]]}', "not finite"),
    "many digits": (b'{"probabilities": [[' + b"9" * 5000 + b", 0, 0]]}", "read"),
    "negative": (b'{"probabilities": [[1.5, -0.25, -0.25]]}', "negative entry"),
    "ragged": (b'{"probabilities": [[0.5, 0.25, 0.25], [0.5, 0.5]]}', "row 1 has 2 numbers"),
    "two classes": (b'{"probabilities": [[0.5, 0.5]]}', "expected one for each of 3 classes"),
    "wrong names": (b'{"probabilities": [[0.5, 0.25, 0.25]], "columns": ["a", "b", "c"]}', "no column for the class"),
    "too few ids": (b'{"probabilities": [[0.5, 0.25, 0.25]], "ids": ["a", "b"]}', "2 values"),
    "an id twice": (b'{"probabilities": [[1, 0, 0], [1, 0, 0]], "ids": ["a", "a"]}', "same id"),
    "long id": (b'{"probabilities": [[1, 0, 0]], "ids": ["' + b"a" * 1000 + b'"]}', "cannot be read"),
    "an id for terminals": (b'{"probabilities": [[1, 0, 0]], "ids": ["\\u001b[2J"]}', "cannot be printed"),
    "features": (b'{"features": [[1, 2, 3, 4]]}', "this server has no model"),
    "no logits": (b'{"logits": [[0.5, 0.25, 0.25]]}', "a distribution already"),
}


def test_hostile_json_is_refused_with_a_reason() -> None:
    asking = client()
    for name, (body, reason) in HOSTILE.items():
        assert reason in refused(asking.post("/predict", content=body, headers={"Content-Type": JSON}), 400), name


def test_many_rows_or_numbers_are_refused_before_they_take_memory() -> None:
    many = {"probabilities": [[0.5, 0.25, 0.25]] * 10_001}
    assert "has 10001 rows" in refused(client().post("/predict", json=many), 400)
    for body in (b"[1]," * 4_000_000, b"1," * 7_000_000):
        tracemalloc.start()
        answer = client().post("/predict", content=b'{"probabilities": [' + body, headers={"Content-Type": JSON})
        assert tracemalloc.get_traced_memory()[1] < 100e6
        tracemalloc.stop()
        assert "too many values" in refused(answer, 400)


def test_other_paths_and_methods_are_errors_in_json() -> None:
    for verb, path, status in (("GET", "/predict", 405), ("GET", "/none", 404)):
        error = refused(client().request(verb, path), status)
        assert path != "/predict" or "this path takes POST" in error


HALF = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"
NO_BODY = HALF + b"Content-Length: 1000\r\n\r\n"
SLOW = HALF + f"Content-Type: {JSON}\r\nAuthorization: Bearer {TOKEN.decode()}\r\n".encode() + NO_BODY[len(HALF) :]
ANSWERED = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server over a real socket, with small limits."""
    monkeypatch.setattr(guard, "HEADER_SECONDS", 1.0)
    monkeypatch.setattr(guard, "MOST_WAITING", 20)
    monkeypatch.setattr(guard, "MOST_READING", 20)
    monkeypatch.setattr(app_module, "MOST_ACTIVE", 40)
    app = make_app(predictor(), settings=Settings(token=TOKEN, seconds=3.0))
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


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not closed a connection so far."""
    connection.setblocking(False)
    try:
        while connection.recv(2000):
            pass
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def ends(connection: socket.socket) -> bool:
    """Whether the server closes a connection, possibly after an answer."""
    connection.settimeout(20)
    with contextlib.suppress(ConnectionError):
        while connection.recv(1000):
            pass
    return True


@pytest.mark.parametrize("data", [HALF, NO_BODY, SLOW, ANSWERED], ids=["headers", "body", "slow body", "idle"])
def test_half_sent_and_refused_requests_shut_nobody_out_and_end(port: int, data: bytes) -> None:
    with contextlib.ExitStack() as stack:
        held = []
        for _ in range(60):
            held.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
            held[-1].sendall(data)
            assert data in (HALF, SLOW) or b"401" in held[-1].recv(2000)
        assert answered(port) == 200
        time.sleep(0.5)
        assert sum(map(is_open, held)) <= 20  # the others hold no descriptor
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
