"""fedconformal report: from a predictor with or without rows, or from a run."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Command, site_rows


def test_predictor_alone(command: Command, calibrated: Path) -> None:
    command.ok("report", "predictor.json", "-o", "report.html")
    page = (calibrated / "report.html").read_text()
    assert "Prediction sets across 3 sites" in page
    assert "Reliability" not in page


def test_json_is_one_object(command: Command, calibrated: Path) -> None:
    page = calibrated / "page.html"
    stated = command.ok("report", calibrated / "predictor.json", "-o", page, "--json").json
    assert stated == {"output": str(page), "bytes": page.stat().st_size}


def test_predictor_with_rows(command: Command, calibrated: Path) -> None:
    rows = ("test-probs.npy", "test-labels.npy", "--sites", "test-sites.csv")
    command.ok("report", "predictor.json", *rows, "-o", "report.html")
    page = (calibrated / "report.html").read_text()
    assert all(word in page for word in ("Coverage by site", "site-2", "Reliability"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's directory with logits of two clients."""
    folder = tmp_path / "run"
    folder.mkdir()
    probs, labels = site_rows(1, rows=200)
    logits = np.log(probs) * 2
    np.savez(
        folder / "logits.npz",
        val_logits=logits[:120],
        val_labels=labels[:120],
        val_clients=np.arange(120) % 2,
        test_logits=logits[120:],
        test_labels=labels[120:],
        test_clients=np.arange(80) % 2,
        temperature=np.array(2.0),
    )
    return folder


def test_run_is_calibrated_on_the_way(command: Command, run: Path) -> None:
    page = run.parent / "report.html"
    command.ok("report", run, "--alpha", "0.2", "--score", "lac", "-o", page)
    text = page.read_text()
    assert "probability at least 0.8" in text


def test_wrong_use_is_refused(command: Command, run: Path, calibrated: Path) -> None:
    assert "is a run, which has its own rows" in command("report", run, "a.npy", "b.npy", "-o", "x.html").err
    assert "go together" in command("report", "predictor.json", "test-probs.npy", "-o", "x.html").err
    assert "are for a run" in command("report", "predictor.json", "--alpha", "0.2", "-o", "x.html").err
    assert command("report", "absent.json", "-o", "x.html").code == 2
