"""Where files are looked for."""

import sys
from pathlib import Path

import pytest

from fedconformal.training.data import store


@pytest.mark.parametrize(
    ("platform", "variable", "value", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "{home}/elsewhere", "elsewhere/fedconformal"),
        ("linux", "XDG_CACHE_HOME", "", ".cache/fedconformal"),
        ("darwin", "XDG_CACHE_HOME", "{home}/elsewhere", "Library/Caches/fedconformal"),
        ("win32", "LOCALAPPDATA", "{home}/Local", "Local/fedconformal"),
        ("win32", "LOCALAPPDATA", "", "AppData/Local/fedconformal"),
    ],
)
def test_the_cache_is_where_the_platform_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, variable: str, value: str, expected: str
) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv(variable, value.format(home=tmp_path))
    assert store.cache() == tmp_path / expected


def test_the_users_own_directory_comes_first(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.places() == [place, store.cache()]
    assert store.where() == f"{place} or {store.cache()}"
    monkeypatch.delenv(store.VARIABLE)
    assert store.places() == [store.cache()]
    assert store.where() == f"{store.cache()} or a directory that $FEDCONFORMAL_DATA names"


def test_of_two_names_the_first_wins_but_not_over_an_earlier_directory(place: Path) -> None:
    store.cache().mkdir(parents=True)
    (store.cache() / "first").touch()
    assert store.find("first", "second") == store.cache() / "first"
    (place / "second").touch()
    assert store.find("first", "second") == place / "second"
    assert store.find("third") is None
