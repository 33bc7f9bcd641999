from pathlib import Path

import pytest

from fedconformal.training.data import download


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(url: str) -> None:
        raise OSError("no network in tests")

    monkeypatch.setattr(download, "connect", refuse)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data directory, an empty cache, and nothing from Debian."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("FEDCONFORMAL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(download, "SYSTEM", tmp_path / "system")
    return tmp_path / "data"
