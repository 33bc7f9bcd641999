"""Writing of the result pages: new measurements, the updated record, and rendered pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fedconformal._base.files import write_bytes
from fedconformal_paper.evidence import Evidence
from fedconformal_paper.figures.answer import answer, lines
from fedconformal_paper.pages import ANSWER, FIGURES_PAGE, IMAGES, TABLES_PAGE, figures_page, main_page, tables_page
from fedconformal_paper.record import DATA, LOGITS, Record, measured
from fedconformal_paper.runs import read_runs
from fedconformal_paper.setup import Setup


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Entries that could not be measured: kept from the record, or absent."""

    kept: list[str]
    absent: list[str]


def record_of(output: Path) -> Path:
    """Return the path of a page's record, in the folder of the page's name with the other pages."""
    return output.parent / output.stem / "record.json"


def write_results(setup: Setup, output: Path, *, runs: Path | None = None) -> Outcome:
    """Write the page, the other pages in the folder of its name, and the figures in images/results next to it."""
    place, images = record_of(output), output.parent / IMAGES
    setup = _with_whole_paths(setup)
    for folder in (place.parent, images):
        folder.mkdir(parents=True, exist_ok=True)
    record, kept = measured(Record.read(place), setup, images)
    record = record.write(place, {setup.logits.directory: LOGITS, setup.data_directory: DATA})
    write_pages(record, output, runs=runs)
    return Outcome(kept=kept, absent=list(record.missing))


def _with_whole_paths(setup: Setup) -> Setup:
    """Return the setup with absolute paths, which the record can replace with placeholders."""
    logits = replace(setup.logits, directory=setup.logits.directory.resolve())
    return replace(setup, logits=logits, data=setup.data and setup.data.resolve())


def write_pages(record: Record, output: Path, *, runs: Path | None = None) -> None:
    """Write all pages from a record and the runs of a directory; nothing is measured."""
    folder = record_of(output).parent
    evidence = Evidence(record=record, runs=read_runs(runs))
    shown = lines(evidence)
    if shown:
        write_bytes(output.parent / IMAGES / f"{ANSWER}.svg", answer(shown).encode() + b"\n")
    write_bytes(output, main_page(evidence, folder.name, drawn=bool(shown)).encode())
    write_bytes(folder / f"{TABLES_PAGE}.md", tables_page(record, output.name).encode())
    write_bytes(folder / f"{FIGURES_PAGE}.md", figures_page(record, output.name).encode())
