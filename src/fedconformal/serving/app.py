"""The server: POST /predict answers with sets, POST /outcomes takes true labels, GET / is a page for people.

Small bodies are answered together with others; larger ones are read in a thread, so that others are answered meanwhile.
A refused request is a 4xx with one line of JSON, {"error": ...}; bodies and tokens are never logged.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio
import msgspec
import numpy as np
from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError, StoreError
from fedconformal.monitoring.store import Watch
from fedconformal.serving.batches import Batcher
from fedconformal.serving.bodies import JSON, SITE, Answer, read_outcomes, read_rows
from fedconformal.serving.guard import RefusedError, check_caller, read_body
from fedconformal.serving.metrics import CONTENT_TYPE, Metrics
from fedconformal.serving.onnx import OnnxModel
from fedconformal.serving.page import POLICY, page
from fedconformal.serving.service import Service

AT_ONCE = 2**12
"""Bytes of a body that is answered in the event loop."""
MOST_ACTIVE = 1000
"""Requests that are answered at a time; more are refused with a 503."""
SECONDS = 30.0
"""In which a body has to come."""

RELOAD_SECONDS = 2.0
"""Between two looks at the files of a service."""

logger = logging.getLogger(__name__)
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What is asked of clients: a token, if there is one, and bodies that are not larger than this many bytes."""

    token: bytes | None = None
    max_body: int = 16 * 2**20
    seconds: float = SECONDS

    def __repr__(self) -> str:
        return f"Settings(token={'none' if self.token is None else 'hidden'}, max_body={self.max_body})"


@dataclass(kw_only=True)
class Reload:
    """Files of a service, and a function that loads it again once they have changed."""

    files: Sequence[Path]
    load: Callable[[], Service]
    seen: list[float] = field(default_factory=list)
    next_look: float = 0.0

    def __post_init__(self) -> None:
        self.seen = self._times()

    def _times(self) -> list[float]:
        return [path.stat().st_mtime if path.exists() else 0.0 for path in self.files]

    def due(self) -> bool:
        """Whether a file has changed since the last look; looks are some seconds apart."""
        now = time.monotonic()
        if now < self.next_look:
            return False
        self.next_look, before = now + RELOAD_SECONDS, self.seen
        self.seen = self._times()
        return self.seen != before


class Server:
    """The handlers, and what they share."""

    def __init__(self, service: Service, settings: Settings, watch: Watch | None, reload: Reload | None = None) -> None:
        self.service, self.settings, self.watch, self._reload = service, settings, watch, reload
        about = {"predictor": service.digest, "status": service.certificate.status}
        self.metrics = Metrics({**about, "alpha": f"{service.certificate.alpha:g}"})
        self._threads = anyio.CapacityLimiter(os.cpu_count() or 1)
        self._storing = anyio.Lock()
        self._batcher = Batcher(lambda: self.service, watch, self._storing)
        self._active = 0

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Count the requests that are being answered, and refuse too many."""
        if self._active >= MOST_ACTIVE:
            raise RefusedError(503, "too many requests are being answered; send it again later")
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    async def refresh(self) -> None:
        """Load changed files; what cannot be loaded leaves the service as it is."""
        if self._reload is None or not self._reload.due():
            return
        try:
            service = await to_thread.run_sync(self._reload.load, limiter=self._threads)
            if self.watch is not None:
                self.watch.check_for(service.digest)
        except InputError as error:
            logger.warning("the changed files are not served: %s", error)
        else:
            self.service = service
            logger.info("serving the predictor %s", service.digest)

    async def predict(self, request: Request) -> Response:
        """Answer rows with sets."""
        body, site = await self._body(request), request.headers.get(SITE)
        if len(body) <= AT_ONCE:
            answer: Answer = await self._batcher.process(read_rows(body, site))
            data = answer.encoded()
        else:
            rows = await to_thread.run_sync(read_rows, body, site, limiter=self._threads)
            if self.watch is None:
                answer = await to_thread.run_sync(self.service.answer, rows, limiter=self._threads)
            else:
                answer = await self._batcher.process(rows)
            data = await to_thread.run_sync(answer.encoded, limiter=self._threads)
        labels = int(np.count_nonzero(answer.sets))
        self.metrics.sets(rows=len(answer.sets), labels=labels, full=answer.about["full_sets"])
        return Response(data, media_type=JSON)

    async def outcomes(self, request: Request) -> Response:
        """Take the true labels of rows that were answered before."""
        body = await self._body(request)
        if self.watch is None:
            raise RefusedError(404, "this server keeps no outcomes; start it with a monitor")
        counts = await self._batcher.process(self.service.outcomes(read_outcomes(body)))
        self.metrics.outcomes(counts)
        return _json(200, counts)

    async def _body(self, request: Request) -> bytes:
        """Read a body; refuse content types that a web page of a stranger can set."""
        found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if found != JSON:
            raise RefusedError(415, f"the content type is {found or 'missing'}; send {JSON}")
        return await read_body(request, self.settings.max_body, self.settings.seconds)

    async def health(self, _: Request) -> Response:
        """Say that the process is alive."""
        return _json(200, {"alive": True})

    async def ready(self, _: Request) -> Response:
        """Say that predictor and model are loaded, and what is to be known of every answer."""
        return _json(200, {"ready": True, "predictor": self.service.digest, "warnings": self.service.warnings()})

    async def numbers(self, _: Request) -> Response:
        """Give the metrics."""
        return Response(self.metrics.text(await self._watched(Watch.whole)), media_type=CONTENT_TYPE)

    async def _watched(self, ask: Callable[[Watch], T]) -> T | None:
        """Ask the watch, if there is one."""
        if self.watch is None:
            return None
        async with self._storing:
            return await to_thread.run_sync(ask, self.watch, limiter=self._threads)

    async def front(self, _: Request) -> Response:
        """Show what is promised and what was answered so far."""
        html = page(self.service, self.metrics, await self._watched(Watch.history))
        return Response(html, media_type="text/html", headers={"Content-Security-Policy": POLICY})


def make_app(
    predictor: Predictor,
    *,
    model: OnnxModel | None = None,
    settings: Settings | None = None,
    watch: Watch | None = None,
    reload: Reload | None = None,
) -> Starlette:
    """Return the ASGI app, for any ASGI server; `fedconformal serve` runs it under uvicorn.

    With `reload`, files that have changed are loaded again. Without a token the app answers only requests that name
    this machine as their host.
    """
    service = Service(predictor, model)
    if watch is not None:
        watch.check_for(service.digest)
    server = Server(service, settings or Settings(), watch, reload)
    routes: dict[str, tuple[str, Handler]] = {
        "/predict": ("POST", server.predict),
        "/outcomes": ("POST", server.outcomes),
        "/health": ("GET", server.health),
        "/ready": ("GET", server.ready),
        "/metrics": ("GET", server.numbers),
        "/": ("GET", server.front),
    }
    made = Starlette(
        routes=[Route(path, _guarded(handler, server), methods=[verb]) for path, (verb, handler) in routes.items()],
        exception_handlers={HTTPException: _http_error, Exception: _internal_error},
    )
    made.state.watch = watch
    return made


def _guarded(handler: Handler, server: Server) -> Handler:
    """Check who asks, turn what is refused into JSON, and count."""

    async def call(request: Request) -> Response:
        start = time.perf_counter()
        try:
            check_caller(request, server.settings.token)
            with server.answering():
                await server.refresh()
                response = await handler(request)
        except RefusedError as refused:
            response = _refusal(refused)
        except StoreError as error:
            response = _json(503, {"error": str(error)})
        except InputError as error:
            response = _json(409 if error.code == "known-id" else 400, {"error": str(error)})
        server.metrics.answered(request.scope["path"], response.status_code, time.perf_counter() - start)
        return response

    return call


def _refusal(refused: RefusedError) -> Response:
    headers = {401: {"WWW-Authenticate": 'Basic realm="fedconformal"'}, 413: CLOSE, 408: CLOSE}
    return _json(refused.status, {"error": refused.reason}, headers.get(refused.status))


CLOSE = {"Connection": "close"}
"""What is left of the body is not read."""


def _json(status: int, content: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, headers, JSON)


async def _http_error(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    words = {404: "there is no such path; POST /predict answers", 405: f"this path takes {headers.get('Allow')}"}
    return _json(status, {"error": words.get(status, "the request cannot be answered")}, headers)


async def _internal_error(_: Request, __: Exception) -> Response:
    return _json(500, {"error": "the server failed at this request; its log says why"})
