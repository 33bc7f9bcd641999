"""fedconformal serve: answer requests with prediction sets, beside the model."""

from __future__ import annotations

import logging
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli.console import logger, print_result
from fedconformal.cli.options import Json, load_predictor
from fedconformal.cli.rows import Onnx, open_model
from fedconformal.errors import InputError, requires_extra
from fedconformal.monitoring.store import Watch

MEGABYTE = 10**6
GRACE = 30
"""Seconds that requests under way have to end, once the server is asked to stop."""


def serve(
    predictor: Annotated[Path, typer.Argument(help="The predictor (.json).")],
    onnx: Onnx = None,
    host: Annotated[str, typer.Option(help="The address to listen on; others than this machine's need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the access token.", show_default="the variable FEDCONFORMAL_TOKEN")
    ] = None,
    max_body: Annotated[float, typer.Option(metavar="MB", help="The largest body, in megabytes.")] = 16.0,
    monitor: Annotated[
        Path | None, typer.Option(metavar="WATCH", help="The watch that keeps answers and takes outcomes (.db).")
    ] = None,
    json: Json = False,
) -> None:
    """Answer POST /predict with sets, p-values and the certificate's sentence, until it is stopped."""
    rule = load_predictor(predictor)
    if rule.certificate.intervals or rule.certificate.risk is not None:
        raise InputError(f"{predictor}: is a predictor of another kind; give one of sets")
    with requires_extra("serve"):
        import uvicorn

        from fedconformal.serving.app import Settings, make_app
        from fedconformal.serving.connections import LimitedProtocol
        from fedconformal.serving.guard import HERE, read_token
    if not 0 < max_body <= 1000:
        raise InputError(f"--max-body is {max_body:g}, expected megabytes, more than 0 and at most 1000")
    token = read_token(token_file)
    if token is None and host not in HERE:
        raise InputError(f"--host {host} lets other machines ask, which needs a token; give it with --token-file")
    settings = Settings(token=token, max_body=int(max_body * MEGABYTE))
    watch = None if monitor is None else Watch.open(monitor)
    app = make_app(rule, model=None if onnx is None else open_model(onnx), settings=settings, watch=watch)
    listening = _listen(host, port)
    bound = listening.getsockname()[1]
    url = f"http://{f'[{host}]' if ':' in host else host}:{bound}"
    logging.getLogger("uvicorn.error").handlers = logger.handlers
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        log_level=logger.getEffectiveLevel(),
        lifespan="off",
        ws="none",
        server_header=False,
        http=LimitedProtocol,
        timeout_graceful_shutdown=GRACE,
    )
    facts = {
        "url": url,
        "predictor": str(predictor),
        "model": rule.certificate.provenance.model,
        "token": token is not None,
    }
    facts["monitor"] = None if monitor is None else str(monitor)
    print_result(facts, f"serving on {url}; stop it with Ctrl-C", rule.certificate.sentence(), json=json)
    with nullcontext() if watch is None else watch:
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Open the port before anything is said."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"cannot listen on {host} port {port} ({error.strerror}); choose another --port") from None
