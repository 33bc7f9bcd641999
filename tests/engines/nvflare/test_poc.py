"""The documented job on NVFlare's proof of concept: a server and three sites, each a process with a certificate."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="running on NVFlare needs nvflare")
pytest.importorskip("flwr", reason="processes are started and ended as those of Flower")
pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")

import numpy as np

import fedconformal as fc
from fedconformal.engines.nvflare import fingerprint
from scripts.superlink import running
from tests.engines.nvflare.poc import SITES

ROOT = Path(__file__).parents[3]
PATIENCE = 300

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the job, and end all its processes."""
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
    example = runpy.run_path(str(folder / "digits.py"))
    summaries = []
    for site in SITES:
        x, y = example["rows"](site, "calibrate")
        probs = fc.softmax(np.asarray(x @ weights["w"] + weights["b"], dtype=np.float64))
        summaries.append(fc.summarize(probs, y, site=site, model=fingerprint(weights), temperature=1.0, alpha=0.1))
    certificate = fc.load(kept).certificate
    assert certificate == fc.calibrate(summaries, alpha=0.1).certificate
    assert certificate.left_out is None
    assert np.isfinite(certificate.threshold)
