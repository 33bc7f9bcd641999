"""A client of an ASGI app in this process: no network, and bodies that come in pieces if wanted."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reply:
    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.content)
        return found


class Client:
    def __init__(self, app: Any) -> None:
        self.app = app

    def get(self, path: str, **about: Any) -> Reply:
        return self.request("GET", path, **about)

    def post(self, path: str, **about: Any) -> Reply:
        return self.request("POST", path, **about)

    def request(
        self,
        verb: str,
        path: str,
        *,
        content: bytes | str | Iterable[bytes] = b"",
        headers: dict[str, Any] | None = None,
        wait: float = 0.0,
        **body: Any,
    ) -> Reply:
        """Ask; `json=` is a body of JSON, and a body that is no bytes comes in pieces, without its length.

        Each piece comes after `wait` seconds.
        """
        sent = {"host": "localhost:8000", **{key.lower(): value for key, value in (headers or {}).items()}}
        if "json" in body:
            content, sent["content-type"] = json.dumps(body["json"]), "application/json"
        data = content.encode() if isinstance(content, str) else content
        parts = [data] if isinstance(data, bytes) else list(data)
        if isinstance(data, bytes):
            sent.setdefault("content-length", str(len(data)))
        return asyncio.run(self._ask(verb, path, sent, parts, wait))

    def post_all(self, path: str, bodies: Iterable[Any]) -> list[Reply]:
        """Ask with many bodies of JSON at the same moment."""
        about = {"host": "localhost", "content-type": "application/json"}

        async def ask() -> list[Reply]:
            sent = (self._ask("POST", path, about, [json.dumps(body).encode()]) for body in bodies)
            return await asyncio.gather(*sent)

        return asyncio.run(ask())

    async def _ask(self, verb: str, path: str, headers: dict[str, Any], parts: list[bytes], wait: float = 0.0) -> Reply:
        coming = [
            {"type": "http.request", "body": part, "more_body": i + 1 < len(parts)} for i, part in enumerate(parts)
        ]
        got: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(wait)
            return coming.pop(0) if coming else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            got.append(message)

        pairs = [(k.encode(), v if isinstance(v, bytes) else v.encode()) for k, v in headers.items()]
        about = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": verb, "path": path}
        scope = {**about, "raw_path": path.encode(), "query_string": b"", "headers": pairs, "scheme": "http"}
        await self.app({**scope, "server": ("localhost", 8000), "client": ("localhost", 1)}, receive, send)
        body = b"".join(message.get("body", b"") for message in got)
        return Reply(got[0]["status"], {key.decode(): value.decode() for key, value in got[0]["headers"]}, body)
