"""The server: POST /predict returns prediction sets, POST /outcomes records true labels.

Small requests are answered in batches; larger bodies are decoded in a thread, so that they do not block other requests.
A refused request is a 4xx with one line of JSON, {"error": ...}; bodies and tokens are never logged.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import msgspec
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
from fedconformal.serving.bodies import JSON, Answer, read_outcomes, read_rows
from fedconformal.serving.guard import RefusedError, check_caller, read_body
from fedconformal.serving.metrics import CONTENT_TYPE, Metrics
from fedconformal.serving.onnx import OnnxModel
from fedconformal.serving.service import Service

AT_ONCE = 2**12
"""Maximum size of a body that is decoded in the event loop."""
MOST_ACTIVE = 1000
"""Maximum number of concurrent requests; others are refused with a 503."""
TOO_MANY = "too many requests are being answered; send it again later"
CLOSE = {"Connection": "close"}
"""The rest of the body is not read."""

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Access token, and limits on the size of a body in bytes and on the time to receive it in seconds."""

    token: bytes | None = field(default=None, repr=False)
    max_body: int = 16 * 2**20
    seconds: float = 30.0


class Server:
    """Request handlers and their shared state."""

    def __init__(self, service: Service, settings: Settings, watch: Watch | None) -> None:
        self.service, self.settings, self.watch = service, settings, watch
        about = {"predictor": service.digest, "status": service.certificate.status}
        self.metrics = Metrics({**about, "alpha": f"{service.certificate.alpha:g}"}, watched=watch is not None)
        self._threads = anyio.CapacityLimiter(os.cpu_count() or 1)
        self._storing = anyio.Lock()
        self._batcher = Batcher(service, watch, self._storing)
        self._active = 0

    def guarded(self, handler: Handler) -> Handler:
        """Wrap a handler with access control, a limit on active requests, errors as JSON, and metrics."""

        async def call(request: Request) -> Response:
            start, self._active = time.perf_counter(), self._active + 1
            try:
                check_caller(request, self.settings.token)
                response = await handler(request) if self._active <= MOST_ACTIVE else _refusal(503, TOO_MANY)
            except RefusedError as refused:
                headers = {401: {"WWW-Authenticate": "Bearer"}, 413: CLOSE, 408: CLOSE}
                response = _refusal(refused.status, refused.reason, headers.get(refused.status))
            except StoreError as error:
                response = _refusal(503, str(error))
            except InputError as error:
                response = _refusal(409 if error.code == "known-id" else 400, str(error))
            finally:
                self._active -= 1
            self.metrics.answered(request.scope["path"], response.status_code, time.perf_counter() - start)
            return response

        return call

    async def predict(self, request: Request) -> Response:
        """Return the sets of rows."""
        body = await self._body(request)
        small = len(body) <= AT_ONCE
        rows = read_rows(body) if small else await self._in_thread(lambda: read_rows(body))
        answer: Answer = await self._batcher.process(rows)
        data = msgspec.json.encode(answer) if small else await self._in_thread(lambda: msgspec.json.encode(answer))
        self.metrics.sets(answer)
        return Response(data, media_type=JSON)

    async def outcomes(self, request: Request) -> Response:
        """Record the true labels of rows that were answered before."""
        body = await self._body(request)
        if self.watch is None:
            raise RefusedError(404, "this server keeps no outcomes; start it with a monitor")
        counts = await self._batcher.process(self.service.outcomes(read_outcomes(body)))
        self.metrics.outcomes(counts)
        return _json(counts)

    async def _body(self, request: Request) -> bytes:
        """Read a body; refuse content types that a foreign web page can set."""
        found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if found != JSON:
            raise RefusedError(415, f"the content type is {found or 'missing'}; send {JSON}")
        return await read_body(request, self.settings.max_body, self.settings.seconds)

    async def health(self, _: Request) -> Response:
        """Report that the process is alive."""
        return _json({"alive": True})

    async def ready(self, _: Request) -> Response:
        """Report that predictor and model are loaded, with the warnings of every answer."""
        return _json({"ready": True, "predictor": self.service.digest, "warnings": self.service.warnings()})

    async def numbers(self, _: Request) -> Response:
        """Return the metrics."""
        whole = None
        if self.watch is not None:
            async with self._storing:
                whole = await self._in_thread(self.watch.whole)
        return Response(self.metrics.text(whole), media_type=CONTENT_TYPE)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._threads)


def make_app(
    predictor: Predictor,
    *,
    model: OnnxModel | None = None,
    settings: Settings | None = None,
    watch: Watch | None = None,
) -> Starlette:
    """Return the ASGI app, for any ASGI server; `fedconformal serve` runs it under uvicorn.

    Without a token the app answers only requests whose host is this machine.
    """
    service = Service(predictor, model)
    if watch is not None:
        watch.check_for(service.digest)
    server = Server(service, settings or Settings(), watch)
    routes: dict[str, tuple[str, Handler]] = {
        "/predict": ("POST", server.predict),
        "/outcomes": ("POST", server.outcomes),
        "/health": ("GET", server.health),
        "/ready": ("GET", server.ready),
        "/metrics": ("GET", server.numbers),
    }
    app = Starlette(
        routes=[Route(path, server.guarded(handler), methods=[verb]) for path, (verb, handler) in routes.items()],
        exception_handlers={HTTPException: _failure, Exception: _failure},
    )
    app.state.watch = watch
    return app


def _json(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(content), status, headers, JSON)


def _refusal(status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    return _json({"error": reason}, status, headers)


async def _failure(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return _refusal(500, "the server failed at this request; see its log")
    headers = dict(error.headers or {})
    words = {404: "there is no such path; use POST /predict", 405: f"this path takes {headers.get('Allow')}"}
    return _refusal(error.status_code, words.get(error.status_code, "the request cannot be answered"), headers)
