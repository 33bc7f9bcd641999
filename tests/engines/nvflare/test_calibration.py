"""A job with a faulty site on NVFlare's simulator, and the same data on Flower."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

from fedconformal.engines.flower import Federation, InProcessGrid, calibrate, calibrate_reply, records
from fedconformal.engines.flower.records import site_of
from fedconformal.engines.nvflare import fingerprint
from scripts.superlink import running
from tests.engines.nvflare.faulty_job import BAD, FAULTS, SITES, WEIGHTS, site_logits

ROOT = Path(__file__).parents[3]
PATIENCE = 300


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the job; it has a process for every site, and one that is slow to start fails."""
    folder = tmp_path_factory.mktemp("nvflare")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NVFLARE_SIMULATOR_WORKSPACE_ROOT", str(folder))
        patch.setenv("NVFLARE_RUNNER_SYNC_TIMEOUT", "20")
        patch.setenv("NVFLARE_MAX_RUNNER_SYNC_TIMEOUT", str(PATIENCE))
        path, log = ROOT / "tests" / "engines" / "nvflare" / "faulty_job.py", folder / "faulty.log"
        with running([sys.executable, str(path)], folder, log) as process:
            assert process.wait(PATIENCE) == 0, log.read_text("utf-8")[-2000:]
    return folder


def result(ran: Path) -> Any:
    """Return what the server of the job has written."""
    (found,) = (ran / "faulty").rglob("found.json")
    return json.loads(found.read_text("utf-8"))


@pytest.mark.slow
def test_an_honest_round_is_what_flower_gives(ran: Path) -> None:
    app = ClientApp()

    @app.query("calibrate")
    def answer(msg: Message, context: Context) -> Message:
        return calibrate_reply(msg, context, *site_logits(site_of(context).name))

    arrays = ArrayRecord({name: Array(array) for name, array in WEIGHTS.items()})
    expected = calibrate(Federation(InProcessGrid(app, len(SITES))), arrays, alpha=0.1)
    assert result(ran)["none"] == expected.certificate.to_dict()


@pytest.mark.slow
@pytest.mark.parametrize("name", list(FAULTS)[1:])
def test_a_faulty_answer_is_refused_and_its_site_named(ran: Path, name: str) -> None:
    found = result(ran)
    _, reason = FAULTS[name]
    left_out = {one["site"]: one["reason"] for one in found[name]["left_out"]}
    assert reason in left_out[BAD]
    assert [one["sites"] for one in found[name]["summaries"]] == [[site] for site in SITES if site not in left_out]
    assert f"calibrate: {BAD} {left_out[BAD]}" in (ran / "faulty.log").read_text("utf-8")
    if name != "late":  # on a busy machine others may be late too
        assert set(left_out) == {BAD}
        assert len(found[name]["summaries"]) == len(SITES) - 1


def test_a_model_has_one_fingerprint_on_both_engines() -> None:
    rng = np.random.default_rng(0)
    table = rng.random((3, 2))
    for array in (table, table.T, table.astype(np.float32), np.array(7), np.zeros((0, 2))):
        model = {"w": array, "b": np.arange(3)}
        assert fingerprint(model) == records.fingerprint(ArrayRecord({name: Array(one) for name, one in model.items()}))
