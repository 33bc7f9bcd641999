"""An app that predicts numbers: trained, calibrated and evaluated in this process."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")
pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sklearn", reason="the diabetes data are inside scikit-learn")

import numpy as np
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

import fedconformal as fc
from fedconformal.engines.flower import InProcessGrid, calibrate_reply
from fedconformal.engines.flower.stages import read_model
from fedconformal.engines.flower.training import add_handlers, deal, outputs, train_reply
from fedconformal.summaries.batch import SummaryBatch
from fedconformal.training import ClientData, FedAvg
from fedconformal.training.data.partitions import IID
from fedconformal.training.models import Regressor, build
from tests.engines.flower import test_app

SITES = 3
CONFIG = {"loss": "pinball", "quantiles": "0.05,0.95", "score": "cqr", "rounds": 3, "epochs": 2, "rate": 0.05}


def build_model(number: int = 2) -> Regressor:
    """Make a network with an output for each quantile; centre and scale are fixed beforehand."""
    return Regressor(build("mlp", shape=(10,), classes=number, seed=0), centre=150.0, scale=75.0)


def load_rows(context: Context, part: str) -> ClientData:
    site = int(context.node_config["partition-id"])
    x, y = deal("diabetes", IID(clients=SITES))[site][part]
    return ClientData(name=f"site-{site}", x=x, y=y)


def regression_app(number: int = 2) -> ClientApp:
    app = ClientApp()
    add_handlers(app, lambda: build_model(number), load_rows)

    @app.train()
    def train(msg: Message, context: Context) -> Message:
        return train_reply(msg, context, build_model(number), load_rows(context, "train"))

    @app.query("calibrate")
    def calibrate(msg: Message, context: Context) -> Message:
        return calibrate_reply(msg, context, *outputs(msg, build_model(number), load_rows(context, "calibrate")))

    return app


def run(output: Path, number: int = 2, **more: Any) -> dict[str, Any]:
    config = {**CONFIG, "output": str(output), **{key.replace("_", "-"): value for key, value in more.items()}}
    return test_app.run(config, InProcessGrid(regression_app(number), SITES), build_model(number))


def test_it_is_what_training_and_files_give(tmp_path: Path) -> None:
    found = run(tmp_path)
    sites = [test_app.context(k, SITES) for k in range(SITES)]
    rows = {part: [load_rows(site, part) for site in sites] for part in ("train", "calibrate", "test")}
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
    assert set(found["evaluation"]["overall"]) == {"rows", "coverage", "mean_width", "infinite"}
    assert [stage["stage"] for stage in found["participants"]] == ["train", "calibrate", "evaluate", "broadcast"]
    again = run(tmp_path / "again", from_stage="calibrate", saved_model=str(tmp_path / "model.npz"))
    assert again["certificate"] == found["certificate"]


def test_one_output_and_a_squared_loss(tmp_path: Path) -> None:
    found = run(tmp_path, 1, loss="squared", score="signed")
    assert found["certificate"]["provenance"]["score"]["name"] == "signed"
    lower, upper = found["certificate"]["promises"]
    assert (lower["end"], upper["end"]) == ("lower", "upper")
    assert lower["threshold"] < 0 < upper["threshold"] == found["threshold"]
