"""`calibrate --replaces` as a coordinator uses it, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command, Done, site_rows

pytestmark = pytest.mark.long

OLD = [f"site-{k}.fcs" for k in range(3)]
NEW = [f"new/site-{k}.fcs" for k in range(3)]
ALARM = ("--why", "alarm at site-1", "--rows", "new")
VERIFY = ("verify", "next.json", *NEW)


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


def renew(command: Command, *options: str) -> Done:
    return command.ok("calibrate", *NEW, "--replaces", "predictor.json", "-o", "next.json", *options)


def test_from_an_alarm_to_the_next_predictor(fresh: Path, command: Command) -> None:
    before = Path("predictor.json").read_bytes()
    done = renew(command, *ALARM)
    assert "recalibrated on rows that no watch had counted." in done.out
    assert Path("predictor.json").read_bytes() == before
    shown = command.ok("show", "next.json").out
    assert "alarm at site-1" in shown
    assert fc.load("predictor.json").digest() in shown
    assert command.ok(*VERIFY, "--replaces", "predictor.json", "--json").json["confirmed"]
    command.no("give the one that it replaces", *VERIFY)
    command.no("names no predictor that it replaces", "verify", "predictor.json", *OLD, "--replaces", "next.json")
    key = command.ok("sign", "next.json", "--key", "c.key", "--new-key", "--json").json["public_key"]
    command.ok(*VERIFY, "--coordinator", key)  # which confirms what it replaces, too


def test_watched_rows_promise_nothing(fresh: Path, command: Command) -> None:
    done = renew(command, "--why", "<b>alarm</b>", "--rows", "watched")
    assert "nothing is promised: rows counted by a watch are not exchangeable with later rows" in done.out
    assert fc.load("next.json").certificate.status == "estimated"
    command.ok("report", "next.json", "-o", "report.html")
    page = Path("report.html").read_text()
    assert fc.load("predictor.json").digest() in page
    assert ("&lt;b&gt;alarm&lt;/b&gt;" in page, "<b>alarm" in page) == (True, False)
    assert "Nothing is promised: rows counted by a watch are not exchangeable with later rows" in page


REFUSED = {
    ("--rows", "planned"): "'planned' is not one of",
    ("--rows", "new", "--risk", "0.1"): "leave out risk (--risk)",
    ("--why", "alarm"): "(--rows)",
}


def test_bad_use_is_one_line(fresh: Path, command: Command) -> None:
    renewal = ("--replaces", "predictor.json", "-o", "next.json")
    for options, words in REFUSED.items():
        command.refuses(words, "calibrate", *NEW, *renewal, *options)
    command.refuses("--why goes with --replaces", "calibrate", *NEW, "--why", "alarm", "-o", "next.json")


def test_signed_summaries_keep_working(fresh: Path, command: Command) -> None:
    keys = {}
    for k in range(3):
        rows = (f"new/probs-{k}.npy", f"new/labels-{k}.npy")
        command.ok("summarize", *rows, "--calibration", "june", "--site", f"site-{k}", "-o", NEW[k])
        keys[f"site-{k}"] = command.ok("sign", NEW[k], "--key", f"{k}.key", "--new-key", "--json").json["public_key"]
    Path("keys.json").write_text(json.dumps(keys))
    renew(command, *ALARM, "--signed", "keys.json", "--calibration", "june")
    command.ok(*VERIFY, "--replaces", "predictor.json", "--signed", "keys.json")
