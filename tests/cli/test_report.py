"""fedconformal report: from a predictor with or without rows."""

from pathlib import Path

from tests.cli.command import Command


def test_predictor_alone(command: Command, calibrated: Path) -> None:
    command.ok("report", "predictor.json", "-o", "report.html")
    page = (calibrated / "report.html").read_text()
    assert "Prediction sets across 3 sites" in page
    assert "Coverage by site" not in page


def test_json_is_one_object(command: Command, calibrated: Path) -> None:
    page = calibrated / "page.html"
    stated = command.ok("report", calibrated / "predictor.json", "-o", page, "--json").json
    assert stated == {"output": str(page), "bytes": page.stat().st_size}


def test_predictor_with_rows(command: Command, calibrated: Path) -> None:
    rows = ("test-probs.npy", "test-labels.npy", "--sites", "test-sites.csv")
    command.ok("report", "predictor.json", *rows, "-o", "report.html")
    page = (calibrated / "report.html").read_text()
    assert all(word in page for word in ("Coverage by site", "site-2"))
    assert "give LABELS as well" in command("report", "predictor.json", "test-probs.npy", "-o", "x.html").err
    assert "go with PROBS" in command("report", "predictor.json", "--labels", "y", "-o", "x.html").err
