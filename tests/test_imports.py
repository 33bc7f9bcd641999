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
    report = "import json, sys; print(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", f"{program}\n{report}"], check=True, stdout=subprocess.PIPE, text=True)
    assert HEAVY.isdisjoint(json.loads(done.stdout))


NOT_FOR_CALIBRATE = {
    "fedconformal.calibration.classifier",
    "fedconformal.calibration.plan",
    "fedconformal.training.data",
    "fedconformal.engines",
    "fedconformal.evaluation.claims",
    "fedconformal.evaluation.sets",
    "fedconformal.evaluation.verdict",
    "fedconformal.federated",
    "fedconformal.losses.false_negative_rate",
    "fedconformal.training.models",
    "fedconformal.monitoring",
    "fedconformal.privacy.dp",
    "fedconformal.privacy.ledger",
    "fedconformal.privacy.local_dp",
    "fedconformal.privacy.policy",
    "fedconformal.privacy.sums",
    "fedconformal.report",
    "fedconformal.scores.advice",
    "fedconformal.scores.aps",
    "fedconformal.scores.residual",
    "fedconformal.scores.topk",
    "fedconformal.serving",
    "fedconformal.tables.table",
    "fedconformal.verification",
    "importlib.metadata",
    "multiprocessing",
    "numpy.ma",
    "numpy.random",
    "sqlite3",
    "unittest",
}
"""What other commands need, or nothing needs here."""

COMMAND = """
import gc, json, sys
from fedconformal.cli import main

sys.argv[1:] = {arguments}
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps([sorted(sys.modules), gc.isenabled(), gc.get_freeze_count()]))
"""


def test_the_command_imports_what_it_needs_and_no_more(tmp_path: Path) -> None:
    file = tmp_path / "a.fcs"
    file.write_bytes(fc.Summary.of_scores([k / 100 for k in range(100)], score=fc.LAC(), site="a").to_bytes())
    arguments = ["calibrate", str(file), "-o", str(tmp_path / "predictor.json")]
    program = COMMAND.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    modules, collects, kept = json.loads(done.stdout.splitlines()[-1])
    assert {"fedconformal.calibration.search", "typer"} <= set(modules)
    assert NOT_FOR_CALIBRATE.isdisjoint(modules)
    assert (HEAVY - {"typer"}).isdisjoint(name.partition(".")[0] for name in modules)
    assert collects, "the collector is off while the command runs"
    assert kept, "the collector goes through all that is imported"


@pytest.mark.parametrize("package", ["", ".evaluation", ".guarantees", ".losses", ".privacy", ".scores", ".tables"])
def test_a_lazy_package_lists_and_has_its_names(package: str) -> None:
    module = __import__(f"fedconformal{package}", fromlist=["__all__"])
    assert dir(module) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)
    for missing in ("missing", "Missing", "_missing"):
        assert not hasattr(module, missing)


def test_a_function_that_is_called_like_its_module_is_the_function() -> None:
    first = "import fedconformal.evaluation.reliability, fedconformal.evaluation as evaluation"
    subprocess.run([sys.executable, "-c", f"{first}; evaluation.reliability([[0.5, 0.5]], [0])"], check=True)
