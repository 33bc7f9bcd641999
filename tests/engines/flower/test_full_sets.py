"""Sets that hold every label, over Flower: counted by the sites, said by the server with the reason."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")
torch = pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")


import fedconformal as fc  # noqa: E402
from fedconformal.cli.flower import _show  # noqa: E402
from fedconformal.engines.flower import InProcessGrid  # noqa: E402
from fedconformal.engines.flower.site_training import load_model  # noqa: E402
from fedconformal.engines.flower.stages import read_model  # noqa: E402
from fedconformal.engines.flower.template.client_app import app as client_app  # noqa: E402
from fedconformal.engines.flower.template.task import build_model, load_rows  # noqa: E402
from fedconformal.evaluation import full_sets  # noqa: E402
from tests.engines.flower.test_app import SITES, config_of, context, run  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train next to nothing, for all tests: many labels are as likely as the true one."""
    return _trained(tmp_path_factory.mktemp("model"))


@cache
def _trained(folder: Path) -> Path:
    run(config_of("fedavg", folder, rounds=1, rate=1e-6))
    return folder / "model.npz"


def again(model: Path, output: Path, app: Any = client_app, **more: Any) -> dict[str, Any]:
    """Calibrate and evaluate that model."""
    more = {"from-stage": "calibrate", "saved-model": str(model), **more}
    return run(config_of("fedavg", output, **more), InProcessGrid(app, SITES))


def test_sites_count_them(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = again(model, tmp_path, alpha=0.03)
    arrays, temperature = read_model(tmp_path / "model.npz")
    predictor, network = fc.load(tmp_path / "predictor.json"), load_model(build_model(), arrays)
    counted = 0
    for k in range(SITES):
        rows = load_rows(context(k), "test")
        with torch.no_grad():
            probs = fc.softmax(network(rows.inputs()).numpy(), temperature=temperature)
        mine = full_sets(predictor.predict_set(probs))
        assert found["evaluation"]["by_site"][f"site-{k}"]["full_sets"] == mine
        counted += mine
    assert found["evaluation"]["overall"]["full_sets"] == counted > 0
    assert "does not tell the labels of these rows apart" in found["evaluation"]["why_full"]
    _show(found)
    tested = sum(one["rows"] for one in found["evaluation"]["by_site"].values())
    assert f"{counted} of {tested} sets hold every label" in capsys.readouterr().out


def test_a_score_that_leaves_no_label_out_is_the_reason(model: Path, tmp_path: Path) -> None:
    found = again(model, tmp_path, score="aps", alpha=0.04)  # the truth is the least likely label more often
    assert found["threshold"] == pytest.approx(1)
    assert "(aps, 10 labels)" in found["evaluation"]["why_full"]
