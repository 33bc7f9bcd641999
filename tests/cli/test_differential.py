"""calibrate --privacy dp: a threshold, its certificate, and a ledger that is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.privacy import read_ledger
from tests.cli.command import Command


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    for k in range(3):
        scores = np.random.default_rng(k).random(400)
        summary = fc.summarize(scores, "exact", site=f"site-{k}", score=fc.LAC())
        Path(f"site-{k}.fcs").write_bytes(summary.to_bytes())
    Path("ledger.json").write_text('{"budget": 1.5, "entries": []}')
    return [f"site-{k}.fcs" for k in range(3)]


def test_a_private_threshold(sites: list[str], command: Command) -> None:
    options = ["-o", "p.json", "--privacy", "dp", "--epsilon", "1", "--ledger", "ledger.json"]
    done = command.ok("calibrate", *sites, *options)
    assert "epsilon 1 for replacing one calibration row of one site" in done.out
    assert "outside the claim: the model, the temperature" in done.out
    certificate = fc.load("p.json").certificate
    assert certificate.privacy is not None
    assert certificate.coverage_at_least >= 0.9
    assert [record.sha256 for record in certificate.summaries] == ["", "", ""]
    assert [entry.data for entry in read_ledger(Path("ledger.json")).entries] == ["site-0", "site-1", "site-2"]
    again = command("calibrate", *sites, *options)
    assert again.code == 2
    assert "'site-0' has spent 1 of 1.5; 1 more is over its budget" in again.err
    assert len(read_ledger(Path("ledger.json")).entries) == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--privacy", "dp"], "--privacy dp needs --epsilon"),
        (["--epsilon", "1"], "--epsilon goes with --privacy dp"),
        (["--ledger", "ledger.json"], "--ledger goes with --privacy dp"),
        (["--privacy", "dp", "--epsilon", "0"], "epsilon is 0"),
        (["--privacy", "dp", "--epsilon", "1", "--by-class"], "--privacy dp does not go with --by-class"),
        (["--privacy", "dp", "--epsilon", "1", "--guarantee", "every-client"], "every-client is not there with"),
        (["--privacy", "dp", "--epsilon", "1", "--robust", "1"], "robust is not there with differential privacy"),
        (["--privacy", "dp", "--epsilon", "1", "--ledger", "none.json"], "none.json: cannot be read"),
    ],
)
def test_refusals(sites: list[str], command: Command, options: list[str], problem: str) -> None:
    done = command("calibrate", *sites, "-o", "p.json", *options)
    assert done.code == 2
    assert problem in done.err
    assert not Path("p.json").exists()
