"""Search path of data files, and downloads from a hostile loopback server."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fedconformal.errors import InputError
from fedconformal.training.data import download
from fedconformal.training.data.download import Release, fetch, locate

CONTENT = bytes(range(256)) * 4096
CONNECT = download.connect
"""The real one: other tests have no network."""


class Stranger(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            return
        if self.path == "/missing" or not self.headers["User-Agent"].startswith("fedconformal/"):
            self.send_error(404)
            return
        self.send_response(200)
        if self.path == "/broken":  # promises more than it sends
            self.send_header("Content-Length", str(len(CONTENT) * 2))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Stay silent."""


@pytest.fixture
def server(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server on the loopback interface, without TLS: only the first address may be http."""
    with HTTPServer(("127.0.0.1", 0), Stranger) as stranger:
        thread = threading.Thread(target=stranger.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{stranger.server_port}"
        monkeypatch.setattr(download, "connect", CONNECT)
        yield address
        stranger.shutdown()
        thread.join()


def release(url: str, **changed: Any) -> Release:
    checksum = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    return replace(Release(file="some/file.bin", url=url, most=len(CONTENT), checksum=checksum), **changed)


def leftovers() -> list[Path]:
    return [path for path in download.cache().rglob("*") if path.is_file()]


def test_a_file_is_fetched_once(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, str]] = []
    wanted = release(f"{server}/file")
    found = locate(wanted, download=True, progress=lambda *step: seen.append(step))
    assert found == download.cache() / "some" / "file.bin"
    assert found.read_bytes() == CONTENT
    assert leftovers() == [found]
    assert seen[-1] == (len(CONTENT), len(CONTENT), "some/file.bin")
    assert [done for done, _, _ in seen] == sorted({done for done, _, _ in seen})
    monkeypatch.setattr(download, "connect", None)
    assert locate(wanted, download=True) == found


def test_md5_is_taken_where_the_publisher_gives_no_other(server: str) -> None:
    md5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    assert fetch(release(f"{server}/file", checksum=f"md5:{md5}")).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("path", "changed", "message"),
    [
        ("/file", {"checksum": f"sha256:{'0' * 64}"}, "does not have the official sha256; not used"),
        ("/file", {"most": len(CONTENT) - 1}, "has more than 1048575 bytes"),
        ("/broken", {"most": 2 * len(CONTENT), "checksum": f"md5:{'0' * 32}"}, "not used|cannot be downloaded"),
        ("/missing", {}, r"cannot be downloaded \(Not Found\); get it elsewhere and put it in "),
        ("/moved", {}, "redirected away from https"),
    ],
)
def test_what_is_wrong_leaves_no_file_behind(server: str, path: str, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        fetch(release(server + path, **changed))
    assert "\n" not in str(caught.value)
    assert leftovers() == []


def test_an_interruption_leaves_no_file_behind(server: str) -> None:
    def interrupt(done: int, total: int, text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(release(f"{server}/file"), progress=interrupt)
    assert leftovers() == []


def test_of_two_names_the_first_wins_but_not_over_an_earlier_directory(place: Path) -> None:
    download.cache().mkdir(parents=True)
    (download.cache() / "first").touch()
    assert download.find("first", "second") == download.cache() / "first"
    (place / "second").touch()
    assert download.find("first", "second") == place / "second"
    assert download.find("third") is None
