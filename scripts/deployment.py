"""A whole deployment on this machine, to try things: TLS, node keys, and sites with a directory of their own each.

Everything listens on loopback and ends with the block in which it was started. As a script: bring it up, train and
calibrate, calibrate again from sums only, and with noise while a node is killed between two steps; take it down.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from flwr.app import Context, RecordDict

from fedconformal._base.files import write_bytes
from fedconformal.calibration.predictor import load
from fedconformal.cli.console import tell
from fedconformal.engines.flower.in_process import App, make_app
from fedconformal.engines.flower.template.task import load_rows
from fedconformal.engines.flower.training import PARTS
from fedconformal.errors import InputError
from fedconformal.training.outputs import npz
from scripts.certs import make_certs
from scripts.superlink import (
    LOOPBACK,
    NO_INSTALLING,
    deploy,
    environment,
    exit_on_signals,
    free_port,
    program,
    running,
    wait_for_port,
    write_connection,
)


class LocalDeployment:
    """A SuperLink and a SuperNode for each site, which can be ended and started one by one.

    Args:
        folder: for certificates, data, logs and state.
        sites: how many.
    """

    def __init__(self, folder: Path, sites: int = 3) -> None:
        self.folder = folder
        self.sites = sites
        self.port = free_port()
        self.keys = folder / "keys"
        self._running: dict[str, contextlib.ExitStack] = {}

    @property
    def address(self) -> str:
        """Address of the SuperLink."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def ca(self) -> Path:
        """The authority's certificate."""
        return self.keys / "ca.crt"

    def __enter__(self) -> LocalDeployment:
        make_certs(self.keys, self.sites)
        try:
            self.start_link()
            write_connection(self._operator(), "link", {"address": self.address, "root-certificates": str(self.ca)})
            with ThreadPoolExecutor() as pool:
                list(pool.map(self.register, range(self.sites)))
            for site in range(self.sites):
                self.write_rows(site)
                self.start_node(site)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in reversed(list(self._running)):
            self.stop(name)

    def start_link(self) -> None:
        """Start the SuperLink; its state outlives it."""
        command = [
            *(program("flower-superlink"), "--enable-supernode-auth", NO_INSTALLING),
            *("--ssl-ca-certfile", str(self.ca), "--ssl-certfile", str(self.keys / "server.pem")),
            *("--ssl-keyfile", str(self.keys / "server.key"), "--database", str(self.folder / "state.db")),
            *("--host", LOOPBACK, "--port", str(self.port)),
        ]
        process = self._start("link", command)
        wait_for_port(self.port, process, self.log("link"))

    def register(self, site: int) -> None:
        """Make a node's key known to the SuperLink, bound to the site's name."""
        key = str(self.keys / f"node-{site}.pub")
        done = subprocess.run(  # noqa: S603
            [program("flwr"), "supernode", "register", key, "link", "--name", f"site-{site}"],
            env=environment(self._operator()),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = " ".join((done.stdout + done.stderr).split())
            raise InputError(f"node {site} cannot be registered: {said[-200:]}")

    def write_rows(self, site: int) -> None:
        """Give a site its rows, in a directory that nobody else may read."""
        config: dict[str, Any] = {"partition-id": site, "num-partitions": self.sites}
        context = Context(run_id=0, node_id=0, node_config=config, state=RecordDict(), run_config={})
        found: dict[str, Any] = {}
        for part in PARTS:
            rows = load_rows(context, part)
            found |= {f"{part}_x": rows.x.numpy(), f"{part}_y": rows.y.numpy()}
        folder = self.data(site)
        folder.mkdir(mode=0o700)
        write_bytes(folder / "rows.npz", npz(found))

    def data(self, site: int) -> Path:
        """Return a site's own directory."""
        return self.folder / f"site-{site}"

    def start_node(self, site: int) -> None:
        """Start the SuperNode of a site, with its own key and the authority's certificate."""
        own = "--root-certificates", str(self.ca), "--auth-supernode-private-key", str(self.keys / f"node-{site}")
        folder = self.data(site)
        settings = {
            "partition-id": site,
            "num-partitions": self.sites,
            "data": f'"{folder}"',
            "predictor": f'"{folder / "predictor.json"}"',
        }
        command = [
            *(program("flower-supernode"), "--superlink", self.address, *own),
            *("--node-config", " ".join(f"{key}={value}" for key, value in settings.items())),
            *("--host", LOOPBACK, "--port", str(free_port())),
        ]
        self._start(f"node-{site}", command)

    def stop(self, name: str) -> None:
        """End one program, with all that it has started."""
        self._running.pop(name).close()

    def stop_after_reply(self, site: int, message_type: str) -> None:
        """End the SuperNode of a site once it has answered one more message of this type."""
        mark, log = f"Sending: {message_type} message", self.log(f"node-{site}")
        before = log.read_text("utf-8", errors="replace").count(mark)
        while "Sent successfully" not in "".join(log.read_text("utf-8", errors="replace").split(mark)[before + 1 :]):
            time.sleep(0.1)
        self.stop(f"node-{site}")

    def log(self, name: str) -> Path:
        """Return the file with what a program has said."""
        return self.folder / f"{name}.log"

    def _operator(self) -> Path:
        """Return the home of the operator, who registers nodes."""
        home = self.folder / "operator"
        home.mkdir(exist_ok=True)
        return home

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        stack = contextlib.ExitStack()
        self._running[name] = stack
        home = self.folder / f"home-{name}"
        return stack.enter_context(running(command, home, self.log(name)))


def main() -> None:
    """Run it all in a temporary directory, except for what comes out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--output", type=Path, default=Path("fedconformal-deployment"))
    options = parser.parse_args()
    with exit_on_signals(), tempfile.TemporaryDirectory(prefix="fedconformal-") as folder:
        app = Path(folder) / "app"
        make_app(app)
        tell(f"starting a SuperLink and {options.sites} SuperNodes ...")
        with LocalDeployment(Path(folder), options.sites) as deployment:

            def calibrate(name: str, **settings: Any) -> None:
                tell(f"{name} ...")
                output = (options.output / name).resolve()
                overrides = {key.replace("_", "-"): value for key, value in settings.items()}
                deploy(App.read(app, {**overrides, "output": str(output)}), deployment.address, deployment.ca)
                tell(load(output / "predictor.json").sentence())

            saved = str((options.output / "plain" / "model.npz").resolve())
            sums: dict[str, Any] = {"from_stage": "calibrate", "saved_model": saved, "privacy": "sums"}
            calibrate("plain", rounds=options.rounds, min_sites=options.sites)
            calibrate("sums", min_sites=options.sites, **sums)
            lost = options.sites - 1
            threading.Thread(target=deployment.stop_after_reply, args=(lost, "query.calibrate"), daemon=True).start()
            tell(f"site-{lost} is killed as soon as it has joined")
            calibrate("noise", min_sites=lost, epsilon=options.epsilon, **sums)


if __name__ == "__main__":
    main()
