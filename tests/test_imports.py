"""Importing the library, and calibrating with it, loads nothing heavy."""

import json
import subprocess
import sys

import pytest

HEAVY = {"Crypto", "altair", "cryptography", "flwr", "opendp", "rich", "scipy", "sklearn", "torch", "typer"}

IMPORT = "import fedconformal as fc"

EVERY_NAME = f"""
{IMPORT}
for name in fc.__all__:
    getattr(fc, name)
"""

CALIBRATE = f"""
{IMPORT}
probs, labels = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]] * 10, [0, 1, 2] * 10
for score in (fc.LAC(), fc.APS(), fc.RAPS()):
    site = fc.summarize(score.evaluate(probs, labels), kind="exact")
    result = fc.calibrate([site], alpha=0.1)
    score.predict_set(probs, result.threshold)
"""


@pytest.mark.parametrize("program", [IMPORT, EVERY_NAME, CALIBRATE], ids=["import", "every name", "calibrate"])
def test_nothing_heavy_is_loaded(program: str) -> None:
    report = "import json, sys; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", f"{program}\n{report}"], check=True, stdout=subprocess.PIPE, text=True)
    assert HEAVY.isdisjoint(json.loads(done.stdout))
