"""All tables and figures on one Markdown page, written by the program and never by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fedconformal._base.files import write_bytes
from fedconformal.errors import InputError
from fedconformal_paper.catalogue import FIGURES, TABLES, Entry
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Table

IMAGES = Path("images") / "results"
LOGITS, DATA = "LOGITS", "DATA"
"""Stand for the directories of logits and of data, which are others on every machine."""

HEAD = """# Results

Every table and figure of the paper (Lu, Yu, Karimireddy, Jordan and Raskar, "Federated conformal predictors for
distributed uncertainty quantification", 2023), made again, with the paper's numbers beside ours. `make results` writes
this page from the logits that are there. Where logits are absent, the command that makes them is given, with LOGITS for
the directory of logits. In tables the last column refers to the notes below. In tables and figures, ten random halves
of the held-out rows calibrate and test. The temperature is fitted on the rows that calibrate, as the paper does.
"""


def write_results(setup: Setup, output: Path) -> list[str]:
    """Write the page, and the figures in images/results beside it; return the names of what is absent."""
    absent: list[str] = []
    images = output.parent / IMAGES
    images.mkdir(parents=True, exist_ok=True)

    def sections() -> Iterator[str]:
        work: list[Entry[Table] | Entry[str]] = [*TABLES.values(), *FIGURES.values()]
        for entry in setup.track(work):
            yield f"\n## {entry.name}\n\n{entry.about[0].upper()}{entry.about[1:]} ({entry.label}).\n\n"
            quiet = replace(setup, track=iter, differences={})
            try:
                made = entry.make(quiet)
            except InputError as error:
                absent.append(entry.name)
                yield f"{error}\n"
                continue
            if isinstance(made, str):
                write_bytes(images / f"{entry.name}.svg", made.encode() + b"\n")
                yield f"![{entry.about}]({(IMAGES / entry.name).as_posix()}.svg)\n"
                yield "".join(f"\n- {remark}" for remark in quiet.remarks()).replace("\n-", "\n\n-", 1)
                yield "\n" if quiet.differences else ""
            else:
                yield made.to_markdown()

    page = HEAD + "".join(sections())
    places = {setup.logits.directory: LOGITS, setup.data_directory: DATA}
    for place, name in places.items():
        page = page.replace(str(place), name)
    write_bytes(output, page.encode())
    return absent
