"""fedconformal report: from a predictor with or without rows."""

from pathlib import Path

from tests.cli.command import Command


def test_a_page_with_and_without_rows(command: Command, calibrated: Path) -> None:
    stated = command.ok("report", "predictor.json", "-o", "report.html", "--json").json
    page = Path("report.html").read_text()
    assert stated == {"output": "report.html", "bytes": Path("report.html").stat().st_size}
    assert "Prediction sets across 3 sites" in page
    assert "Coverage by site" not in page
    rows = ("test-probs.npy", "test-labels.npy", "--sites", "test-sites.csv")
    command.ok("report", "predictor.json", *rows, "-o", "report.html")
    page = Path("report.html").read_text()
    assert all(word in page for word in ("Coverage by site", "site-2"))
    command.refuses("give LABELS as well", "report", "predictor.json", "test-probs.npy", "-o", "x.html")
    command.refuses("go with PROBS", "report", "predictor.json", "--labels", "y", "-o", "x.html")
