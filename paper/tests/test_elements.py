"""paper/elements.csv, the paper element by element: what it names is there, and the count on the page is its count."""

import csv
import importlib
from collections import Counter
from functools import reduce
from pathlib import Path

import pytest
from fedconformal_paper.record import Record
from fedconformal_paper.results import record_of

import fedconformal as fc
from tests.cli.command import Command

ROOT = Path(__file__).parents[2]
with (ROOT / "paper" / "elements.csv").open(encoding="utf-8", newline="") as file:
    ELEMENTS = list(csv.DictReader(file))
CHECKS = sorted({row["check"] for row in ELEMENTS if row["check"]})
STATUSES = ("works", "partly", "absent")


def test_the_page_counts_the_elements() -> None:
    assert [int(row["number"]) for row in ELEMENTS] == list(range(1, 108))
    counts = Counter(row["status"] for row in ELEMENTS)
    assert set(counts) == set(STATUSES)
    page = " ".join((ROOT / "docs" / "paper-and-code.md").read_text().split())
    said = "Of {} elements of the paper {works} work, {partly} work partly and {absent} are absent"
    assert said.format(len(ELEMENTS), **counts) in page
    code, others = (sum(row["note"].startswith(start) for row in ELEMENTS) for start in ("code only", "others' model"))
    assert f"{code} do in code only, as images or weights are not here, and {others} with models" in page


def test_what_does_not_work_says_why_and_the_rest_has_a_check() -> None:
    assert not [row["number"] for row in ELEMENTS if row["status"] != "works" and not row["note"]]
    assert not [row["number"] for row in ELEMENTS if row["status"] == "works" and not row["check"]]


@pytest.mark.parametrize("kind", ["tdigest", "ddsketch", "ranks"])
def test_kinds_of_summaries(kind: str) -> None:
    assert f"kind:{kind}" in CHECKS
    assert fc.Summary.of_scores([0.1, 0.2, 0.3], kind=kind).n == 3


@pytest.mark.parametrize("check", [one for one in CHECKS if one.startswith("command:")])
def test_commands(check: str, command: Command) -> None:
    assert command(*check.removeprefix("command:").split(), "--help").code == 0


@pytest.mark.parametrize("check", [one for one in CHECKS if one.startswith(("name:", "py:"))])
def test_names(check: str) -> None:
    kind, _, path = check.partition(":")
    module, _, name = ("fedconformal", "", path) if kind == "name" else path.rpartition(".")
    assert callable(reduce(getattr, name.split("."), importlib.import_module(module)))


def test_tables_figures_and_sections_of_the_docs() -> None:
    record = Record.read(record_of(ROOT / "docs" / "results.md"))
    for row in ELEMENTS:
        kind, _, name = row["check"].partition(":")
        if kind == "table":
            assert name in record.tables
        elif kind == "figure":
            assert (name in record.figures) == (row["status"] != "absent")
        elif kind == "docs":
            page, _, section = name.partition("#")
            assert f"## {section.replace('-', ' ')}" in (ROOT / "docs" / page).read_text().lower()


def test_data_sets_networks_methods_and_presets() -> None:
    from fedconformal._base.registry import members
    from fedconformal.training.config import paper_settings
    from fedconformal.training.data.sets.source import DataSource
    from fedconformal.training.models import Network
    from fedconformal.training.trainer import Trainer

    known = {"dataset": DataSource, "network": Network, "method": Trainer}
    for check in CHECKS:
        kind, _, name = check.partition(":")
        if kind in known:
            assert name in members(known[kind]), check
        elif kind == "preset":
            about = {"dataset": name} if name.startswith("fitz") else {"dataset": "cifar10", "method": name}
            assert paper_settings(about)["batch"] == 64
