"""A regressor trains with FedAvg: squared and pinball loss, on rows that sites keep, and a run that goes on."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sklearn", reason="the loss is compared with scikit-learn's")

import torch
from sklearn import metrics
from torch import nn

from fedconformal._base.files import read_npz
from fedconformal.training import FedAvg, as_clients, data
from fedconformal.training.config import Config
from fedconformal.training.data.sets.heart_disease import FIELDS
from fedconformal.training.losses import loss_of
from fedconformal.training.models import Regressor
from fedconformal.training.outputs import RegressionResult
from fedconformal.training.run import train
from tests.contracts.tools import refused
from tests.training.data import made


def drawn(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Draw y = 100 + 20 x + 10 times noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 1)).astype(np.float32)
    return x, 100 + 20 * x[:, 0].astype(np.float64) + 10 * rng.normal(size=rows)


def config(**more: Any) -> Config:
    return Config.from_dict(
        {"dataset": "diabetes", "partition": "iid", "clients": 3, "workers": 1, "rounds": 3, **more}
    )


def test_losses_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y, found = rng.normal(size=50), rng.normal(size=(50, 3))
    tensors = torch.tensor(found), torch.tensor(y)
    pinball = loss_of("pinball", (0.1, 0.5, 0.9), nn.Identity())(*tensors)
    expected = [metrics.mean_pinball_loss(y, found[:, k], alpha=a) for k, a in enumerate((0.1, 0.5, 0.9))]
    assert float(pinball) == pytest.approx(sum(expected))
    squared = loss_of("squared", (0.1, 0.9), nn.Identity())(tensors[0][:, :1], tensors[1])
    assert float(squared) == pytest.approx(metrics.mean_squared_error(y, found[:, 0]))


def test_a_scale_changes_units_only() -> None:
    """Trained in units of the scale, a model of degrees and one of thousandths are the same but for rounding."""
    (x, y), start = drawn(200), nn.Linear(1, 1)
    small = FedAvg(rounds=3, loss="squared", workers=1).fit(Regressor(start), [(x, (y - 100) / 16)])
    large = FedAvg(rounds=3, loss="squared", workers=1).fit(Regressor(start, centre=100, scale=16), [(x, y)])
    at = torch.tensor(x)
    assert torch.allclose(100 + 16 * small(at), large(at), atol=1e-2)


def test_fedavg_finds_the_line_and_the_quantiles() -> None:
    sites = [drawn(600, seed) for seed in range(3)]
    settings: dict[str, Any] = {"rounds": 40, "rate": 0.02, "workers": 1}
    torch.manual_seed(0)
    line = FedAvg(loss="squared", **settings).fit(Regressor(nn.Linear(1, 1), centre=100, scale=20), sites)
    ends = torch.tensor([[-1.0], [1.0]])
    assert line(ends).flatten().tolist() == pytest.approx([80, 120], abs=2)
    model = Regressor(nn.Linear(1, 3), centre=100, scale=20)
    found = FedAvg(loss="pinball", quantiles=(0.1, 0.5, 0.9), **settings).fit(model, sites)
    x, y = drawn(4000, seed=9)
    with torch.no_grad():
        below = (torch.tensor(y)[:, None] <= found(torch.tensor(x))).float().mean(dim=0)
    assert below.tolist() == pytest.approx([0.1, 0.5, 0.9], abs=0.04)


def test_outputs_that_cross_are_put_in_order() -> None:
    assert Regressor(nn.Identity())(torch.tensor([[3.0, 1.0, 2.0]])).tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": "huber"}, "loss: invalid enum value 'huber'; there are cross-entropy, squared, pinball"),
        ({"quantiles": (0.9, 0.1)}, "quantiles are 0.9, 0.1, expected a lower"),
        ({"quantiles": (0.0, 0.5)}, "quantiles are 0.0, 0.5, expected a lower"),
        ({"quantiles": (0.5,)}, "quantiles are 0.5, expected a lower"),
    ],
)
def test_bad_settings(settings: dict[str, Any], words: str) -> None:
    with refused(words):
        FedAvg(**settings)


def test_bad_rows_and_a_model_with_other_outputs() -> None:
    with refused("site-0: row 1 of y is nan, expected a finite number"):
        as_clients([([[1.0], [2.0]], [0.5, np.nan])], numbers=True)
    with refused("site-0: y has shape (2, 2), expected one number for each of 2 rows"):
        as_clients([([[1.0], [2.0]], [[0.5, 1], [2, 3]])], numbers=True)
    with refused("site-0: row 0 of y is 0.5, expected a class index"):
        as_clients([([[1.0]], [0.5])])
    with refused("the model's outputs have shape (2, 3), pinball needs (2, 2)"):
        FedAvg(loss="pinball", workers=1).fit(nn.Linear(1, 3), [([[1.0], [2.0]], [0.5, 1.5])])


def test_a_run_leaves_predictions_that_say_what_they_are(tmp_path: Path) -> None:
    result = train(config(loss="pinball", quantiles=[0.1, 0.5, 0.9]), tmp_path)
    assert isinstance(result, RegressionResult)
    arrays, diabetes = read_npz(tmp_path / "predictions.npz"), data.load("diabetes")
    assert arrays["columns"].tolist() == ["lower", "prediction", "upper"]
    assert str(arrays["target"]) == "progression"
    assert arrays["names"].tolist() == ["site-0", "site-1", "site-2"]
    assert np.array_equal(arrays["val_targets"], diabetes.val.y)  # no temperature, so all rows calibrate
    assert np.array_equal(arrays["test_targets"], diabetes.test.y)
    assert arrays["test_predictions"].shape == (len(diabetes.test), 3)
    assert (np.diff(arrays["val_predictions"], axis=1) >= 0).all()
    errors = arrays["test_predictions"][:, 1] - diabetes.test.y
    assert result.mean_absolute_error == pytest.approx(np.abs(errors).mean())
    assert json.loads((tmp_path / "result.json").read_text())["columns"] == ["lower", "prediction", "upper"]
    assert not (tmp_path / "logits.npz").exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"method": "tct"}, "diabetes: has a number to predict (progression); train it with fedavg"),
        ({"loss": "cross-entropy"}, "train it with fedavg, and with the loss squared or pinball"),
        ({"partition": "dirichlet"}, "diabetes: has a number to predict, no classes; part it with iid or column"),
        ({"dataset": "digits", "loss": "squared"}, "digits: has classes, for which the loss is cross-entropy"),
    ],
)
def test_what_does_not_go_together(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    with refused(words):
        train(config(**more), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_heart_rates_that_were_not_measured_are_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FEDCONFORMAL_DATA", str(tmp_path))
    values = made.PATIENT.split(",")
    at = FIELDS.index("thalach")
    rows = [",".join([*values[:at], rate, *values[at + 1 :]]) for rate in ("120", "150", "?", "0")]
    lines = [made.HEART_HEADER, *[f"va,{row},0" for row in rows for _ in range(4)]]
    (tmp_path / "heart_disease.csv").write_text("\n".join(lines), "utf-8")
    with caplog.at_level(logging.INFO):
        found = data.load("heart_rate")
    assert "heart_rate: 8 of 16 patients have none, and are left out" in caplog.text
    every = [found.rows(split) for split in data.SPLITS]
    assert sorted(np.concatenate([one.y for one in every])) == [120] * 4 + [150] * 4
    assert len(np.unique(np.concatenate([one.x for one in every]), axis=0)) == 1  # the features do not tell them apart
