"""The documented example and a job with a faulty site, both on NVFlare's simulator, beside the same data on Flower."""

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare", reason="running on NVFlare needs nvflare")
pytest.importorskip("flwr", reason="the threshold is compared with Flower's")
pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message
from flwr.clientapp import ClientApp

import fedconformal as fc
from fedconformal.engines.flower import Federation, InProcessGrid, calibrate, calibrate_reply, records
from fedconformal.engines.flower.records import site_of
from fedconformal.engines.nvflare import fingerprint
from fedconformal.federated.calibration import Calibrated
from scripts.superlink import running
from tests.engines.nvflare.faulty_job import BAD, FAULTS, SITES, WEIGHTS, site_logits

ROOT = Path(__file__).parents[3]
PATIENCE = 300


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run both jobs, one after the other: each has a process for every site, and one that is slow to start fails."""
    folder = tmp_path_factory.mktemp("nvflare")
    page = (ROOT / "docs" / "tutorials" / "nvflare-job.md").read_text("utf-8")
    example = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    (folder / "digits.py").write_text(example, "utf-8")
    jobs = {"digits": folder / "digits.py", "faulty": ROOT / "tests" / "engines" / "nvflare" / "faulty_job.py"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NVFLARE_SIMULATOR_WORKSPACE_ROOT", str(folder))
        patch.setenv("NVFLARE_RUNNER_SYNC_TIMEOUT", "20")
        patch.setenv("NVFLARE_MAX_RUNNER_SYNC_TIMEOUT", str(PATIENCE))
        for name, path in jobs.items():
            log = folder / f"{name}.log"
            with running([sys.executable, str(path)], folder, log) as process:
                assert process.wait(PATIENCE) == 0, log.read_text("utf-8")[-2000:]
    return folder


def result(ran: Path, job: str, name: str) -> Path:
    """Return a file that the server of a job has written."""
    (found,) = (ran / job).rglob(name)
    return found


def on_flower(weights: Mapping[str, Any], logits: Callable[[str], Any]) -> Calibrated:
    """Calibrate the same model on the same rows with Flower, in this process."""
    app = ClientApp()

    @app.query("calibrate")
    def answer(msg: Message, context: Context) -> Message:
        return calibrate_reply(msg, context, *logits(site_of(context).name))

    arrays = ArrayRecord({name: Array(np.asarray(array)) for name, array in weights.items()})
    return calibrate(Federation(InProcessGrid(app, len(SITES))), arrays, alpha=0.1)


def test_the_example_gives_the_certificate_that_flower_gives(ran: Path) -> None:
    spec = importlib.util.spec_from_file_location("digits", ran / "digits.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    weights = dict(np.load(result(ran, "digits", "model.npz")))

    def logits(site: str) -> tuple[Any, Any]:
        x, y = example.rows(site, "calibrate")
        return x @ weights["w"] + weights["b"], y

    predictor = fc.load(result(ran, "digits", "predictor.json"))
    expected = on_flower(weights, logits)
    assert predictor.certificate == expected.certificate
    (promise,) = predictor.certificate.to_dict()["promises"]
    assert isinstance(promise["threshold"], float)
    assert [promise] == expected.certificate.to_dict()["promises"]
    assert fc.verify(predictor, expected.summaries) == []
    assert "The sets hold the true label with probability at least 0.9" in (ran / "digits.log").read_text("utf-8")


def test_an_honest_round_is_what_flower_gives(ran: Path) -> None:
    found = json.loads(result(ran, "faulty", "found.json").read_text("utf-8"))
    assert found["none"] == on_flower(WEIGHTS, site_logits).certificate.to_dict()


@pytest.mark.parametrize("name", list(FAULTS)[1:])
def test_a_faulty_answer_is_refused_and_its_site_named(ran: Path, name: str) -> None:
    found = json.loads(result(ran, "faulty", "found.json").read_text("utf-8"))
    _, reason = FAULTS[name]
    left_out = {one["site"]: one["reason"] for one in found[name]["left_out"]}
    assert reason in left_out[BAD]
    assert [one["sites"] for one in found[name]["summaries"]] == [[site] for site in SITES if site not in left_out]
    assert f"calibrate: {BAD} {left_out[BAD]}" in (ran / "faulty.log").read_text("utf-8")
    if name != "late":  # on a busy machine others may be late too
        assert set(left_out) == {BAD}
        assert len(found[name]["summaries"]) == len(SITES) - 1


def test_sites_count_on_their_own_rows_and_impossible_counts_are_refused(ran: Path) -> None:
    found = json.loads(result(ran, "faulty", "found.json").read_text("utf-8"))["evaluation"]
    assert set(found) == set(SITES) - {BAD}
    logits, labels = site_logits("site-0")
    assert found["site-0"]["rows"] == len(labels)
    assert found["site-0"]["accuracy"] == np.mean(logits.argmax(axis=1) == labels)
    assert f"evaluate: {BAD} sent counts that 40 rows cannot have" in (ran / "faulty.log").read_text("utf-8")


def test_a_model_has_one_fingerprint_on_both_engines() -> None:
    rng = np.random.default_rng(0)
    table = rng.random((3, 2))
    for array in (table, table.T, table.astype(np.float32), np.array(7), np.zeros((0, 2))):
        model = {"w": array, "b": np.arange(3)}
        assert fingerprint(model) == records.fingerprint(ArrayRecord({name: Array(one) for name, one in model.items()}))
