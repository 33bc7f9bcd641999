"""The app that `flower init --task regression` writes: trained, calibrated and evaluated in this process."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")
pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sklearn", reason="the diabetes data are inside scikit-learn")

import numpy as np
import torch
from flwr.app import Context, RecordDict

import fedconformal as fc
from fedconformal.engines.flower import InProcessGrid
from fedconformal.engines.flower.app import App, make_app
from fedconformal.engines.flower.stages import read_model, run_stages
from fedconformal.engines.flower.template.task_regression import build_model, load_rows
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.training import FedAvg
from fedconformal.training.models import Regressor, build
from tests.contracts.tools import refused

SITES = 3
FIXED = {"rounds": 3, "rate": 0.05}


def context(site: int) -> Context:
    node: dict[str, Any] = {"partition-id": site, "num-partitions": SITES}
    return Context(run_id=1, node_id=site, node_config=node, state=RecordDict(), run_config={})


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("apps") / "diabetes_app"
    make_app(folder, "regression")
    yield App.read(folder, FIXED)
    for name in [name for name in sys.modules if name.split(".")[0] == "diabetes_app"]:
        del sys.modules[name]


def run(app: App, output: Path, model: Any = None, client: Any = None, **more: Any) -> dict[str, Any]:
    config = {**app.config, "output": str(output), **{key.replace("_", "-"): value for key, value in more.items()}}
    return run_stages(InProcessGrid(client or app.load()[0], SITES), config, model or build_model())


def test_it_is_what_training_and_files_give(app: App, tmp_path: Path) -> None:
    found = run(app, tmp_path)
    rows = {part: [load_rows(context(k), part) for k in range(SITES)] for part in ("train", "calibrate", "test")}
    trainer = FedAvg(rounds=3, epochs=2, rate=0.05, loss="pinball", quantiles=(0.05, 0.95), workers=1, device="cpu")
    trained = trainer.fit(build_model(), rows["train"])
    arrays, temperature = read_model(tmp_path / "model.npz")
    expected = trained.state_dict()
    assert list(arrays) == list(expected)
    assert all(np.array_equal(arrays[name].numpy(), expected[name].numpy()) for name in arrays)
    assert temperature == 1.0

    def predicted(part: str) -> list[tuple[Any, Any]]:
        with torch.no_grad():
            return [(trained(one.inputs()).numpy(), np.asarray(one.y)) for one in rows[part]]

    summaries = [
        fc.summarize(f, y, score=fc.CQR(), alpha=0.1, site=f"site-{k}", model=found["model"], trained=True)
        for k, (f, y) in enumerate(predicted("calibrate"))
    ]
    predictor = fc.calibrate(summaries, alpha=0.1)
    assert (tmp_path / "predictor.json").read_bytes() == predictor.to_bytes()
    assert (
        fc.verify(predictor, SummaryBatch.from_bytes(path.read_bytes() for path in (tmp_path / "sites").iterdir()))
        == []
    )
    assert sum(len(y) for _, y in predicted("calibrate")) == 111  # no temperature, so all validation rows calibrate
    for k, (f, y) in enumerate(predicted("test")):
        site, mine = found["evaluation"]["by_site"][f"site-{k}"], predictor.evaluate(f, y).overall
        assert (site["rows"], site["coverage"], site["infinite"]) == (len(y), mine.coverage, 0)
        assert site["mean_width"] == pytest.approx(mine.mean_width)
    assert set(found["evaluation"]["overall"]) == {"coverage", "mean_width", "infinite"}
    assert [stage["stage"] for stage in found["participants"]] == ["train", "calibrate", "evaluate", "broadcast"]
    assert json.loads((tmp_path / "result.json").read_text()) == found
    again = run(app, tmp_path / "again", from_stage="calibrate", saved_model=str(tmp_path / "model.npz"))
    assert again["certificate"] == found["certificate"]


def test_one_output_and_a_squared_loss(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = app.load()[0]  # whose task.py says how many outputs there are
    monkeypatch.setattr(sys.modules["conformal_app.task"], "OUTPUTS", 1)
    model = Regressor(build("mlp", shape=(10,), classes=1), centre=150.0, scale=75.0)
    found = run(app, tmp_path, model, client, loss="squared", score="signed")
    assert found["certificate"]["provenance"]["score"]["name"] == "signed"
    lower, upper = found["certificate"]["promises"]
    assert (lower["end"], upper["end"]) == ("lower", "upper")
    assert lower["threshold"] < 0 < upper["threshold"] == found["threshold"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"score": "lac"}, "score lac does not go with fedavg and its loss; take a score of numbers, such as cqr"),
        (
            {"loss": "cross-entropy"},
            "score cqr does not go with fedavg and its loss; take fedavg with the loss squared",
        ),
        ({"quantiles": "0.9,0.1"}, "quantiles are 0.9, 0.1, expected a lower"),
        ({"quantiles": "low"}, "quantiles is 'low', expected numbers such as 0.05,0.95"),
        ({"reach": 9.0}, "reach is 9, which goes with privacy sums"),
        ({"privacy": "sums", "reach": -1.0}, "reach is -1.0, expected a positive number"),
        ({"privacy": "sums", "score": "signed"}, "the run has scores of signed, whose intervals need a threshold at"),
    ],
)
def test_bad_settings(more: dict[str, Any], words: str, app: App, tmp_path: Path) -> None:
    with refused(words):
        run(app, tmp_path / "out", **more)
    assert not (tmp_path / "out").exists()
