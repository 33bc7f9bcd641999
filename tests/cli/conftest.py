import shutil
from pathlib import Path

import pytest

from fedconformal.cli.app import run
from tests.cli.command import write_sites


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def folder(here: Path) -> Path:
    """A working directory with the data of three sites."""
    write_sites(here)
    return here


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with summaries and a predictor, made once."""
    folder = tmp_path_factory.mktemp("sites")
    write_sites(folder)
    summaries = [str(folder / f"site-{k}.fcs") for k in range(3)]
    for k, summary in enumerate(summaries):
        assert run(["summarize", f"{folder}/probs-{k}.npy", f"{folder}/labels-{k}.npy", "-o", summary]) == 0
    assert run(["calibrate", *summaries, "-o", str(folder / "predictor.json")]) == 0
    return folder


@pytest.fixture
def calibrated(here: Path, sites: Path) -> Path:
    """A working directory with data, summaries and a predictor of three sites."""
    shutil.copytree(sites, here, dirs_exist_ok=True)
    return here
