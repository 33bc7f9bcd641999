from pathlib import Path

import pytest

from tests.cli.command import Command, write_sites


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with the data of three sites."""
    monkeypatch.chdir(tmp_path)
    write_sites(tmp_path)
    return tmp_path


@pytest.fixture
def calibrated(folder: Path, command: Command) -> Path:
    """The same, with summaries and a predictor."""
    for k in range(3):
        command.ok("summarize", f"probs-{k}.npy", f"labels-{k}.npy", "-o", f"site-{k}.fcs")
    command.ok("calibrate", *(f"site-{k}.fcs" for k in range(3)), "-o", "predictor.json")
    return folder
