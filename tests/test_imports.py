"""Importing the library, and calibrating with it, loads nothing heavy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import fedconformal as fc

HEAVY = {"Crypto", "altair", "cryptography", "flwr", "opendp", "rich", "scipy", "sklearn", "torch", "typer"}

IMPORT = "import fedconformal as fc"

EVERY_NAME = f"""
{IMPORT}
for name in fc.__all__:
    if not name.startswith("FederatedConformal") and name != "summarize_sites":
        getattr(fc, name)
"""

CALIBRATE = f"""
{IMPORT}
probs, labels = [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]] * 10, [0, 1, 2] * 10
for score in (fc.LAC(), fc.APS(), fc.RAPS()):
    site = fc.summarize(probs, labels, score=score, kind="exact")
    result = fc.calibrate([site], alpha=0.1)
    score.predict_set(probs, result.threshold)
"""


@pytest.mark.parametrize("program", [IMPORT, EVERY_NAME, CALIBRATE], ids=["import", "every name", "calibrate"])
def test_nothing_heavy_is_loaded(program: str) -> None:
    """`import fedconformal` imports numpy only when a name is used."""
    found = {name.partition(".")[0] for name in modules_after(program)}
    assert (HEAVY | {"numpy"} if program == IMPORT else HEAVY).isdisjoint(found)


def modules_after(program: str) -> list[str]:
    """Return the modules that a program has loaded at its end."""
    report = "import json, sys; print(json.dumps([*sys.modules]), file=sys.stderr)"  # the command closes stdout
    done = subprocess.run([sys.executable, "-c", f"{program}\n{report}"], check=True, capture_output=True, text=True)
    found: list[str] = json.loads(done.stderr.splitlines()[-1])
    return found


COMMAND = """
import sys
from fedconformal.cli import main

sys.argv[1:] = {arguments}
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""


def test_the_command_imports_nothing_heavy(tmp_path: Path) -> None:
    file = tmp_path / "a.fcs"
    file.write_bytes(fc.Summary.of_scores([k / 100 for k in range(100)], score=fc.LAC(), site="a").to_bytes())
    arguments = ["calibrate", str(file), "-o", str(tmp_path / "predictor.json")]
    modules = modules_after(COMMAND.format(arguments=arguments))
    assert {"fedconformal.calibration.search", "typer"} <= set(modules)
    assert (HEAVY - {"typer"}).isdisjoint(name.partition(".")[0] for name in modules)


def test_public_names() -> None:
    assert dir(fc) == sorted(fc.__all__)
    assert len(fc.__all__) <= 48
    for missing in ("missing", "Missing", "_missing"):
        assert not hasattr(fc, missing)
