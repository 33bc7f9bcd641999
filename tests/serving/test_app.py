"""Answers of the server: the library's own sets, with names, ids and the sentence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base.registry import members
from fedconformal.serving.bodies import Rows
from fedconformal.serving.onnx import OnnxModel
from fedconformal.serving.service import Service
from tests.contracts.tools import changed
from tests.monitoring.watches import started
from tests.serving.models import CLASSES, client, features, labels, predictor, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> OnnxModel:
    return OnnxModel(write_model(tmp_path_factory.mktemp("model") / "model.onnx"))


def probabilities(rows: int) -> Any:
    return np.random.default_rng(5).dirichlet([1.0, 1.0, 1.0], size=rows)


def named(sets: Any) -> list[list[str]]:
    return [[CLASSES[label] for label in np.flatnonzero(row)] for row in sets]


def test_json_answers_are_the_librarys() -> None:
    rule, probs = predictor(), probabilities(50)
    answer = client(rule).post("/predict", json={"probabilities": probs.tolist(), "ids": [f"r{i}" for i in range(50)]})
    found = answer.json()
    assert answer.status_code == 200
    assert found["sets"] == named(rule.predict_set(probs))
    assert found["p_values"] == rule.predict_p(probs).tolist()
    assert found["classes"] == CLASSES
    assert found["ids"][49] == "r49"
    assert found["sentence"] == rule.sentence()
    assert found["predictor"] == json.loads(rule.to_bytes())["sha256"]
    assert found["warnings"] == []


@pytest.mark.parametrize("score", [one for cls in members(fc.Score).values() for one in cls.examples()], ids=str)
@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_sets_are_those_of_predict_set_for_every_score(score: fc.Score, by_class: bool) -> None:
    given = features(300, seed=2)
    about: dict[str, Any] = {"score": score, "by_class": by_class, "classes": CLASSES}
    site = fc.summarize(fc.softmax(2 * given[:, :3]), np.array(CLASSES)[labels(given)], kind="exact", **about)
    guarantee = fc.ByClass(fc.Mixture()) if by_class else fc.Mixture()
    rule = fc.calibrate([site], alpha=0.2, guarantee=guarantee)
    probs = np.concatenate([fc.softmax(2 * given[:, :3]), np.eye(3), np.full((1, 3), 1 / 3)])  # rows of the site tie
    batch = Service(rule).answer([Rows(form="probabilities", matrix=probs)])
    assert np.array_equal(batch.sets, rule.predict_set(probs))
    assert batch.answers[0].sets == named(batch.sets)
    assert np.array_equal(batch.answers[0].p_values, rule.predict_p(probs))


@pytest.mark.filterwarnings("ignore::fedconformal.errors.ClassCountsWarning")
def test_a_predictor_by_group_takes_the_groups_of_each_request() -> None:
    given, sex = features(400, seed=2), np.array(["F", "M"] * 200)
    scores = fc.LAC().evaluate(fc.softmax((1 + 2 * (sex == "F"))[:, None] * given[:, :3]), labels(given))
    site = fc.Summary.of_scores(scores, kind="exact", score=fc.LAC(), site="a", groups={"sex": sex})
    rule = fc.calibrate([site], alpha=0.2, guarantee=fc.ByGroup())
    asking, probs = client(rule), probabilities(40)
    sent = [{"probabilities": [row], "groups": {"sex": [sex[i]]}} for i, row in enumerate(probs.tolist())]
    replies = [reply.json()["sets"][0] for reply in asking.post_all("/predict", sent)]
    expected = rule.predict_set(probs, groups={"sex": sex[:40]})
    assert replies == [np.flatnonzero(row).tolist() for row in expected]
    without = asking.post("/predict", json={"probabilities": probs[:1].tolist()})
    assert without.json()["error"] == "groups: the predictor needs the columns sex of every row, got none"


@pytest.mark.parametrize("rows", [1, 400])
@pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")
def test_each_site_has_its_own_threshold(rows: int) -> None:
    """For a small body, and for one that a thread reads."""
    rng, probs = np.random.default_rng(3), probabilities(rows)
    sites = [
        fc.Summary.of_scores(rng.random(n) * w, kind="exact", score=fc.LAC(), site=s)
        for s, n, w in (("a", 40, 1), ("Köln", 90, 0.5))
    ]
    rule = fc.calibrate(sites, alpha=0.2, guarantee=fc.EverySite())
    asking, body = client(rule), {"probabilities": probs.tolist()}
    for site in ("a", "Köln"):
        found = asking.post("/predict", json={**body, "site": site}).json()
        assert found["sets"] == [np.flatnonzero(row).tolist() for row in rule.predict_set(probs, sites=site)]
        assert found["p_values"] == rule.predict_p(probs, sites=site).tolist()
    without = asking.post("/predict", json=body).json()
    assert without["sets"] == [np.flatnonzero(row).tolist() for row in rule.predict_set(probs)]
    bad = asking.post("/predict", json={**body, "site": "b"})
    assert (bad.status_code, "b, which was not calibrated" in bad.json()["error"]) == (400, True)


def test_columns_are_matched_by_name() -> None:
    probs = probabilities(20)
    plain = client().post("/predict", json={"probabilities": probs.tolist()}).json()
    assert len(set(plain["ids"])) == 20  # which are made, as none are sent
    turned = {"probabilities": probs[:, ::-1].tolist(), "columns": CLASSES[::-1]}
    assert client().post("/predict", json=turned).json()["sets"] == plain["sets"]


def test_logits_are_taken_at_the_temperature_of_the_certificate() -> None:
    rule, logits = predictor(temperature=2.0), np.random.default_rng(1).normal(size=(30, 3)) * 4
    found = client(rule).post("/predict", json={"logits": logits.tolist()}).json()
    assert found["sets"] == named(rule.predict_set(fc.softmax(logits, temperature=2.0)))
    assert found["sets"] != named(rule.predict_set(fc.softmax(logits)))


def test_classes_without_names_are_numbers() -> None:
    given = features(100, seed=2)
    site = fc.summarize(fc.softmax(2 * given[:, :3]), labels(given), kind="exact", score=fc.APS())
    rule, probs = fc.calibrate([site], alpha=0.2), probabilities(6)
    answer = client(rule).post("/predict", json={"probabilities": probs.tolist()}).json()
    assert answer["classes"] == [0, 1, 2]
    assert answer["sets"] == [np.flatnonzero(row).tolist() for row in rule.predict_set(probs)]
    names = client(rule).post("/predict", json={"probabilities": probs.tolist(), "columns": CLASSES})
    assert names.json() == {"error": "columns: the classes have no names; leave them out"}


@pytest.mark.filterwarnings("ignore::fedconformal.errors.InfeasibleWarning")
def test_sets_that_hold_every_label_are_said() -> None:
    rule = predictor(rows=3, alpha=0.1)
    found = client(rule).post("/predict", json={"probabilities": probabilities(2).tolist()}).json()
    assert found["full_sets"] == 2
    assert "alpha=0.1 cannot be promised" in found["warnings"][0]


def test_an_expired_certificate_is_said() -> None:
    rule = predictor()
    rule = replace(rule, certificate=changed(rule.certificate, expires="2020-01-31"))
    found = client(rule).post("/predict", json={"probabilities": probabilities(1).tolist()}).json()
    assert found["warnings"] == ["the certificate expired on 2020-01-31; calibrate again from new summaries"]


def test_health_ready_and_metrics() -> None:
    asking = client()
    asking.post("/predict", json={"probabilities": probabilities(7).tolist()})
    asking.post("/predict", json={"probabilities": []})
    assert asking.get("/health").json() == {"alive": True}
    assert asking.get("/ready").json()["ready"] is True
    lines = asking.get("/metrics").text.splitlines()
    assert "fedconformal_rows_total 7.0" in lines
    assert 'fedconformal_requests_total{path="/predict",status="200"} 1.0' in lines
    assert 'fedconformal_requests_total{path="/predict",status="400"} 1.0' in lines
    assert 'fedconformal_predict_seconds_bucket{le="+Inf"} 2.0' in lines


def test_bad_outcomes_are_refused(tmp_path: Path) -> None:
    rule = predictor()
    with started(tmp_path / "w.db", rule) as watch:
        for ids, labels, reason in (
            (["q"], ["other"], "is not a class"),
            (["q"], [], "has 0 values"),
            ([], [], "has 0 values"),
            (["q"], None, "labels"),
        ):
            answer = client(rule, watch=watch).post("/outcomes", json={"ids": ids, "labels": labels})
            assert (answer.status_code, reason in answer.json()["error"]) == (400, True)
        assert watch.status().counts.early == 0
    assert client(rule).post("/outcomes", json={"ids": ["q"], "labels": ["unsure"]}).status_code == 404


def test_features_go_through_the_model_bit_by_bit(model: OnnxModel) -> None:
    """Some thousand rows here; benchmarks/serving.py does a million."""
    rule, rows = predictor(model), features(4000, seed=11)
    answer = client(rule, model=model).post("/predict", json={"features": rows.tolist()}).json()
    assert answer["sets"] == named(rule.predict_set(model.probabilities(rows)))
