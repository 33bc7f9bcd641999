"""fedconformal paper: lists, prints and refuses."""

from pathlib import Path

import pytest

from fedconformal.paper.catalogue import FIGURES, TABLES
from tests.cli.command import Command


def test_list_names_everything(command: Command) -> None:
    found = command.ok("paper", "list", "--json").json
    assert [entry["name"] for entry in found["tables"]] == list(TABLES)
    assert [entry["name"] for entry in found["figures"]] == list(FIGURES)
    assert "full-results" in command.ok("paper", "list").out


def test_table_in_text_and_json(command: Command, logits: Path) -> None:
    arguments = ("paper", "table", "full-results", "--datasets", "dermamnist", "--logits", logits)
    found = command.ok(*arguments, "--json").json
    assert found["label"] == "tab:full-results"
    first = found["rows"][0]
    assert first["paper's size"] == 3.1
    assert abs(first["coverage"]["mean"] - 0.9) < 0.05
    text = command.ok(*arguments).out
    assert "others' logits, 600 rows" in text
    assert "as the paper does" in text
    assert all(len(line) <= 80 for line in text.split("\n\n")[1].splitlines())


def test_training_happens_only_when_asked(command: Command, logits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedconformal.cli import app

    asked: list[list[str]] = []

    def run(words: list[str]) -> int:
        asked.append(words)
        return 0

    monkeypatch.setattr(app, "run", run)
    arguments = ("paper", "table", "full-results", "--datasets", "dermamnist", "--logits", logits)
    command.ok(*arguments)
    assert not asked
    command.ok(*arguments, "--train")
    assert [words[6] for words in asked] == ["fedprox", "tct"]


def test_without_logits_it_says_what_to_do(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDCONFORMAL_DATA", raising=False)
    assert "say --logits DIR" in command("paper", "table", "full-results").err
    assert "is not a directory" in command("paper", "table", "full-results", "--logits", tmp_path / "no").err
    assert "is no table of the paper" in command("paper", "table", "table-9", "--logits", tmp_path).err
