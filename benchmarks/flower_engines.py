"""Cost of a round on each of Flower's engines: in one process, in simulation, and on a deployment on loopback.

    PYTHONPATH=. python benchmarks/flower_engines.py [--page]

Three sites train for some rounds by adding one to an array of 64 x 128 numbers, so that what is measured is everything
else: messages, polling, processes. The deployment has TLS, node keys, and a new client process for every message.
The table goes into docs/flower.md; `--page` writes it there again from the saved results, without measuring.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import HERE, RESULTS, save, table

from fedconformal._base.files import write_bytes
from fedconformal.engines.flower.in_process import App, run_in_process
from scripts.deployment import LocalDeployment
from scripts.superlink import deploy, exit_on_signals, simulate

NODES = 3
ROUNDS = {"in process": 50, "simulation": 20, "deployment": 5}
NAME = "flower_engines"
PAGE = HERE.parent / "docs" / "flower.md"
HEAD = ["engine", "seconds a round", "seconds to start and end"]
START, END = "<!-- engines -->", "<!-- /engines -->"
TEXT = """## What a round costs

Three sites with almost no work, so that messages, polling and processes remain (`benchmarks/flower_engines.py`,
version {version}):
"""

PYPROJECT = """
[project]
name = "rounds"
version = "1.0.0"

[tool.flwr.app]
publisher = "rounds"

[tool.flwr.app.components]
serverapp = "rounds.server_app:app"
clientapp = "rounds.client_app:app"

[tool.flwr.app.config]
rounds = 1
nodes = 1
output = ""
"""
CLIENT = """
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict, Message
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(msg, context):
    arrays = {name: Array(array.numpy() + 1) for name, array in msg.content["arrays"].items()}
    metrics = MetricRecord({"num-examples": 1, "loss": 0.0})
    return Message(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}), reply_to=msg)
"""
SERVER = """
import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from fedconformal.engines.flower import Federation

app = ServerApp()

@app.main()
def main(grid, context):
    config = context.run_config
    federation = Federation(grid, min_sites=config["nodes"])
    federation.wait(120)
    model = ArrayRecord({"w": Array(np.zeros((64, 128), np.float32))})
    start = time.perf_counter()
    FedAvg(fraction_evaluate=0.0).start(grid, model, num_rounds=config["rounds"])
    found = {"seconds": time.perf_counter() - start}
    (Path(config["output"]) / "result.json").write_text(json.dumps(found))
"""


def make_app(folder: Path, rounds: int) -> App:
    """Write the app, and read it with its settings."""
    (folder / "rounds").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PYPROJECT)
    for name, text in (("__init__", ""), ("client_app", CLIENT), ("server_app", SERVER)):
        (folder / "rounds" / f"{name}.py").write_text(text)
    return App.read(folder, {"rounds": rounds, "nodes": NODES, "output": str(folder)})


def in_process(app: App) -> None:
    """Run in this process."""
    client, server = app.load()
    run_in_process(server, client, NODES, run_config=app.config)


def in_simulation(app: App) -> None:
    """Run on a SuperLink of its own, with Ray."""
    simulate(app, NODES)


def on_deployment(app: App) -> None:
    """Bring up a SuperLink and SuperNodes, and run on them."""
    with tempfile.TemporaryDirectory() as folder, LocalDeployment(Path(folder), NODES) as deployment:
        deploy(app, deployment.address, deployment.ca)


ENGINES: dict[str, Callable[[App], None]] = {
    "in process": in_process,
    "simulation": in_simulation,
    "deployment": on_deployment,
}


def measure(engine: str) -> dict[str, float]:
    """Run some rounds, and tell what one takes, and all that is not rounds."""
    with tempfile.TemporaryDirectory() as folder:
        app = make_app(Path(folder) / "app", ROUNDS[engine])
        start = time.perf_counter()
        ENGINES[engine](app)
        whole = time.perf_counter() - start
        rounds = float(json.loads((app.folder / "result.json").read_bytes())["seconds"])
    return {"rounds": ROUNDS[engine], "round": rounds / ROUNDS[engine], "rest": whole - rounds}


def rows(results: dict[str, Any]) -> list[list[Any]]:
    """Return the rows of the table."""
    return [[name, found["round"], found["rest"]] for name, found in results.items()]


def write_page() -> None:
    """Put the table of the saved results into the page."""
    saved = json.loads((RESULTS / f"{NAME}.json").read_bytes())
    lines = [TEXT.format(version=saved["versions"]["fedconformal"]), f"| {' | '.join(HEAD)} |", "|---|---:|---:|"]
    lines += [f"| {name} | {a:.2g} | {b:.2g} |" for name, a, b in rows(saved["results"])]
    text = PAGE.read_text("utf-8")
    before, rest = text.split(START)
    after = rest.split(END)[1]
    page = "\n".join([before + START, *lines, END + after])
    write_bytes(PAGE, page.encode())


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true")
    if not parser.parse_args().page:
        with exit_on_signals():
            results = {engine: measure(engine) for engine in ENGINES}
        table(HEAD, rows(results))
        save(NAME, results)
    write_page()


if __name__ == "__main__":
    main()
