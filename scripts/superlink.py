"""The same apps on Flower's own engines: a simulation on a SuperLink of our own, or a deployment that is there.

Everything we start listens on loopback only, keeps its files in a temporary directory, and ends with us.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedconformal.engines.flower.in_process import App
from fedconformal.errors import InputError
from fedconformal.training.data import Progress

LOOPBACK = "127.0.0.1"
START_SECONDS = 90.0
PATIENCE = 10.0
PROMPT = {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25"}
"""Seconds; the program that starts apps looks every second by default."""
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}
NO_INSTALLING = "--disable-runtime-dependency-installation"
"""Without it a SuperLink tries to install what the app depends on."""

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def simulate(app: App, nodes: int, progress: Progress | None = None) -> None:
    """Run an app on Flower's simulation engine, on a SuperLink that is started for it and ended after it."""
    try:
        import ray  # noqa: F401
    except ImportError:
        raise InputError("the simulation engine needs Ray: pip install 'fedconformal[simulation]'") from None
    with tempfile.TemporaryDirectory(prefix="fedconformal-") as folder:
        home, port = Path(folder), free_port()
        link = [
            *(program("flower-superlink"), "--insecure", "--simulation", NO_INSTALLING),
            *("--host", LOOPBACK, "--port", str(port), "--database", str(home / "state.db")),
        ]
        settings = {
            "insecure": True,
            "options.num-supernodes": nodes,
            "options.backend.client-resources.num-cpus": 1,
            "options.backend.init-args.num-cpus": min(2, os.cpu_count() or 1),
        }
        with exit_on_signals(), running(link, home, log=home / "superlink.log") as process:
            wait_for_port(port, process, home / "superlink.log")
            run_app(app, f"{LOOPBACK}:{port}", settings, home, progress)


def deploy(app: App, superlink: str, certificate: Path | None, progress: Progress | None = None) -> None:
    """Run an app on a deployment; with a CA's certificate over TLS, without one in plain text."""
    settings: dict[str, Any] = {"insecure": True}
    if certificate is not None:
        if not certificate.is_file():
            raise InputError(f"{certificate}: is no file; give the path of the CA's certificate")
        settings = {"root-certificates": str(certificate.resolve())}
    with exit_on_signals(), tempfile.TemporaryDirectory(prefix="fedconformal-") as folder:
        run_app(app, superlink, settings, Path(folder), progress)


def forget_result(output: Path) -> Path:
    """Return where a run writes its result, where none is left of an earlier run."""
    result = output / "result.json"
    try:
        result.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{result}: cannot be replaced ({error.strerror}); choose another output") from None
    return result


def run_app(app: App, address: str, settings: Mapping[str, Any], home: Path, progress: Progress | None = None) -> None:
    """Hand an app to a SuperLink and follow it to its end; it has succeeded if it has written its result."""
    result = forget_result(Path(str(app.config["output"])))
    write_connection(home, "link", {"address": address, **settings})
    config = " ".join(f"{key}={_toml(value)}" for key, value in app.config.items())
    command = [program("flwr"), "run", str(app.folder.resolve()), "link", "--stream"]
    if config:
        command += ["--run-config", config]
    said: deque[str] = deque(maxlen=200)
    process = subprocess.Popen(  # noqa: S603
        command,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        for line in process.stdout or ():
            said.append(COLOUR.sub("", line).strip())
            if progress is not None and said[-1]:
                progress(0, 1, said[-1][:60])
        process.wait()
    finally:
        end(process)
    if not result.is_file():
        errors = [line for line in said if "Error" in line] or [line for line in said if line] or ["it said nothing"]
        raise InputError(f"the run ended without a result: {errors[-1]}")


def write_connection(home: Path, name: str, settings: Mapping[str, Any]) -> None:
    """Write the file in which `flwr` looks for a SuperLink."""
    lines = [f"[superlink.{name}]", *(f"{key} = {_toml(value)}" for key, value in settings.items())]
    (home / "config.toml").write_text("\n".join(lines) + "\n", "utf-8")


def environment(home: Path) -> dict[str, str]:
    """Return the environment of Flower's programs: a home of their own, our scripts on the path, no telemetry."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return os.environ | QUIET | PROMPT | {"FLWR_HOME": str(home), "PATH": path}


def program(name: str) -> str:
    """Find one of Flower's programs beside our Python, or on the path."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise InputError(f"the program {name} is not installed: pip install 'fedconformal[flower]'")
    return found


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Leave as on an error at SIGTERM, or when the terminal closes, so that what was started ends too."""
    if threading.current_thread() is not threading.main_thread():  # signals come to the main thread only
        yield
        return

    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = {kind: signal.signal(kind, leave) for kind in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@contextmanager
def running(command: list[str], home: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program, with all that it starts, for the length of the block."""
    home.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        process = subprocess.Popen(  # noqa: S603
            command,
            cwd=home,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            end(process, home)


def end(process: subprocess.Popen[Any], home: Path | None = None, patience: float = PATIENCE) -> None:
    """End a program and all that it has started, kindly first; some of it runs in sessions of its own.

    What Ray starts may outlive its parent, and then only the home in its environment says whose it is.
    """
    family = _family(process.pid) | (set() if home is None else _at_home(home))
    for kind in (signal.SIGTERM, signal.SIGKILL):
        for number in family & _processes().keys():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(number[0], kind)
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and family & _processes().keys():
            time.sleep(0.1)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


Process = tuple[int, str]
"""A process's number and when it started, as numbers are used again."""


def _processes() -> dict[Process, int]:
    """Return the processes that run now, each with the number of its parent."""
    listed = subprocess.run(  # noqa: S603
        [shutil.which("ps") or "/bin/ps", "-eo", "pid=,ppid=,stat=,lstart="], capture_output=True, text=True, check=True
    )
    rows = [line.split(maxsplit=3) for line in listed.stdout.splitlines()]
    return {(int(pid), start): int(parent) for pid, parent, state, start in rows if not state.startswith("Z")}


def _family(root: int) -> set[Process]:
    """Return a process and all its descendants."""
    there = _processes()
    found, before = {one for one in there if one[0] == root}, -1
    while len(found) != before:
        before = len(found)
        numbers = {number for number, _ in found}
        found |= {one for one, parent in there.items() if parent in numbers}
    return found


def _at_home(home: Path) -> set[Process]:
    """Return the processes whose Flower has this home; none where there is no /proc."""
    mark, found = f"FLWR_HOME={home}".encode(), set()
    for one in _processes():
        with contextlib.suppress(OSError):  # it is gone, or not ours
            if mark in Path(f"/proc/{one[0]}/environ").read_bytes().split(b"\0"):
                found.add(one)
    return found


def free_port() -> int:
    """Return a port on loopback that nobody uses."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return int(found.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[Any], log: Path, seconds: float = START_SECONDS) -> None:
    """Wait until something listens, but not longer than this, and not if the program has ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as attempt:
            if attempt.connect_ex((LOOPBACK, port)) == 0:
                return
        time.sleep(0.1)
    lines = [line for line in log.read_text("utf-8", errors="replace").splitlines() if line.strip()] or ["no message"]
    raise InputError(f"{Path(process.args[0]).name} did not start: {lines[-1]}")  # type: ignore[arg-type,index]


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
