"""The documented job on NVFlare's proof of concept: a server and three sites, each a process with a certificate."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="running on NVFlare needs nvflare")
pytest.importorskip("flwr", reason="processes are started and ended as those of Flower")
pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")

import numpy as np

import fedconformal as fc
from fedconformal.engines.nvflare import fingerprint
from scripts.superlink import program, running
from tests.engines.nvflare.poc import SITES

ROOT = Path(__file__).parents[3]
PATIENCE = 300

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the job, and end every process that it took."""
    home = tmp_path_factory.mktemp("poc")
    page = (ROOT / "docs" / "tutorials" / "nvflare-job.md").read_text("utf-8")
    example = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    (home / "digits.py").write_text(example, "utf-8")
    log = home / "poc.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        with running([sys.executable, "-m", "tests.engines.nvflare.poc", str(home)], home, log) as one:
            assert one.wait(PATIENCE) == 0, log.read_text("utf-8")[-2000:]
    return home


def test_the_certificate_is_the_one_from_files(folder: Path) -> None:
    found = json.loads((folder / "found.json").read_text("utf-8"))
    assert found["status"] == "FINISHED:COMPLETED"
    (kept,) = Path(found["result"]).rglob("predictor.json")
    weights = dict(np.load(kept.with_name("model.npz")))
    spec = importlib.util.spec_from_file_location("digits", folder / "digits.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    command, files = program("fedconformal"), [f"{site}.fcs" for site in SITES]
    for site, file in zip(SITES, files, strict=True):
        x, y = example.rows(site, "calibrate")
        np.save(folder / "logits.npy", x @ weights["w"] + weights["b"])
        np.save(folder / "labels.npy", y)
        about = ["--from", "logits", "--temperature", "1", "--model", fingerprint(weights), "--site", site]
        subprocess.run(
            [command, "summarize", "logits.npy", "labels.npy", *about, "--alpha", "0.1", "-o", file],
            cwd=folder,
            check=True,
        )
    subprocess.run([command, "calibrate", *files, "--alpha", "0.1", "-o", "files.json"], cwd=folder, check=True)
    certificate = fc.load(kept).certificate
    assert certificate == fc.load(folder / "files.json").certificate
    assert [record.sites for record in certificate.summaries] == [(site,) for site in SITES]
    assert certificate.left_out is None
    assert np.isfinite(certificate.threshold)


def test_a_job_that_needs_three_sites_waits_for_the_third(folder: Path) -> None:
    refusal = json.loads((folder / "found.json").read_text("utf-8"))["refusal"]
    assert "connected sites (2) < min_sites (3)" in refusal
