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
    watch: Annotated[
        Path | None, typer.Option(metavar="WATCH", help="The watch that keeps answers and takes outcomes (.db).")
    ] = None,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log every request: address, path, status.")] = False,
    json: Json = False,
) -> None:
    """Serve sets and p-values over HTTP: POST /predict."""
    rule = load_predictor(predictor)
    if rule.certificate.intervals or rule.certificate.risk is not None:
        raise InputError(f"{predictor}: is a predictor of another kind; give one of sets")
    with requires_extra("serve"):
        import uvicorn

        from fedconformal.serving.app import Settings, make_app
        from fedconformal.serving.guard import HERE, LimitedProtocol, read_token
    token = read_token(token_file)
    if token is None and host not in HERE:
        raise InputError(f"--host {host} admits other machines, which needs a token; give it with --token-file")
    app = make_app(
        rule,
        model=None if onnx is None else open_model(onnx),
        settings=Settings(token=token),
        watch=None if watch is None else Watch.open(watch),
    )
    listening = _listen(host, port)
    url = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
    facts: dict[str, object] = {"url": url, "predictor": str(predictor), "model": rule.certificate.provenance.model}
    facts |= {"token": token is not None, "watch": None if watch is None else str(watch)}
    print_result(facts, f"serving on {url}; stop it with Ctrl-C", rule.sentence(), json=json)
    for name in ("uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers = logger.handlers
    config = uvicorn.Config(
        app,
        access_log=access_log,
        log_config=None,
        log_level=logging.INFO if access_log else logger.getEffectiveLevel(),
        lifespan="off",
        ws="none",
        server_header=False,
        http=LimitedProtocol,
        timeout_graceful_shutdown=30,
    )
    with app.state.watch or nullcontext():
        uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    """Open the port, before any output."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(f"cannot listen on {host} port {port} ({error.strerror}); choose another --port") from None
