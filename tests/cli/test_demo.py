"""The demo runs end to end and leaves a report."""

import sys
from pathlib import Path

import pytest

import fedconformal as fc
from fedconformal.cli import demo
from tests.cli.command import Command


@pytest.mark.long
def test_demo(here: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    pytest.importorskip("torch", reason="the demo trains with torch")
    pytest.importorskip("sklearn", reason="the digits are inside scikit-learn")
    monkeypatch.setattr(demo, "SETTINGS", ("rounds=2", "epochs=1", "linear_rounds=5", "coordinates=2000"))
    done = command.ok("demo")
    assert "The report is fedconformal-demo/report.html" in done.out
    assert Path("fedconformal-demo/summarize.html").exists()
    page, predictor = Path("fedconformal-demo/report.html").read_text(), fc.load("fedconformal-demo/predictor.json")
    assert predictor.sentence() in page
    assert all(f"site-{site}" in page for site in range(10))
    Path("taken").touch()
    command.refuses("taken: is a file; name a directory with -o", "demo", "-o", "taken")
    monkeypatch.setitem(sys.modules, "torch", None)
    command.refuses("the demo needs torch and scikit-learn: pip install 'fedconformal[demo]'", "demo")
