"""The pages of results are written by the program, from a record: nothing is lost, typed by hand or shown as a dash."""

import json
import os
from pathlib import Path

import pytest
from fedconformal_paper.catalogue import FIGURES, TABLES
from fedconformal_paper.figures import accuracy
from fedconformal_paper.logits import LogitsFolder
from fedconformal_paper.record import Record
from fedconformal_paper.results import record_of, write_pages, write_results
from fedconformal_paper.setup import Setup

from paper.tests.conftest import write_logits

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
SUPPLIED = Path(os.environ.get("FEDCONFORMAL_DATA", "")) / "logits"
needs_logits = pytest.mark.skipif(
    not (SUPPLIED / "cifar100_tct.npz").exists(), reason="FEDCONFORMAL_DATA has no logits"
)


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    """Made-up logits of two models, and few trials."""
    monkeypatch.setattr(accuracy, "TRIALS", 2)
    logits = tmp_path / "data" / "logits"
    logits.mkdir(parents=True)
    write_logits(logits, "dermamnist_central")
    write_logits(logits, "dermamnist_tct")
    return Setup(logits=LogitsFolder(directory=logits), count=2)


def written(output: Path) -> dict[str, bytes]:
    """Read all that stands beside a page."""
    return {str(path.relative_to(output.parent)): path.read_bytes() for path in output.parent.rglob("*.*")}


def test_the_pages_are_complete_and_repeatable(setup: Setup, tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        done = write_results(setup, tmp_path / name / "results.md")
        found.append(written(tmp_path / name / "results.md"))
        assert done.kept == []
        assert "fig1" not in done.absent
        assert "quantile-compare" in done.absent
    assert found[0] == found[1]
    assert {"results.md", "results/tables.md", "results/figures.md", "results/record.json"} <= set(found[0])
    for name, data in found[0].items():
        text = data.decode()
        assert str(tmp_path) not in text
        assert name.endswith(".svg") or "| - |" not in text
    assert "-o LOGITS/DATASET_METHOD" in found[0]["results.md"].decode()


def test_what_was_measured_is_kept_when_its_logits_are_gone(setup: Setup, tmp_path: Path) -> None:
    output = tmp_path / "docs" / "results.md"
    write_results(setup, output)
    before = written(output)
    (setup.logits.directory / "dermamnist_tct.npz").unlink()
    done = write_results(setup, output)
    assert written(output) == before
    assert "full-results: dermamnist TCT" in done.kept
    assert "accuracy-vs-set-size" in done.kept  # it would be drawn with less


def test_what_is_measured_again_takes_the_place_of_the_record(setup: Setup, tmp_path: Path) -> None:
    output = tmp_path / "docs" / "results.md"
    write_results(setup, output)
    before = written(output)
    write_logits(setup.logits.directory, "dermamnist_tct", sharp=4.0)
    assert write_results(setup, output).kept == []
    after = written(output)
    assert before["results/tables.md"] != after["results/tables.md"]
    sizes = [
        {row[1]: row[6].mean for row in Record.from_dict(json.loads(found)).tables["full-results"].rows}
        for found in (before["results/record.json"], after["results/record.json"])
    ]
    assert sizes[1]["TCT"] < sizes[0]["TCT"]
    assert sizes[1]["central"] == sizes[0]["central"]


def test_ratios_follow_the_sizes_also_where_one_of_them_is_kept(setup: Setup, tmp_path: Path) -> None:
    output = tmp_path / "docs" / "results.md"
    write_results(setup, output)
    (setup.logits.directory / "dermamnist_central.npz").unlink()
    write_logits(setup.logits.directory, "dermamnist_tct", sharp=0.5)
    write_results(setup, output)
    tables = Record.read(record_of(output)).tables
    sizes = {row[1:3]: row[6].mean for row in tables["full-results"].rows}
    (ratio, _) = [row[5] for row in tables["relative-inefficiency"].rows]
    assert ratio == pytest.approx(sizes["TCT", 0.9] / sizes["central", 0.9], abs=0.006)


def test_the_pages_in_the_docs_are_what_the_record_gives(tmp_path: Path) -> None:
    output = tmp_path / "results.md"
    (tmp_path / "results").mkdir()
    (tmp_path / "images" / "results").mkdir(parents=True)
    write_pages(Record.read(record_of(PAGE)), output, runs=ROOT / "results")
    for name, data in written(output).items():
        assert (PAGE.parent / name).read_bytes() == data, f"docs/{name}: run `make results`"


def test_the_record_in_the_docs_is_stable(tmp_path: Path) -> None:
    record = Record.read(record_of(PAGE))
    assert record.write(tmp_path / "record.json", {}) == record
    assert (tmp_path / "record.json").read_bytes() == record_of(PAGE).read_bytes()
    assert set(record.tables) == set(TABLES)
    assert set(record.figures) | set(record.missing) == set(FIGURES)


def test_the_page_of_differences_has_the_numbers_of_the_record() -> None:
    text = (ROOT / "docs" / "paper-and-code.md").read_text()
    found: dict[str, list[str]] = {}
    for method, rule, size, coverage, _ in Record.read(record_of(PAGE)).tables["threshold-rules"].rows:
        if method in ("TCT", "FedAvg"):
            found.setdefault(rule, [])[:0] = [f"{size.mean:.2f}", f"{coverage.mean:.4f}"]
    assert found
    for rule, cells in found.items():
        assert f" | {' | '.join(cells)} |" in text, rule


@needs_logits
def test_the_record_is_what_the_logits_give() -> None:
    """The whole takes half a minute, see below."""
    record = Record.read(record_of(PAGE))
    setup = Setup(logits=LogitsFolder(directory=SUPPLIED), datasets=("dermamnist", "pathmnist"))
    made, _ = TABLES["full-results"].make(setup).with_kept(record.tables["full-results"])
    for name in ("dermamnist central", "pathmnist central"):
        ours, recorded = ([p for p in table.parts if p.name == name] for table in (made, record.tables["full-results"]))
        assert ours[0].see == recorded[0].see
        for row, before in zip(ours[0].rows, recorded[0].rows, strict=True):
            assert row[:4] == before[:4]
            # another processor may round a score across the threshold
            assert (*row[4], *row[6]) == pytest.approx((*before[4], *before[6]), abs=0.003)
