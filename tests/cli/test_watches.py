"""Rows that a watch has counted calibrate nothing: a site refuses them."""

import csv
from pathlib import Path

import pytest

from fedconformal.monitoring.store import Watch
from tests.cli.command import Command, site_rows

NAMES = ["w", "x", "y", "z"]


def write(name: str, seed: int, first: int = 0, *, flipped: bool = False) -> None:
    """Write one site's rows as tables: probabilities with ids, labels with ids."""
    probs, labels = site_rows(seed, rows=120)
    if flipped:  # the model is wrong on nearly every row
        labels = probs.argmin(axis=1)
    ids = [f"scan-{first + k}" for k in range(len(labels))]
    with Path(f"{name}-probs.csv").open("w", newline="") as file:
        rows = ([one, *row] for one, row in zip(ids, probs.tolist(), strict=True))
        csv.writer(file).writerows([["id", *NAMES], *rows])
    with Path(f"{name}-labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "label"], *([one, NAMES[y]] for one, y in zip(ids, labels, strict=True))])


@pytest.fixture
def watched(here: Path, command: Command) -> Path:
    """A predictor, a watch of it that has rung, and new rows."""
    write("old", 1)
    command.ok("summarize", "old-probs.csv", "old-labels.csv", "--id", "id", "--site", "a", "-o", "old.fcs")
    command.ok("calibrate", "old.fcs", "-o", "predictor.json")
    write("seen", 2, 1000, flipped=True)
    command.ok("monitor", "start", "watch.db", "predictor.json")
    command.ok("monitor", "add", "watch.db", "seen-probs.csv", "seen-labels.csv", "--id", "id")
    assert command("monitor", "status", "watch.db").code == 1
    write("new", 3, 2000)
    for what in ("probs", "labels"):
        lines = [line.partition(",")[2] for line in Path(f"new-{what}.csv").read_text().splitlines()]
        Path(f"bare-{what}.csv").write_text("\n".join(lines))
    return here


def summarize(name: str, *options: str) -> tuple[str, ...]:
    return "summarize", f"{name}-probs.csv", f"{name}-labels.csv", "--site", "a", "-o", f"{name}.fcs", *options


WATCH = ("--id", "id", "--watch", "watch.db")


def test_a_site_refuses_rows_that_were_counted(watched: Path, command: Command) -> None:
    counted = "seen-probs.csv: line 2, scan-1000, was counted by watch.db, and 119 more, so it is not new"
    command.refuses(counted, *summarize("seen", *WATCH))
    command.ok(*summarize("new", *WATCH))
    command.ok(*summarize("seen", "--id", "id"))  # for rows that are said to be watched
    command.refuses("--watch compares ids; name their column with --id", *summarize("bare", "--watch", "watch.db"))
    command.refuses("absent.db", *summarize("new", "--id", "id", "--watch", "absent.db"))
    with Watch.open("watch.db") as held:
        held.purge(10**6)
    purged = "120 rows were purged; whether these are among them is not known any more"
    assert purged in command.ok(*summarize("seen", *WATCH)).err
