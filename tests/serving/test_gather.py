"""Requests at the same moment are answered together, and each as if it were alone."""

from pathlib import Path
from typing import Any

import pytest

from fedconformal.serving.onnx import OnnxModel
from fedconformal.serving.service import Service
from tests.serving.models import client, features, predictor, write_model


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many requests each call of the service was for."""
    seen: list[int] = []
    original = Service.answers

    def counted(self: Service, requests: Any) -> Any:
        seen.append(len(requests))
        return original(self, requests)

    monkeypatch.setattr(Service, "answers", counted)
    return seen


def bodies() -> list[Any]:
    rows = features(200, seed=6).tolist()
    return [
        {"features": rows[2 * i : 2 * i + 1 + i % 2], "ids": [f"{i}-{j}" for j in range(1 + i % 2)]} for i in range(90)
    ]


def test_together_is_as_alone(tmp_path: Path, calls: list[int]) -> None:
    model = OnnxModel(write_model(tmp_path / "m.onnx"))
    asking = client(predictor(model), model=model)
    together = [reply.json() for reply in asking.post_all("/predict", bodies())]
    assert calls == [64, 26]
    assert together == [asking.post("/predict", json=body).json() for body in bodies()]


def test_only_the_bad_request_fails(tmp_path: Path) -> None:
    model = OnnxModel(write_model(tmp_path / "m.onnx"))
    asking, sent = client(predictor(model), model=model), bodies()[:20]
    good = [reply.json() for reply in asking.post_all("/predict", sent)]
    bad = [{"features": [[1.0, 2.0]]}, {"features": [[1e300] * 4]}, {"probabilities": [[1, 0, 0]]}, {"columns": []}]
    mixed = [*sent[:7], *bad, *sent[7:]]
    replies = asking.post_all("/predict", mixed)
    assert [reply.status_code for reply in replies] == [200] * 7 + [400] * 4 + [200] * 13
    assert [reply.json() for reply in replies if reply.status_code == 200] == good
    assert "row 0 holds a value that is not finite" in replies[8].json()["error"]


def test_probabilities_and_logits_are_checked_request_by_request() -> None:
    sent = [{"logits": [[3.0, -1.0, 0.0]]}, {"logits": [[0.5, 0.25, 0.25]]}, {"probabilities": [[0.5, 0.25, 0.25]]}]
    replies = client().post_all("/predict", sent)
    assert [reply.status_code for reply in replies] == [200, 400, 200]


def test_a_fault_of_the_server_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(Service, "answers", broken)
    with pytest.raises(RuntimeError, match="the log says why"):  # which the ASGI server sees, after the client's 500
        client().post("/predict", json={"probabilities": [[0.5, 0.25, 0.25]]})
    assert "broken" in caplog.text
