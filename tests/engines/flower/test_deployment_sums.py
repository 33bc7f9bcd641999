"""Sums and noise on a real deployment of four sites, and a node that is killed between two steps."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="running on Flower needs flwr")
pytest.importorskip("torch", reason="training needs torch")
pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")
pytest.importorskip("opendp", reason="noise needs OpenDP")

from fedconformal.engines.flower import run_in_process
from fedconformal.engines.flower.in_process import App, make_app
from scripts.deployment import LocalDeployment
from scripts.superlink import deploy
from tests.engines.flower.test_deployment import result_of
from tests.engines.flower.test_engines import PATIENCE, left_running

pytestmark = pytest.mark.slow

SITES = 4
MOST_EXCHANGES = 20
SUMS = {"from-stage": "calibrate", "privacy": "sums", "temperature": False}


def app_of(folder: Path, output: str, **more: Any) -> App:
    settings = {"min-sites": SITES, "timeout": 300.0, "output": str(folder / output)}
    return App.read(folder / "app", settings | more)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDeployment]:
    """Four sites, and a model that was trained in this process."""
    folder = tmp_path_factory.mktemp("sums")
    make_app(folder / "app")
    app = app_of(folder, "trained", rounds=2)
    client, server = app.load()
    run_in_process(server, client, SITES, run_config=app.config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDCONFORMAL_TEST", str(folder))
        with LocalDeployment(folder, SITES) as running:
            yield running
        assert left_running(str(folder)) == []


def sums_app(deployment: LocalDeployment, output: str, **more: Any) -> App:
    saved = str(deployment.folder / "trained" / "model.npz")
    return app_of(deployment.folder, output, **{"saved-model": saved}, **SUMS, **more)


def test_a_deployment_calibrates_from_sums_in_few_exchanges(deployment: LocalDeployment) -> None:
    there = sums_app(deployment, "there")
    deploy(there, deployment.address, deployment.ca)
    here = sums_app(deployment, "here")
    client, server = here.load()
    run_in_process(server, client, SITES, run_config=here.config)
    found, expected = result_of(there), result_of(here)
    assert found["threshold"] == expected["threshold"]
    stage = found["participants"][0]
    assert stage["exchanges"] == expected["participants"][0]["exchanges"] <= MOST_EXCHANGES
    assert stage["took_part"] == {f"site-{k}": stage["exchanges"] for k in range(SITES)}
    assert found["certificate"]["privacy"]["dropped"] == []


def test_a_node_killed_between_two_steps_is_left_out_and_the_others_go_on_with_noise(
    deployment: LocalDeployment,
) -> None:
    app = sums_app(deployment, "noise", epsilon=8.0, **{"min-sites": SITES - 1})
    killed = threading.Thread(target=deployment.stop_after_reply, args=(SITES - 1, "query.calibrate"), daemon=True)
    killed.start()
    deploy(app, deployment.address, deployment.ca)
    killed.join(PATIENCE)
    certificate = result_of(app)["certificate"]
    assert certificate["privacy"]["epsilon"] == 8.0
    assert len(certificate["summaries"]) == SITES - 1
    (left_out,) = certificate["left_out"]
    assert left_out["site"] == f"site-{SITES - 1}"
    assert left_out["reason"] in {"is not connected any more", "timeout: gave no answer within 300 s"}
    assert result_of(app)["participants"][0]["exchanges"] <= MOST_EXCHANGES
