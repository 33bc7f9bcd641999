"""The demo runs end to end and leaves a report."""

from pathlib import Path

import pytest

import fedconformal as fc
from tests.cli.command import Command


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    done = command.ok("demo")
    assert "The report lies in fedconformal-demo/report.html" in done.out
    page = Path("fedconformal-demo/report.html").read_text()
    predictor = fc.load("fedconformal-demo/predictor.json")
    assert predictor.certificate.clients == 10
    assert predictor.certificate.sentence() in page
    assert page.count("<svg") == 3
    assert "http" not in page.replace("http-equiv", "")
    for site in range(10):
        assert f"site-{site}" in page
