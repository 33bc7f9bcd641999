"""The server beside what it is made of: bare ONNX Runtime, and the same app that answers with a constant.

python benchmarks/serving.py [--requests 3000] [--rounds 7] [--steady 200000] [--rows 1000000]

Five measurements: one row a request, as a share of the rate of the constant; the same with a watch that stores every
row before it is answered, as a share of the rate without; images for ResNet-14 in batches of 64
beside ONNX Runtime alone; sets of a million rows, compared bit for bit with the library's; and the server's
memory over many requests. Load comes from this machine, over one connection after the other, bounded in count.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from common import HERE, best, interleaved, save, table

import fedconformal as fc
from fedconformal.serving import app as serving
from fedconformal.serving.bodies import JSON
from fedconformal.serving.onnx import OnnxModel

FEATURES, CLASSES, CONNECTIONS, BATCH = 20, 5, 8, 64
BLOCK = 10_000
MANY = 128


def write_linear(path: Path) -> None:
    """Write a model of scikit-learn with 20 features."""
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression

    rows = np.random.default_rng(0).normal(size=(2000, FEATURES)).astype(np.float32)
    fitted = LogisticRegression().fit(rows, rows[:, :CLASSES].argmax(axis=1))
    path.write_bytes(to_onnx(fitted, rows[:1], options={"zipmap": False}).SerializeToString())


def write_resnet(path: Path) -> None:
    """Write ResNet-14 with weights as drawn."""
    import torch

    from fedconformal.training.models import build

    network = build("resnet14", shape=(3, 32, 32), classes=10, seed=1).eval()
    free = {"features": {0: "rows"}, "logits": {0: "rows"}}
    names = {"input_names": ["features"], "output_names": ["logits"], "dynamic_axes": free}
    torch.onnx.export(network, (torch.zeros(2, 3, 32, 32),), str(path), dynamo=False, opset_version=17, **names)


def calibrated(model: OnnxModel, rows: Any) -> fc.Predictor:
    """Calibrate on one site, with labels drawn from the model itself."""
    temperature = 1.0 if model.gives == "logits" else None
    probs = model.probabilities(rows, temperature=temperature)
    rng = np.random.default_rng(1)
    labels = (probs.cumsum(axis=1) > rng.random((len(probs), 1))).argmax(axis=1)
    about = {"score": fc.LAC(), "site": "a", "model": model.fingerprint, "temperature": temperature}
    return fc.calibrate([fc.summarize(probs, labels, kind="exact", **about)], alpha=0.1)


def run_server(kind: str, folder: Path, port: int) -> None:
    """Serve until killed; "constant" is the same app, in which the answer to any body is known."""
    import uvicorn

    name = "resnet" if kind == "resnet" else "linear"
    predictor, model = fc.load(folder / f"{name}.json"), OnnxModel(folder / f"{name}.onnx")
    if kind == "constant":
        from fedconformal.serving.bodies import Rows
        from fedconformal.serving.service import Batch, Service

        known = Service(predictor, model).answer([Rows(form="features", matrix=np.zeros((1, FEATURES)))])
        Service.answer = lambda _, requests: Batch(
            requests=requests, answers=known.answers * len(requests), scores=known.scores, sets=known.sets
        )
    settings, watch = serving.Settings(max_body=64 * 2**20), None
    if kind == "watched":
        from fedconformal.monitoring.limits import limits_of
        from fedconformal.monitoring.store import Watch

        watch = Watch.start(folder / "watch.db", predictor, limits_of(predictor))
    made = serving.make_app(predictor, model=model, settings=settings, watch=watch)
    uvicorn.run(made, port=port, access_log=False, log_level="error", lifespan="off")


@contextmanager
def server(kind: str, folder: Path) -> Iterator[tuple[int, int]]:
    """Start a server in a process of its own; its port and its process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, str(HERE / "serving.py"), "--server", kind, "--folder", str(folder), "--port", str(port)]
    with subprocess.Popen(command) as process:  # noqa: S603
        try:
            while process.poll() is None:
                with socket.socket() as trial:
                    if trial.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield port, process.pid
        finally:
            process.kill()


def request(body: bytes, kind: str = JSON) -> bytes:
    """Write a whole request."""
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def load(port: int, requests: list[bytes], connections: int = CONNECTIONS) -> None:
    """Send requests over a few connections, each when the answer before it is there."""
    pending = iter(requests)

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for data in pending:
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"refused: {head!r}")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
        writer.close()

    await asyncio.gather(*(one() for _ in range(connections)))


def post(connection: HTTPConnection, body: bytes) -> Any:
    """Send a body, and read the answer."""
    connection.request("POST", "/predict", body, {"Content-Type": JSON})
    return json.loads(connection.getresponse().read())


def body_of(rows: Any) -> bytes:
    """Encode rows of features."""
    return json.dumps({"features": rows.reshape(len(rows), -1).tolist()}).encode()


def measure_rate(folder: Path, count: int, rounds: int) -> dict[str, Any]:
    """Time one row a request, beside the constant, in turns."""
    rows = np.random.default_rng(2).normal(size=(count, FEATURES)).round(4).tolist()
    sent = [request(json.dumps({"features": [row]}).encode()) for row in rows]
    with server("linear", folder) as (port, pid), server("constant", folder) as (other, other_pid):
        ways = {"serve": lambda: asyncio.run(load(port, sent)), "constant": lambda: asyncio.run(load(other, sent))}
        interleaved(ways, 1)  # to warm up
        before = [processor_time(one) for one in (pid, other_pid)]
        fastest = best(interleaved(ways, rounds))
        spent = [processor_time(one) - start for one, start in zip((pid, other_pid), before, strict=True)]
    found: dict[str, Any] = {name: round(count / seconds) for name, seconds in fastest.items()}
    found["ratio"] = round(fastest["constant"] / fastest["serve"], 3)
    each = [round(seconds / count / rounds * 1e6) for seconds in spent]  # less disturbed by other work on the machine
    return {"what": "requests a second", **found, "us each": each, "ratio of these": round(each[1] / each[0], 3)}


def measure_watched(folder: Path, count: int, rounds: int) -> dict[str, Any]:
    """Time one row a request with a durable watch and without, in turns, over many connections."""
    rows = np.random.default_rng(2).normal(size=(count, FEATURES)).round(4).tolist()
    sent = [request(json.dumps({"features": [row]}).encode()) for row in rows]
    with server("linear", folder) as (port, pid), server("watched", folder) as (other, other_pid):
        ways = {
            "without a watch": lambda: asyncio.run(load(port, sent, MANY)),
            "with a watch": lambda: asyncio.run(load(other, sent, MANY)),
        }
        interleaved(ways, 1)  # to warm up
        before = [processor_time(one) for one in (pid, other_pid)]
        times = interleaved(ways, rounds)
        spent = [processor_time(one) - start for one, start in zip((pid, other_pid), before, strict=True)]
    fastest = best(times)
    found: dict[str, Any] = {name: round(count / seconds) for name, seconds in fastest.items()}
    pairs = [one / other for one, other in zip(*times.values(), strict=True)]
    return {
        "what": f"requests a second, {MANY} connections",
        **found,
        "ratio": round(fastest["without a watch"] / fastest["with a watch"], 3),
        "median of the rounds' ratios": round(float(np.median(pairs)), 3),
        "us each": [round(seconds / count / rounds * 1e6) for seconds in spent],
    }


def processor_time(pid: int) -> float:
    """Return the seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_images(folder: Path, rounds: int) -> dict[str, Any]:
    """Time batches of 64 images through the server, beside ONNX Runtime alone, with one thread and with its default."""
    rows = np.random.default_rng(3).normal(size=(BATCH, 3, 32, 32)).astype(np.float32)
    body, path = body_of(rows), str(folder / "resnet.onnx")
    single = onnxruntime.SessionOptions()
    single.intra_op_num_threads = 1
    bare = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    alone = onnxruntime.InferenceSession(path, single, providers=["CPUExecutionProvider"])
    with server("resnet", folder) as (port, _):
        connection = HTTPConnection("127.0.0.1", port)
        ways = {
            "serve": lambda: post(connection, body),
            "bare": lambda: bare.run(None, {"features": rows}),
            "bare, one thread": lambda: alone.run(None, {"features": rows}),
        }
        fastest = best(interleaved(ways, rounds * 3))
    found = {name: round(seconds * 1000, 1) for name, seconds in fastest.items()}
    return {"what": "milliseconds a batch", **found, "ratio": round(fastest["serve"] / fastest["bare"], 3)}


def compare_sets(folder: Path, count: int) -> dict[str, Any]:
    """Compare the sets and p-values of many rows with the library's, bit for bit."""
    model, predictor = OnnxModel(folder / "linear.onnx"), fc.load(folder / "linear.json")
    rng, differing = np.random.default_rng(4), 0
    with server("linear", folder) as (port, _):
        connection = HTTPConnection("127.0.0.1", port)
        for start in range(0, count, BLOCK):
            rows = rng.normal(size=(min(BLOCK, count - start), FEATURES)).astype(np.float32)
            found, probs = post(connection, body_of(rows)), model.probabilities(rows)
            sets = [np.flatnonzero(row).tolist() for row in predictor.predict_set(probs)]
            differing += sum(sent != own for sent, own in zip(found["sets"], sets, strict=True))
            differing += int((np.array(found["p_values"]) != predictor.predict_p(probs)).any(axis=1).sum())
    return {"what": "rows that differ", "rows": count, "differing": differing}


def measure_memory(folder: Path, count: int) -> dict[str, Any]:
    """Ask many times, and look at the server's memory after a tenth of the requests and after all."""
    body = json.dumps({"features": np.random.default_rng(5).normal(size=(1, FEATURES)).tolist()}).encode()
    with server("linear", folder) as (port, pid):
        held = []
        for _ in range(10):
            asyncio.run(load(port, [request(body)] * (count // 10)))
            status = Path(f"/proc/{pid}/status").read_text()
            held.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
    return {"what": "MB held", "requests": count, "after a tenth": round(held[0], 1), "after all": round(held[-1], 1)}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steady", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--server", choices=["linear", "constant", "resnet", "watched"])
    parser.add_argument("--only-watch", action="store_true", help="measure the watch alone, and print it")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--port", type=int)
    given = parser.parse_args()
    if given.server is not None:
        run_server(given.server, given.folder, given.port)
        return
    rng = np.random.default_rng(6)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_linear(folder / "linear.onnx")
        if given.only_watch:
            calibrated(OnnxModel(folder / "linear.onnx"), rng.normal(size=(500, FEATURES)).astype(np.float32)).save(
                folder / "linear.json"
            )
            print(measure_watched(folder, given.requests, given.rounds))
            return
        write_resnet(folder / "resnet.onnx")
        for name, shape in (("linear", (500, FEATURES)), ("resnet", (200, 3, 32, 32))):
            rows = rng.normal(size=shape).astype(np.float32)
            calibrated(OnnxModel(folder / f"{name}.onnx"), rows).save(folder / f"{name}.json")
        results = [measure_images(folder, given.rounds), measure_rate(folder, given.requests, given.rounds)]
        results.append(measure_watched(folder, given.requests, given.rounds))
        results.append(compare_sets(folder, given.rows))
        results.append(measure_memory(folder, given.steady))
    for one in results:
        table(list(one), [list(one.values())])
        print()
    save("serving", results)


if __name__ == "__main__":
    main()
