"""The demo runs end to end and leaves a report."""

from pathlib import Path

import pytest

import fedconformal as fc
from fedconformal.cli.demo import METHODS
from fedconformal.scores import DEFAULT
from tests.cli.command import Command


@pytest.mark.long
@pytest.mark.parametrize("whole", [pytest.param(True, marks=pytest.mark.slow), False])
def test_demo(whole: bool, here: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    pytest.importorskip("torch", reason="the demo trains with torch")
    pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")
    if not whole:
        for method, more in METHODS.items():
            monkeypatch.setitem(METHODS, method, (*more, "--set", "rounds=2", "--set", "epochs=1"))
    done = command.ok("demo")
    assert "The report is fedconformal-demo/report.html" in done.out
    assert Path("fedconformal-demo/summarize.html").exists()
    page = Path("fedconformal-demo/report.html").read_text()
    predictor = fc.load("fedconformal-demo/predictor.json")
    assert predictor.certificate.sites == 10
    assert predictor.score == DEFAULT
    assert predictor.sentence() in page
    assert "http" not in page.replace("http-equiv", "")
    for site in range(10):
        assert f"site-{site}" in page
    rows = [line.split() for line in done.out.splitlines()]
    found = {row[0]: [float(cell) for cell in row[1:]] for row in rows if row and row[0] in METHODS and len(row) == 4}
    assert list(found) == list(METHODS)
    accuracy = {method: cells[0] for method, cells in found.items()}
    if whole:
        assert accuracy["central"] > 0.93
        assert accuracy["tct"] > 0.9
        assert accuracy["tct"] > accuracy["fedavg"] != accuracy["fedprox"]
    for _, coverage, size in found.values():
        assert coverage > 0.85
        assert 1 <= size <= 10


def test_the_demo_looks_before_it_trains(here: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "sklearn"):
        pytest.importorskip(name, reason="the demo needs torch and scikit-learn")
    Path("taken").write_text("")
    command.refuses("alpha is 1.5", "demo", "--alpha", "1.5")
    command.refuses("taken: is a file; name a directory with -o", "demo", "-o", "taken")
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    command.refuses("the demo needs torch and scikit-learn: pip install 'fedconformal[demo]'", "demo")
