"""fedconformal monitor: from a predictor and files of rows and outcomes to "holds", "too early" or "alarm"."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.cli.monitor_rows import WatchReader
from fedconformal.cli.rows import Columns
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.messages import read_periods
from fedconformal.monitoring.store import Watch
from tests.cli.command import Command, write_columns

pytestmark = pytest.mark.long

SHIFT = 4.0
CLASSES = ["benign", "malignant", "unsure"]


def rows_of(rows: int, seed: int, *, shift: float = 0.0) -> tuple[Any, Any]:
    """Probabilities and labels; a shift makes the model wrong."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    y = (x + rng.normal(size=(rows, 3)) + shift * np.array([1, 0, -1])).argmax(axis=1)
    return fc.softmax(1.5 * x), y


def columns_of(probs: Any) -> dict[str, Any]:
    return dict(zip(CLASSES, np.round(probs, 6).T.tolist(), strict=True))


def write_stream(name: str, seed: int, *, rows: int = 300, shift: float = 0.0, known: int = 290) -> None:
    """Write predictions and outcomes, ten rows a day in October, or twenty a day in November where they shift."""
    probs, y = rows_of(rows, seed, shift=shift)
    ids = [f"{name}{k}" for k in range(rows)]
    days = [f"2026-11-{1 + k // 20:02d}" if shift else f"2026-10-{1 + k // 10:02d}" for k in range(rows)]
    write_columns(f"{name}-rows.csv", {"id": ids, "time": days, **columns_of(probs)})
    came = {"id": ids, "time": [f"{day}T12:00" for day in days], "label": [CLASSES[label] for label in y]}
    write_columns(f"{name}-outcomes.csv", {key: column[:known] for key, column in came.items()})


@pytest.fixture
def clinic(here: Path, command: Command) -> Path:
    """Two sites, a predictor, a watch of it, a quiet stream and one that shifts."""
    for k, site in enumerate("ab"):
        probs, y = rows_of(400, k)
        write_columns(f"{site}.csv", {**columns_of(probs), "label": [CLASSES[label] for label in y]})
        command.ok("summarize", f"{site}.csv", "--labels", "label", "-o", f"{site}.fcs")
    command.ok("calibrate", "a.fcs", "b.fcs", "-o", "predictor.json")
    command.ok("monitor", "start", "watch.db", "predictor.json")
    write_stream("quiet", 10)
    write_stream("drift", 11, shift=SHIFT)
    return here


def test_from_start_to_alarm(clinic: Path, command: Command) -> None:
    limit = limits_of(fc.load("predictor.json")).rate
    started = command.ok("monitor", "start", "other.db", "predictor.json", "--json").json
    assert (started["limits"]["rate"], started["site"]) == (limit, None)
    added = command.ok("monitor", "add", "watch.db", "quiet-rows.csv", "quiet-outcomes.csv", "--json").json
    assert added["added"]["rows"] == 300
    assert added["added"]["counted"] == 290
    assert added["verdict"] == "too early"
    assert command.ok("monitor", "status", "watch.db").out.startswith("It is too early to tell: 290 outcomes are known")
    done = command.ok("monitor", "add", "watch.db", "drift-rows.csv", "drift-outcomes.csv")
    assert "The promise is not kept: alarm of all rows since 2026-11-" in done.out
    done = command("monitor", "status", "watch.db", "--json")
    assert done.code == 1
    (whole,) = done.json["streams"]
    assert (whole["verdict"], whole["known"], whole["waiting"]) == ("alarm", 580, 20)


def test_sets_are_taken_as_predict_writes_them(clinic: Path, command: Command) -> None:
    command.ok("monitor", "start", "two.db", "predictor.json")
    command.ok("predict", "predictor.json", "quiet-rows.csv", "--id", "id", "-o", "sets.csv")
    command.ok("monitor", "add", "watch.db", "sets.csv", "quiet-outcomes.csv")
    columns = ("--classes", ",".join(CLASSES))
    command.refuses("name the column of outcomes with --labels", "monitor", "add", "two.db", *["sets.csv"] * 2)
    command.refuses("--classes is for outputs of a model", "monitor", "add", "two.db", "sets.csv", *columns)
    command.ok("monitor", "add", "two.db", "quiet-rows.csv", "quiet-outcomes.csv", *columns)
    one, two = (command.ok("monitor", "status", name, "--json").json["streams"] for name in ("watch.db", "two.db"))
    assert one == two


def test_a_site_is_watched_by_its_own_limit(clinic: Path, command: Command) -> None:
    limit = "give the site's own summary, or state a limit by hand (--summary)"
    command.refuses(limit, "monitor", "start", "a.db", "predictor.json", "--site", "a")
    only = "--labels goes with --reference"
    command.refuses(only, "monitor", "start", "a.db", "predictor.json", "--labels", "label")
    assert not Path("a.db").exists()
    about = ("--site", "a", "--summary", "a.fcs", "--reference", "a.csv", "--labels", "label")
    started = command.ok("monitor", "start", "a.db", "predictor.json", *about, "--json").json
    summary = fc.Summary.from_bytes(Path("a.fcs").read_bytes())
    assert started["limits"]["rate"] == limits_of(fc.load("predictor.json"), site="a", summaries=[summary]).rate
    assert started["changes"] is True
    command.ok("monitor", "add", "a.db", "drift-rows.csv", "drift-outcomes.csv")
    done = command("monitor", "status", "a.db")
    assert "No change of scores detected in 300 rows." in done.out
    sent = command.ok("monitor", "send", "a.db", "-o", "a.fcw", "--json").json
    periods = read_periods(Path("a.fcw").read_bytes())
    assert {period.site for period in periods} == {"a"}
    assert sent["messages"] == len(periods) == 15  # one a day
    by_hand = command.ok("monitor", "start", "b.db", "predictor.json", "--site", "b", "--limit", "0.2", "--json").json
    assert (by_hand["limits"]["rate"], by_hand["limits"]["failure"]) == (0.2, 0.0)


def test_ids_that_look_like_formulas(clinic: Path, command: Command) -> None:
    """No spreadsheet runs what is written, numbers stay numbers, and the watch still knows its rows."""
    ids = ["=1+1", "-A12", "@x", "+y", "-0.5", "plain", "=cmd|' /C calc'!A0"]
    probs, _ = rows_of(len(ids), 3)
    write_columns("odd.csv", {"id": ids, **columns_of(probs)})
    command.ok("predict", "predictor.json", "odd.csv", "--id", "id", "-o", "sets.csv")
    with Path("sets.csv").open(newline="") as file:
        written = [row["id"] for row in csv.DictReader(file)]
    assert written == ["'=1+1", "'-A12", "'@x", "'+y", "-0.5", "plain", "'=cmd|' /C calc'!A0"]
    write_columns("came.csv", {"id": ids, "label": ["benign"] * len(ids)})
    added = command.ok("monitor", "add", "watch.db", "sets.csv", "came.csv", "--json").json["added"]
    assert added["counted"] == len(ids)


def test_purged_rows_are_gone(clinic: Path, command: Command) -> None:
    add = ("monitor", "add", "watch.db", "quiet-rows.csv", "quiet-outcomes.csv", "--forget", "0", "--json")
    done = command.ok(*add).json["forgotten"]
    assert (done["rows"], done["waiting"]) == (300, 10)
    status = command.ok("monitor", "status", "watch.db").out
    assert "10 rows were forgotten while they waited; they count as covered" in status
    assert command("monitor", "add", "watch.db").code == 2
    assert command.ok("monitor", "add", "watch.db", "--forget", "1", "--json").json["forgotten"]["rows"] == 0


POISONED = {
    "id,time,label\nquiet0,soon,benign\n": "line 2, column time holds 'soon', which is no time",
    "id,size,labels\nz,1,other\n": "'other', which is no class of the predictor",
    "id,size,labels\nz,1,benign\nquiet0,1,benign\n": "rows: the id quiet0 is there already",
    "name,label\nquiet0,benign\n": "name the column of ids with --id",
}


def test_a_poisoned_file_is_refused_as_a_whole(clinic: Path, command: Command) -> None:
    command.ok("monitor", "add", "watch.db", "quiet-rows.csv")
    before = command.ok("monitor", "status", "watch.db", "--json").json
    for text, words in POISONED.items():
        Path("bad.csv").write_text(text)
        command.refuses(words, "monitor", "add", "watch.db", "bad.csv")
    assert command.ok("monitor", "status", "watch.db", "--json").json == before


def test_what_came_before_is_said(clinic: Path, command: Command) -> None:
    done = command.ok("monitor", "add", "watch.db", "quiet-outcomes.csv")
    assert "290 outcomes of rows that were not added yet: counted when these come" in done.err
    done = command.ok("monitor", "add", "watch.db", "quiet-rows.csv")
    assert "added 300 rows and 290 outcomes" in done.out
    done = command.ok("monitor", "add", "watch.db", "quiet-outcomes.csv")
    assert "290 outcomes that came before with the same value: counted once" in done.err
    Path("other.csv").write_text("id,label\nquiet0,unsure\nquiet1,unsure\nquiet2,unsure\nquiet3,unsure\n")
    assert "with another value: the first one counts" in command.ok("monitor", "add", "watch.db", "other.csv").err


def test_intervals_and_losses(here: Path, command: Command) -> None:
    rng = np.random.default_rng(0)
    residuals = fc.Summary.of_scores(np.abs(rng.normal(size=300)), score=fc.Residual(), site="a")
    fc.calibrate([residuals], alpha=0.1).save("numbers.json")
    write_columns("numbers.csv", {"id": ["p", "q"], "prediction": [1.0, 2.0]})
    command.ok("predict", "numbers.json", "numbers.csv", "--id", "id", "-o", "intervals.csv")
    write_columns("y.csv", {"id": ["p", "q", "z"], "label": [1.1, 99.0, ""]})
    command.ok("monitor", "start", "n.db", "numbers.json")
    command.ok("monitor", "add", "n.db", "intervals.csv", "y.csv", "--skip-missing")
    assert command.ok("monitor", "status", "n.db", "--json").json["streams"][0]["misses"] == 1
    curves = rng.random((400, 1)) * np.array([0.8, 0.5, 0.3, 0.1, 0.02])
    losses = fc.LossSummary.of_losses(curves, thresholds=range(5), site="a")
    fc.calibrate([losses], risk=0.2).save("risk.json")
    command.ok("monitor", "start", "r.db", "risk.json")
    write_columns("rows.csv", {"id": ["p", "q"], "time": ["2026-10-01", "2026-10-01T08:00"]})
    write_columns("losses.csv", {"id": ["p", "q"], "loss": [0.25, 0.5]})
    command.ok("monitor", "add", "r.db", "rows.csv", "losses.csv")
    assert command.ok("monitor", "status", "r.db", "--json").json["streams"][0]["misses"] == 0.75
    write_columns("losses.csv", {"id": ["z"], "loss": [1.5]})
    command.refuses("expected a loss from 0 to 1", "monitor", "add", "r.db", "losses.csv")


def test_table_options_mean_what_they_mean_elsewhere(here: Path, command: Command) -> None:
    fc.calibrate([fc.Summary.of_scores(np.arange(99.0), score=fc.Residual())], alpha=0.1).save("p.json")
    write_columns("all.csv", {"pid": ["p", "q", "r"], "lo": [0.0, "", 2.0], "hi": [1.0, 2.0, 3.0], "y": ["", 1.5, 9.0]})
    write_columns("sites.csv", {"pid": ["r", "p"], "hospital": ["south", "north"]})
    command.ok("monitor", "start", "w.db", "p.json")
    add = ("monitor", "add", "w.db", "all.csv", "--id", "pid", "--labels", "y", "--predictions", "lo,hi")
    command.refuses("column lo is empty", *add)
    for more in (("--classes", "lo,hi"), ("--positive", "lo"), ("--from", "logits")):
        command.refuses("is for classes, and these are numbers", *add, *more)
    done = command.ok(*add, "--skip-missing", "--sites", "sites.csv:hospital", "--json")
    assert "all.csv: 1 row left out: line 3, column lo is empty" in done.err
    assert (done.json["added"]["rows"], done.json["added"]["early"]) == (2, 1)
    options = Columns(ids="pid", predictions="lo,hi", skip_missing=True)
    with Watch.open(Path("w.db")) as held:
        found = WatchReader(held, options, site="sites.csv:hospital").read_predicted(Path("all.csv"))
    assert (found.sites, found.ends.tolist()) == (["north", "south"], [[0, 1], [2, 3]])  # type: ignore[union-attr]


def test_groups_have_limits_of_their_own(here: Path, command: Command) -> None:
    probs, y = rows_of(600, 0)
    made = columns_of(probs)
    sex = ["F" if k % 2 else "M" for k in range(600)]
    write_columns("a.csv", {**made, "sex": sex, "label": [CLASSES[label] for label in y]})
    command.ok("summarize", "a.csv", "--labels", "label", "--groups", "sex", "-o", "a.fcs")
    command.ok("calibrate", "a.fcs", "--guarantee", "by-group", "-o", "predictor.json")
    command.ok("monitor", "start", "watch.db", "predictor.json")
    ids = [f"p{k}" for k in range(600)]
    write_columns("rows.csv", {"id": ids, "sex": sex, **made})
    late = [CLASSES[0] if one == "M" else CLASSES[label] for one, label in zip(sex, y, strict=True)]
    write_columns("outcomes.csv", {"id": ids, "label": late})
    command.ok("monitor", "add", "watch.db", "rows.csv", "outcomes.csv")
    found = command("monitor", "status", "watch.db", "--json").json
    verdicts = {one["name"]: one["verdict"] for one in found["streams"]}
    assert verdicts["sex=M"] == "alarm"
    assert verdicts["sex=F"] != "alarm"


@pytest.mark.parametrize("prefix", ["", "p_"])
def test_one_table_of_probabilities_and_outcomes(clinic: Path, command: Command, prefix: str) -> None:
    """Ids, times, sites, probabilities and outcomes in one file; a row without an outcome waits."""
    probs, y = rows_of(300, 10)
    table = {"patient_id": [f"p{k}" for k in range(300)], "hospital": ["north", "south"] * 150}
    table |= {"scan_date": [f"2026-10-{1 + k // 10:02d}" for k in range(300)], "sex": ["F", "M", "M"] * 100}
    table |= {f"{prefix}{name}": column for name, column in columns_of(probs).items()}
    table["diagnosis"] = [CLASSES[label] if k < 290 else "" for k, label in enumerate(y)]
    write_columns("all.csv", table)
    command.ok("monitor", "start", "w.db", "predictor.json")
    named = ("--id", "patient_id", "--labels", "diagnosis", "--sites", "hospital", "--time")
    added = command.ok("monitor", "add", "w.db", "all.csv", *named, "scan_date", "--json").json["added"]
    assert (added["rows"], added["counted"]) == (300, 290)
    (whole,) = command.ok("monitor", "status", "w.db", "--json").json["streams"]
    missed = (~fc.load("predictor.json").predict_set(probs.round(6)))[range(290), y[:290]].sum()
    assert (whole["known"], whole["misses"], whole["waiting"]) == (290, missed, 10)
    command.refuses("scan", "monitor", "add", "w.db", "all.csv", *named, "scan")


def test_a_site_refuses_rows_that_were_counted(clinic: Path, command: Command) -> None:
    """Rows that a watch has counted calibrate nothing."""
    for seed, name in enumerate(("seen", "new")):
        write_stream(name, 12 + seed, known=300)
    command.ok("monitor", "add", "watch.db", "seen-rows.csv", "seen-outcomes.csv")

    def summarize(name: str, *options: str) -> tuple[str, ...]:
        files = (f"{name}-rows.csv", f"{name}-outcomes.csv")
        return "summarize", *files, "--labels", "label", "--site", "a", "-o", f"{name}.fcs", *options

    ids = ("--id", "id", "--drop", "time")
    counted = "seen-rows.csv: line 2, seen0, was counted by watch.db, and 299 more, so it is not new"
    command.refuses(counted, *summarize("seen", *ids, "--watch", "watch.db"))
    command.ok(*summarize("new", *ids, "--watch", "watch.db"))
    command.ok(*summarize("seen", *ids))  # for rows that are said to be watched
    bare = summarize("new", "--drop", "id,time", "--watch", "watch.db")
    command.refuses("--watch compares ids; name their column with --id", *bare)
    command.refuses("absent.db", *summarize("new", *ids, "--watch", "absent.db"))
    command.ok("monitor", "add", "watch.db", "--forget", "0")
    purged = "300 rows were purged, and cannot be compared with these any more"
    assert purged in command.ok(*summarize("seen", *ids, "--watch", "watch.db")).err


def test_a_watch_makes_its_page(clinic: Path, command: Command) -> None:
    command.refuses("watch.db: nothing was added so far", "monitor", "combine", "watch.db")
    command.ok("monitor", "add", "watch.db", "quiet-rows.csv", "quiet-outcomes.csv")
    done = command.ok("monitor", "combine", "watch.db", "-o", "page.html")
    assert done.out.startswith("too early: ")
    page = Path("page.html").read_text("utf-8")
    assert fc.load("predictor.json").sentence() in page
    assert "to 2026-10-30. Predictor" in page
