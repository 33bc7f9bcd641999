"""fedconformal sql, and summarize of its result: the walk of a site whose rows stay in a database."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command
from tests.summaries.databases import DuckDB

pytestmark = pytest.mark.long

CLASSES = ("--classes", "benign,malignant", "--labels", "truth")
SCANS = ("--table", "scans.csv", *CLASSES)


@pytest.fixture
def scans(here: Path) -> Path:
    """A table in a file, as DuckDB reads it too."""
    rng = np.random.default_rng(0)
    first = rng.random(300).round(3)
    lines = [f"{p},{1 - p:.3f},{'benign' if rng.random() < p else 'malignant'}\n" for p in first.tolist()]
    Path("scans.csv").write_text("benign,malignant,truth\n" + "".join(lines))
    return here


def ran(query: str, name: str = "result.csv") -> Path:
    """Run a query in DuckDB, and save its result."""
    Path(name).write_bytes(DuckDB()({"unused": [0.0]}, query))
    return Path(name)


def test_residuals_and_scores(scans: Path, command: Command) -> None:
    Path("n.csv").write_text("prediction,y\n1.5,2\n0.1,0.3\n-4,7\n")
    about = ("--table", "n.csv", "--alpha", "0.2")
    more = ("--site", "s", "--model", "m", "--calibration", "x", "--expires", "2999-06-30")
    residual = ran(command.ok("sql", *about, "--predictions", "prediction", "--labels", "y").out)
    made = command.ok("summarize", residual, "-o", "a.fcs", *more, "--json").json
    assert (made["summaries"][0]["scores"], made["score"]) == (3, "Residual()")
    command.ok("summarize", "n.csv", "--labels", "y", "--score", "residual", "--alpha", "0.2", "-o", "b.fcs", *more)
    assert Path("a.fcs").read_bytes() == Path("b.fcs").read_bytes()
    scores = ran(command.ok("sql", *about, "--scores", "y").out)
    made = command.ok("summarize", scores, "-o", "c.fcs", "--site", "s", "--json").json
    assert made["score"] is None
    assert Path("c.fcs").read_bytes() == fc.Summary.of_scores([2, 0.3, 7], alpha=0.2, site="s").to_bytes()
    command.ok("summarize", scores, "-o", "d.fcs", "--site", "s", "--score", "raps:penalty=0.1")
    expected = fc.Summary.of_scores([2, 0.3, 7], alpha=0.2, site="s", score=fc.RAPS(penalty=0.1))
    assert Path("d.fcs").read_bytes() == expected.to_bytes()


def test_the_page_runs(scans: Path, command: Command) -> None:
    """The first block of docs/sql.md, with the database in this process, and its example of a lazy frame."""
    page = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
    block = re.search(r"```sh\n(.*?)```", page, re.DOTALL)
    assert block
    first, second, third = block[1].replace("\\\n", " ").splitlines()
    *words, _, file = shlex.split(first)[1:]
    query = command.ok(*words).out
    assert (file, second) == ("query.sql", "duckdb -csv -f query.sql > result.csv")
    assert command.ok(*words, "--json").json["query"] + "\n" == query
    ran(query)
    command.ok(*shlex.split(third)[1:])
    command.ok("summarize", "scans.csv", "--labels", "truth", "--site", "clinic-a", "-o", "rows.fcs")
    assert Path("clinic-a.fcs").read_bytes() == Path("rows.fcs").read_bytes()
    example = re.search(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", page, re.DOTALL)
    assert example
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example[1], "docs/sql.md", "exec"), {})  # noqa: S102
    assert printed.getvalue() == example[2]


def test_what_is_refused(scans: Path, command: Command) -> None:
    query = ("sql", "--table", "t")
    command.refuses("one of them", *query)
    command.refuses("one of them", *query, *CLASSES, "--scores", "s")
    result = ran(command.ok("sql", *SCANS).out)
    for options, message in (
        (("--kind", "exact"), "--kind is for rows, and this is the result of a query"),
        (("--from", "logits"), "--from is for rows, and this is the result of a query"),
        (("--score", "raps"), "result.csv: the query is for the score lac, not raps"),
        (("--alpha", "0.2"), "result.csv: the query is for alpha 0.1, not 0.2; leave out --alpha"),
    ):
        command.refuses(message, "summarize", result, "-o", "a.fcs", *options)
    command.ok("summarize", result, "-o", "a.fcs", "--alpha", "0.10")
    command.refuses("give LABELS as well", "summarize", "scans.csv", "-o", "b.fcs")
