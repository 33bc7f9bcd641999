"""From features to a server, by commands: one ONNX session scores the calibration rows and the requests."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.files import write_bytes
from fedconformal.serving.onnx import OnnxModel
from tests.cli.command import Command
from tests.serving.models import CLASSES, TOKEN, features, labels, write_model

ONNX = ("--onnx", "model.onnx", "--from", "features")
SUMMARIZE = ("summarize", "rows.csv", "--id", "patient", "--labels", "truth", "--classes", ",".join(CLASSES), "-o")


@pytest.fixture
def site(here: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> Path:
    """A model, calibration rows as CSV with ids and labels, and the predictor made from them."""
    monkeypatch.delenv("FEDCONFORMAL_TOKEN", raising=False)
    write_model(here / "model.onnx")
    rows = features(200, seed=2)
    truth = [CLASSES[label] for label in labels(rows)]
    cells = [",".join([f"p{i}", *map(repr, row.tolist()), truth[i]]) for i, row in enumerate(rows)]
    Path("rows.csv").write_text("patient,a,b,c,d,truth\n" + "\n".join(cells) + "\n")
    command.ok(*SUMMARIZE, "site.fcs", *ONNX)
    command.ok("calibrate", "site.fcs", "--alpha", "0.2", "-o", "predictor.json")
    return here


def test_one_session_scores_calibration_rows_and_new_rows(site: Path, command: Command) -> None:
    model, rows = OnnxModel("model.onnx"), features(200, seed=2)
    truth = np.array(CLASSES)[labels(rows)]
    about: dict[str, Any] = {"site": "site", "model": model.fingerprint, "classes": CLASSES, "alpha": 0.1}
    assert Path("site.fcs").read_bytes() == fc.summarize(model.probabilities(rows), truth, **about).to_bytes()
    new = features(60, seed=8)
    np.save("new.npy", new)
    command.ok("predict", "predictor.json", "new.npy", *ONNX, "-o", "sets.npy")
    rule = fc.load("predictor.json")
    assert np.array_equal(np.load("sets.npy"), rule.predict_set(model.probabilities(new)))
    done = command.ok("evaluate", "predictor.json", "rows.csv", *ONNX, "--labels", "truth", "--id", "patient", "--json")
    assert done.json["overall"]["coverage"] == rule.evaluate(model.probabilities(rows), truth).coverage


SCORES: list[tuple[tuple[str, ...], str]] = [
    (("--from", "features"), "go together"),
    ((*ONNX, "--model", "m"), "its own fingerprint"),
    ((*ONNX, "--temperature", "2"), "temperature is for logits"),
    (("--onnx", "model.onnx:logits", "--from", "features"), "gives probabilities already, not logits; pass gives="),
]
LISTENS: list[tuple[tuple[str, ...], str]] = [
    ((), "calibrated for an ONNX model; give that model too (--onnx)"),
    (("--onnx", "model.onnx", "--host", "192.0.2.1"), "needs a token; give it with --token-file"),
    (("--onnx", "model.onnx", "--token-file", "none"), "cannot be read"),
    (("--onnx", "model.onnx", "--host", "256.1.1.1", "--token-file", "token"), "cannot listen"),
]


def test_slips(site: Path, command: Command) -> None:
    for given, problem in SCORES:
        command.refuses(problem, *SUMMARIZE, "c.fcs", *given)
    write_bytes(Path("token"), TOKEN, private=True)
    for arguments, problem in LISTENS:
        command.refuses(problem, "serve", "predictor.json", *arguments)


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Start a server on a free port; what it printed."""
    command = [sys.executable, "-m", "fedconformal", "serve", "predictor.json", "--port", "0", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            lines = ""
            for line in process.stdout:
                lines += line
                if line == "}\n":
                    break
            yield process, json.loads(lines)
        finally:
            process.kill()


def ask(url: str, path: str, body: Any = None, token: bytes | None = None) -> tuple[int, dict[str, Any]]:
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token.decode()}"
    with closing(HTTPConnection(url.removeprefix("http://"), timeout=20)) as connection:
        connection.request("GET" if body is None else "POST", path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


@pytest.mark.engine
def test_a_server_answers_and_stops(site: Path, command: Command) -> None:
    """Kills are in tests/monitoring/test_kill.py and tests/serving/test_batches.py."""
    write_bytes(Path("token"), TOKEN, private=True)
    command.ok("monitor", "start", "watch.db", "predictor.json")
    rows, ids = features(3, seed=8), ["p", "q", "r"]
    body = {"features": rows.tolist(), "ids": ids}
    with running("--onnx", "model.onnx", "--token-file", "token", "--watch", "watch.db") as (process, said):
        assert (said["token"], said["watch"]) == (True, "watch.db")
        assert TOKEN.decode() not in json.dumps(said)
        assert ask(said["url"], "/health") == (200, {"alive": True})
        assert ask(said["url"], "/predict", body)[0] == 401
        _, found = ask(said["url"], "/predict", body, TOKEN)
        sets = fc.load("predictor.json").predict_set(OnnxModel("model.onnx").probabilities(rows))
        assert found["sets"] == [[CLASSES[label] for label in np.flatnonzero(row)] for row in sets]
        came = {"ids": ids[:2], "labels": [CLASSES[label] for label in labels(rows)[:2]]}
        assert ask(said["url"], "/outcomes", came, TOKEN)[1]["counted"] == 2
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
    assert process.returncode in (0, -signal.SIGTERM)
    assert (out, err) == ("", "")
    (whole,) = command("monitor", "status", "watch.db", "--json").json["streams"]
    assert (whole["known"], whole["waiting"]) == (2, 1)


@pytest.mark.engine
def test_what_is_under_way_is_answered_before_the_end(site: Path) -> None:
    body = json.dumps({"features": features(3, seed=8).tolist()}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with running("--onnx", "model.onnx") as (process, said):
        host, port = said["url"].removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + body[:20])
            assert ask(said["url"], "/health")[0] == 200  # and so the head is read
            process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=0.5)
            connection.sendall(body[20:])
            answer = connection.makefile("rb").read()
        process.wait(timeout=20)
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["sets"]) == 3


def test_a_missing_extra_is_one_line(site: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    needs = "this needs uvicorn: pip install 'fedconformal[serve]'"
    command.refuses(needs, "serve", "predictor.json", "--onnx", "model.onnx")
