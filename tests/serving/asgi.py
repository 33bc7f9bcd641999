"""A client of an ASGI app in this process: no network, and bodies that come in pieces if wanted."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx


class Client:
    def __init__(self, app: Any) -> None:
        self.app = app

    def get(self, path: str, **about: Any) -> httpx.Response:
        return self.request("GET", path, **about)

    def post(self, path: str, **about: Any) -> httpx.Response:
        return self.request("POST", path, **about)

    def request(
        self, verb: str, path: str, *, pieces: Iterable[bytes] = (), wait: float = 0.0, **about: Any
    ) -> httpx.Response:
        """Ask; pieces of a body come without its length, each after `wait` seconds."""

        async def body() -> AsyncIterator[bytes]:
            for piece in pieces:
                await asyncio.sleep(wait)
                yield piece

        return self._all([{"method": verb, "url": path, **({"content": body()} if pieces else {}), **about}])[0]

    def post_all(self, path: str, bodies: Iterable[Any]) -> list[httpx.Response]:
        """Ask with many bodies of JSON at the same moment."""
        return self._all([{"method": "POST", "url": path, "json": body} for body in bodies])

    def _all(self, requests: list[dict[str, Any]]) -> list[httpx.Response]:
        async def ask() -> list[httpx.Response]:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
                return await asyncio.gather(*(client.request(**one) for one in requests))

        return asyncio.run(ask())
