"""fedconformal paper: lists, prints and refuses."""

import itertools
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedconformal_paper.catalogue import FIGURES, TABLES
from fedconformal_paper.logits import LogitsFolder
from fedconformal_paper.numbers import FULL_RESULTS, METHODS

from fedconformal.training.data import load, names
from paper.tests.conftest import write_logits
from tests.cli.command import Command
from tests.training.data import made


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


@pytest.fixture
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's settings, but for how long they take."""
    from fedconformal.training import config

    whole = config.paper_settings
    few = {"rounds": 1, "epochs": 1}
    tct = {"linear_rounds": 1, "coordinates": 50, "steps": 2}

    def settings(values: Mapping[str, Any]) -> dict[str, Any]:
        return whole(values) | few | (tct if values.get("method") == "tct" else {})

    monkeypatch.setattr(config, "paper_settings", settings)


def test_what_is_absent_is_trained_for_real(
    command: Command, tmp_path: Path, few_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for part, rows in {"train": 24, "val": 40, "test": 40}.items():
        arrays[f"{part}_images"] = rng.integers(0, 255, (rows, 28, 28), dtype=np.uint8)
        arrays[f"{part}_labels"] = np.arange(rows)[:, None] % 8
    np.savez(tmp_path / "tissuemnist.npz", **arrays)
    monkeypatch.setenv("FEDCONFORMAL_DATA", str(tmp_path))
    logits = tmp_path / "logits"
    logits.mkdir()
    for method in ("fedprox", "central"):
        write_logits(logits, f"tissuemnist_{method}", classes=8)
    arguments = ("paper", "table", "full-results", "--datasets", "tissuemnist", "--logits", logits, "--json")
    absent = {part["name"]: part["command"] for part in command.ok(*arguments).json["absent"]}
    assert list(absent) == ["tissuemnist FedAvg", "tissuemnist TCT"]
    printed = absent["tissuemnist FedAvg"]
    command.ok(*shlex.split(printed)[1:])  # as it says
    after = command.ok(*arguments, "--train").json["rows"]
    ours = [row for row in after if row["method"] in {"FedAvg", "TCT"}]
    assert len(ours) == 6
    assert all(row["differs"].startswith("own run, 80 rows") and "rounds 1 (paper" in row["differs"] for row in ours)
    assert all(0.6 < row["coverage"]["mean"] <= 1 for row in ours)


def test_every_command_that_is_printed_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image", reason="photographs need Pillow")
    from fedconformal.cli.train import setting
    from fedconformal.training.config import Config, paper_settings

    record = made.fitzpatrick_records(1)[0]
    (tmp_path / "fitzpatrick17k").mkdir()
    (tmp_path / "fitzpatrick17k.csv").write_text(f"{made.FITZPATRICK_HEADER}\n{record}\n", "utf-8")
    image.new("RGB", (300, 300)).save(tmp_path / "fitzpatrick17k" / f"{record.partition(',')[0]}.jpg")
    monkeypatch.setenv("FEDCONFORMAL_DATA", str(tmp_path))
    known = load("fitzpatrick17k").train.columns
    source = LogitsFolder(directory=tmp_path)
    for dataset in FULL_RESULTS:
        for method in (*METHODS, "tct-squared"):
            for variant in ("", "iid"):
                words = source.command(dataset, method, variant=variant).words
                given = {
                    key.removeprefix("--").replace("-", "_"): value
                    for key, value in itertools.pairwise(words)
                    if key.startswith("--")
                }
                chosen = dict(setting(value) for key, value in itertools.pairwise(words) if key == "--set")
                taken = ("dataset", "method", "partition")
                values: dict[str, Any] = {key: given[key] for key in taken if key in given}
                config = Config.from_dict(paper_settings(values) | values | chosen)
                assert config.settings.dataset in names()
                assert "column" not in chosen or chosen["column"] in known


def test_without_logits_it_says_what_to_do(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDCONFORMAL_DATA", raising=False)
    assert "say --logits DIR" in command("paper", "table", "full-results").err
    assert "is not a directory" in command("paper", "table", "full-results", "--logits", tmp_path / "no").err
    assert "is no table of the paper" in command("paper", "table", "table-9", "--logits", tmp_path).err


def test_results_need_logits_or_a_record(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDCONFORMAL_DATA", raising=False)
    assert "ends in .md" in command("paper", "results", "-o", tmp_path / "page.html").err
    assert "say --logits DIR" in command("paper", "results", "-o", tmp_path / "page.md").err
    (tmp_path / "page").mkdir()
    record = tmp_path / "page" / "record.json"
    record.write_text('{"tables": {}, "figures": {}}')
    assert "is not a record of results" in command("paper", "results", "-o", tmp_path / "page.md").err
    record.write_text('{"tables": {}, "figures": {}, "missing": {}}')
    assert "never made: " in command.ok("paper", "results", "-o", tmp_path / "page.md").out
    assert "nothing to judge its claims by" in (tmp_path / "page.md").read_text()
