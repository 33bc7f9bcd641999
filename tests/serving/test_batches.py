"""Requests at the same moment are answered and stored together, each as if it were alone, and outcomes count once."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.serving.onnx import OnnxModel
from fedconformal.serving.service import Service
from tests.monitoring.watches import started
from tests.serving.asgi import Client
from tests.serving.models import CLASSES, client, features, labels, predictor, write_model


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of requests in each call of the service."""
    seen: list[int] = []
    original = Service.answer

    def counted(self: Service, requests: Any) -> Any:
        seen.append(len(requests))
        return original(self, requests)

    monkeypatch.setattr(Service, "answer", counted)
    return seen


def bodies() -> list[Any]:
    rows = features(200, seed=6).tolist()
    return [
        {"features": rows[2 * i : 2 * i + 1 + i % 2], "ids": [f"{i}-{j}" for j in range(1 + i % 2)]} for i in range(90)
    ]


def with_model(folder: Path) -> Client:
    model = OnnxModel(write_model(folder / "m.onnx"))
    return client(predictor(model), model=model)


def test_together_is_as_alone(tmp_path: Path, calls: list[int]) -> None:
    asking = with_model(tmp_path)
    together = [reply.json() for reply in asking.post_all("/predict", bodies())]
    assert calls == [64, 26]
    assert together == [asking.post("/predict", json=body).json() for body in bodies()]


def test_only_the_bad_request_fails(tmp_path: Path) -> None:
    asking, sent = with_model(tmp_path), bodies()[:20]
    good = [reply.json() for reply in asking.post_all("/predict", sent)]
    bad = [{"features": [[1.0, 2.0]]}, {"features": [[1e300] * 4]}, {"probabilities": [[1, 0, 0]]}, {"columns": []}]
    mixed = [*sent[:7], *bad, *sent[7:]]
    replies = asking.post_all("/predict", mixed)
    assert [reply.status_code for reply in replies] == [200] * 7 + [400] * 4 + [200] * 13
    assert [reply.json() for reply in replies if reply.status_code == 200] == good
    assert "row 0 holds a value that is not finite" in replies[8].json()["error"]


def test_a_fault_of_the_server_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(Service, "answer", broken)
    with pytest.raises(RuntimeError, match="broken"):  # which the ASGI server logs, after the client's 500
        client().post("/predict", json={"probabilities": [[0.5, 0.25, 0.25]]})


def test_a_batch_is_stored_in_one_transaction_and_answered_after_it(tmp_path: Path) -> None:
    """Requests at the same moment share commits; each has its own counts, and a refused one refuses no other."""
    rule, commits = predictor(), list[str]()
    rows = fc.softmax(features(90, seed=6)[:, :3]).tolist()
    with started(tmp_path / "w.db", rule) as watch:
        watch._connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)
        asking = client(rule, watch=watch)
        sent: list[Any] = [{"probabilities": [row], "ids": [f"p{i}"]} for i, row in enumerate(rows)]
        sent[3]["groups"] = {"sex": ["F"]}
        replies = asking.post_all("/predict", sent)
        assert [reply.status_code for reply in replies] == [200] * 90
        assert len(commits) <= 4
        assert (watch.whole().waiting, watch.status().counts.rows) == (90, 90)
        came: list[Any] = [{"ids": [f"p{i}"], "labels": ["benign"]} for i in range(40)]
        came += [came[0], {"ids": ["z"], "labels": ["no"]}]
        counted = [reply.json() for reply in asking.post_all("/outcomes", came)]
        assert counted[:40] == [{"counted": 1, "repeated": 0, "conflicting": 0, "early": 0}] * 40
        assert counted[40]["repeated"] == 1
        assert "error" in counted[41]
        assert watch.whole().known == 40


def test_a_repeated_request_gets_the_same_answer_and_another_row_a_409(tmp_path: Path) -> None:
    rule = predictor()
    sent = {"probabilities": fc.softmax(features(3)[:, :3]).tolist(), "ids": ["p", "q", "r"], "site": "a"}
    with started(tmp_path / "w.db", rule) as watch:
        asking = client(rule, watch=watch)
        first = asking.post("/predict", json=sent)
        asking.post("/outcomes", json={"ids": ["q"], "labels": ["benign"]})
        again = asking.post("/predict", json=sent)
        assert (again.status_code, again.content) == (200, first.content)
        together = asking.post_all("/predict", [sent, sent])
        assert [reply.content for reply in together] == [first.content] * 2
        assert watch.whole().known + watch.whole().waiting == 3
        more = {**sent, "probabilities": [*sent["probabilities"], [1, 0, 0]], "ids": ["p", "q", "r", "new"]}
        assert asking.post("/predict", json=more).status_code == 200
        for other in ({**sent, "site": "b"}, {**sent, "ids": ["q", "p", "r"]}):
            refused = asking.post("/predict", json=other)
            assert (refused.status_code, "already, for another row" in refused.json()["error"]) == (409, True)
        assert watch.whole().known + watch.whole().waiting == 4


def test_answers_and_outcomes_reach_the_watch(tmp_path: Path) -> None:
    rule, rows = predictor(), features(60, seed=5)
    probs, truth = fc.softmax(2 * rows[:, :3]), labels(rows)
    with started(tmp_path / "w.db", rule) as watch:
        asking = client(rule, watch=watch)
        ids = [f"scan-{k}" for k in range(60)]
        sent = {"probabilities": probs.tolist(), "ids": ids, "site": "a", "groups": {"sex": ["F", "M"] * 30}}
        assert asking.post("/predict", json=sent).status_code == 200
        came = {"ids": ids[:50], "labels": [CLASSES[label] for label in truth[:50]]}
        first = asking.post("/outcomes", json=came).json()
        assert first == {"counted": 50, "repeated": 0, "conflicting": 0, "early": 0}
        assert asking.post("/outcomes", json=came).json()["repeated"] == 50
        assert asking.post("/outcomes", json={"ids": ["new"], "labels": ["unsure"]}).json()["early"] == 1
        missed = ~rule.predict_set(probs)[np.arange(60), truth]
        found = watch.whole()
        assert (found.known, found.misses, found.waiting) == (50, missed[:50].sum(), 10)
        lines = asking.get("/metrics").text.splitlines()
        assert 'fedconformal_outcomes_total{what="counted"} 50.0' in lines
        assert 'fedconformal_outcomes_total{what="repeated"} 50.0' in lines
        assert "fedconformal_watch_known 50.0" in lines
        assert f"fedconformal_watch_log_e_value {found.log_e_value}" in lines


def test_changes_are_noticed_from_what_is_served(tmp_path: Path) -> None:
    rule, rows = predictor(), features(300, seed=2)
    scores = rule.score.evaluate_all(fc.softmax(2 * rows[:, :3]).astype(np.float32))
    with started(tmp_path / "w.db", rule, scores=scores.min(axis=1)) as watch:
        asking = client(rule, watch=watch)
        flat = np.full((200, 3), 1 / 3) + np.random.default_rng(0).normal(scale=0.02, size=(200, 3))
        flat /= flat.sum(axis=1, keepdims=True)
        for some in np.split(flat, 10):
            assert asking.post("/predict", json={"probabilities": some.tolist()}).status_code == 200
        assert watch.status().changed is not None


def test_another_predictor_is_refused(tmp_path: Path) -> None:
    with (
        started(tmp_path / "w.db", predictor()) as watch,
        pytest.raises(InputError, match="is bound to another predictor"),
    ):
        client(predictor(alpha=0.3), watch=watch)


def test_what_cannot_be_kept_is_a_503_and_may_be_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "SECONDS", 0.05)
    rule = predictor()
    with started(tmp_path / "w.db", rule) as watch:
        asking = client(rule, watch=watch)
        sent = {"probabilities": fc.softmax(features(2)[:, :3]).tolist(), "ids": ["p", "q"]}
        other = sqlite3.connect(tmp_path / "w.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for path, body in (("/predict", sent), ("/outcomes", {"ids": ["p"], "labels": ["benign"]})):
            reply = asking.post(path, json=body)
            assert reply.status_code == 503
            assert "in use by another process" in reply.json()["error"]
            assert str(tmp_path) not in reply.text
        other.execute("ROLLBACK")
        other.close()
        assert asking.post("/predict", json=sent).status_code == 200
        assert asking.post("/outcomes", json={"ids": ["p"], "labels": ["benign"]}).json()["counted"] == 1
