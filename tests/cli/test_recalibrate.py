"""`calibrate --replaces` and `verify --replaces` as a coordinator uses them, and what they refuse."""

import json
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command, site_rows

pytestmark = pytest.mark.long

OLD = [f"site-{k}.fcs" for k in range(3)]
NEW = [f"new/site-{k}.fcs" for k in range(3)]
ALARM = ("--why", "alarm at site-1", "--rows", "new")


@pytest.fixture
def fresh(calibrated: Path, command: Command) -> Path:
    """Three sites with a predictor, and summaries of new rows."""
    Path("new").mkdir()
    for k in range(3):
        probs, labels = site_rows(50 + k)
        np.save(f"new/probs-{k}.npy", probs)
        np.save(f"new/labels-{k}.npy", labels)
        command.ok("summarize", f"new/probs-{k}.npy", f"new/labels-{k}.npy", "-o", f"new/site-{k}.fcs")
    return calibrated


def test_from_an_alarm_to_the_next_predictor(fresh: Path, command: Command) -> None:
    done = command.ok("calibrate", "--replaces", "predictor.json", *NEW, "-o", "next.json", *ALARM)
    assert "calibrated anew on rows that no watch had counted." in done.out
    assert "certified from 180 scores of 3 sites" in done.out
    shown = command.ok("show", "next.json").out
    assert "alarm at site-1" in shown
    assert fc.load("predictor.json").digest() in shown
    assert command.ok("verify", "next.json", *NEW, "--replaces", "predictor.json", "--json").json["confirmed"]
    alone = command("verify", "next.json", *NEW)
    assert (alone.code, "give the one that it replaces" in alone.out) == (1, True)
    other = command("verify", "predictor.json", *OLD, "--replaces", "next.json")
    assert (other.code, "names no predictor that it replaces" in other.out) == (1, True)


def test_watched_rows_promise_nothing(fresh: Path, command: Command) -> None:
    done = command.ok(
        "calibrate", "--replaces", "predictor.json", *NEW, "-o", "next.json", "--why", "alarm", "--rows", "watched"
    )
    assert "estimated from 180 scores" in done.out
    assert "nothing is promised: rows that a watch has counted are not like those to come" in done.out
    checked = command.ok("evaluate", "next.json", "test-probs.npy", "test-labels.npy")
    assert "nothing was certified, as rows that a watch has counted are not like" in checked.out
    answer = command.ok(
        "calibrate",
        "--replaces",
        "predictor.json",
        *NEW,
        "-o",
        "next.json",
        "--why",
        "alarm",
        "--rows",
        "watched",
        "--json",
    ).json
    assert answer["certificate"]["status"] == "estimated"
    command.ok("verify", "next.json", *NEW, "--replaces", "predictor.json")


def test_what_was_certified_before_stays_as_it_is(fresh: Path, command: Command) -> None:
    before = Path("predictor.json").read_bytes()
    command.ok("calibrate", "--replaces", "predictor.json", *NEW, "-o", "next.json", "--rows", "new")
    assert Path("predictor.json").read_bytes() == before
    done = command("calibrate", "--replaces", "predictor.json", *NEW, "-o", "next2.json", "--why", "alarm")
    assert (done.code, "(--rows)" in done.err) == (2, True)
    done = command("calibrate", "--replaces", "predictor.json", *NEW, "-o", "predictor.json", "--rows", "new")
    assert done.code == 2
    assert "would be lost" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--rows", "planned"], "'planned' is not one of"),
        (["--why", "x" * 300, "--rows", "new"], "expected a line of up to 200 characters"),
        (["--risk", "0.1"], "leave out risk (--risk)"),
        (["--score", "topk"], "the summaries hold scores of LAC(), not of TopK"),
        (["--guarantee", "nothing"], "nothing"),
        (["--alpha", "2"], "alpha"),
    ],
)
def test_bad_use_is_one_line(options: list[str], words: str, fresh: Path, command: Command) -> None:
    done = command("calibrate", "--replaces", "predictor.json", *NEW, "-o", "next.json", "--rows", "new", *options)
    assert done.code == 2
    assert words in done.err
    assert not Path("next.json").exists()


def test_bad_files_are_one_line(fresh: Path, command: Command) -> None:
    for predictor, words in (("site-0.fcs", "not a fedconformal predictor"), ("absent.json", "cannot be read")):
        done = command("calibrate", "--replaces", predictor, *NEW, "-o", "next.json", "--rows", "new")
        assert (done.code, words in done.err) == (2, True)
    text = Path("predictor.json").read_text()
    Path("changed.json").write_text(text.replace('"alpha": 0.1', '"alpha": 0.2', 1))
    assert "altered" in command("calibrate", "--replaces", "changed.json", *NEW, "-o", "next.json", "--rows", "new").err
    done = command("calibrate", "--replaces", "predictor.json", *OLD, "-o", "next.json", *ALARM)
    assert done.code == 2
    assert "the summary of site 'site-0' calibrated the predictor that is replaced" in done.err
    command.ok("summarize", "new/probs-0.npy", "new/labels-0.npy", "--score", "topk", "-o", "other.fcs")
    done = command("calibrate", "--replaces", "predictor.json", "other.fcs", "-o", "next.json", "--rows", "new")
    assert "summarise with that, or name the new score (--score)" in done.err
    command.ok(
        "calibrate", "--replaces", "predictor.json", "other.fcs", "-o", "next.json", "--rows", "new", "--score", "topk"
    )


def test_signed_predictors_and_summaries_keep_working(fresh: Path, command: Command) -> None:
    keys = {}
    for k in range(3):
        rows = (f"new/probs-{k}.npy", f"new/labels-{k}.npy")
        command.ok("summarize", *rows, "--calibration", "june", "--site", f"site-{k}", "-o", NEW[k])
        keys[f"site-{k}"] = command.ok("sign", NEW[k], "--key", f"{k}.key", "--new-key", "--json").json["public_key"]
    Path("keys.json").write_text(json.dumps(keys))
    signed = ("--signed", "keys.json", "--calibration", "june")
    command.ok("calibrate", "--replaces", "predictor.json", *NEW, "-o", "next.json", *ALARM, *signed)
    command.ok("verify", "next.json", *NEW, "--replaces", "predictor.json", "--signed", "keys.json")
    key = command.ok("sign", "next.json", "--key", "c.key", "--new-key", "--json").json["public_key"]
    done = command.ok("verify", "next.json", *NEW, "--coordinator", key)  # which confirms what it replaces, too
    assert "confirmed" in done.out


def test_intervals_and_losses(folder: Path, command: Command) -> None:
    rng = np.random.default_rng(0)
    for name in ("old", "new"):
        np.save(f"{name}-predictions.npy", np.zeros(80))
        np.save(f"{name}-y.npy", rng.normal(size=80))
        rows = (f"{name}-predictions.npy", f"{name}-y.npy")
        command.ok("summarize", *rows, "--score", "residual", "--site", "a", "-o", f"{name}.fcs")
        np.save(f"{name}-scores.npy", rng.random((80, 4)))
        np.save(f"{name}-truth.npy", rng.random((80, 4)) < 0.5)
        scores = (f"{name}-scores.npy", f"{name}-truth.npy", "--loss", "false-negative-rate")
        command.ok("summarize", *scores, "--site", "a", "-o", f"{name}-losses.fcs")
    command.ok("calibrate", "old.fcs", "--alpha", "0.2", "-o", "intervals.json")
    command.ok("calibrate", "old-losses.fcs", "--risk", "0.4", "-o", "rule.json")
    command.ok("calibrate", "--replaces", "intervals.json", "new.fcs", "-o", "intervals-2.json", *ALARM)
    command.ok("verify", "intervals-2.json", "new.fcs", "--replaces", "intervals.json")
    command.ok("calibrate", "--replaces", "rule.json", "new-losses.fcs", "-o", "rule-2.json", *ALARM)
    command.ok("verify", "rule-2.json", "new-losses.fcs", "--replaces", "rule.json")
    assert (
        "give risk, not alpha (--risk)"
        in command(
            "calibrate", "--replaces", "rule.json", "new-losses.fcs", "-o", "x.json", "--rows", "new", "--alpha", "0.1"
        ).err
    )


def test_the_report_shows_what_was_there_before(fresh: Path, command: Command) -> None:
    command.ok(
        "calibrate",
        "--replaces",
        "predictor.json",
        *NEW,
        "-o",
        "next.json",
        "--why",
        "<b>alarm</b>",
        "--rows",
        "watched",
    )
    command.ok("report", "next.json", "-o", "report.html")
    page = Path("report.html").read_text()
    assert fc.load("predictor.json").digest() in page
    assert "&lt;b&gt;alarm&lt;/b&gt;" in page
    assert "<b>alarm" not in page
    assert "rows that a watch has counted are not like those to come" in page
    assert "It was calibrated on cases that a watch had counted" in page
    assert "calibrate again with these alone" in page
    assert "sent estimates" not in page
