"""A server with a watch: answers are kept before they are sent, outcomes count once, and everybody can ask."""

import sqlite3
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.store import Watch
from tests.serving.models import CLASSES, client, features, labels, predictor


def probabilities(rows: int, seed: int = 0) -> Any:
    return fc.softmax(2 * features(rows, seed=seed)[:, :3])


def started(path: Path, rule: fc.Predictor, **about: Any) -> Watch:
    return Watch.start(path, rule, limits_of(rule), **about)


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
    with started(tmp_path / "w.db", predictor()) as watch:
        with pytest.raises(InputError, match="is bound to another predictor"):
            client(predictor(alpha=0.3), watch=watch)
        watch.close()
        with pytest.raises(InputError, match="is closed"):
            client(predictor(), watch=watch)


def test_what_cannot_be_kept_is_a_503_and_may_be_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "SECONDS", 0.05)
    rule = predictor()
    with started(tmp_path / "w.db", rule) as watch:
        asking = client(rule, watch=watch)
        sent = {"probabilities": probabilities(2).tolist(), "ids": ["p", "q"]}
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


def test_others_read_while_the_server_writes(tmp_path: Path) -> None:
    rule, done = predictor(), list[bool]()

    def read() -> None:
        for _ in range(5):
            with Watch.open(tmp_path / "w.db") as other:
                whole = other.status().streams[0]
                done.append(whole.known % 3 == whole.waiting % 3 == 0)

    with started(tmp_path / "w.db", rule) as watch:
        asking, reader = client(rule, watch=watch), threading.Thread(target=read)
        reader.start()
        for k in range(20):
            ids = [f"{k}-{i}" for i in range(3)]
            asking.post("/predict", json={"probabilities": probabilities(3, seed=k).tolist(), "ids": ids})
            asking.post("/outcomes", json={"ids": ids, "labels": ["benign"] * 3})
        reader.join()
        assert watch.whole().known == 60
    assert done == [True] * 5
