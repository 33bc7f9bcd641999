"""show: every file that we write is recognised, described in plain words, and anything else is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.certificates.text import sentence
from scripts import vectors
from tests.cli.command import Command
from tests.golden import make


@pytest.fixture
def rows(here: Path) -> Path:
    rng = np.random.default_rng(0)
    np.save("p.npy", rng.dirichlet([1, 1, 1], size=60))
    np.save("y.npy", rng.integers(0, 3, 60))
    return here


def test_summaries_and_a_predictor(here: Path, command: Command) -> None:
    for data in vectors.examples().values():
        Path("a.fcs").write_bytes(data)
        found, summary = command.ok("show", "a.fcs", "--json").json, fc.Summary.from_bytes(data)
        assert found["what"] == "the summary of a site's calibration scores"
        assert (found["holds"]["format version"], found["holds"]["kind"]) == ("1", summary.name)
        assert any("learns" in line for line in found["learns"])
        assert any("each class" in line for line in found["learns"]) == ("by class" in summary.name)
    done = command.ok("show", make.HERE / "predictor.json")
    about = fc.load(make.HERE / "predictor.json").certificate
    for text in (sentence(about), about.statement.assumption, "names of the sites", "up to 1,024 thresholds"):
        assert text in done.out


def test_every_other_file(rows: Path, command: Command) -> None:
    pytest.importorskip("opendp", reason="noise needs opendp")
    about = ["--site", "a", "--calibration", "june", "--expires", "2999-01-01"]
    command.ok("summarize", "p.npy", "y.npy", "-o", "a.fcs", *about, "--kind", "exact")
    found = command.ok("show", "a.fcs", "--json").json["holds"]
    assert (found["format version"], found["classes"], found["precision"]) == ("1", "3", "float32")
    assert (found["calibration"], found["at alpha"], found["expires"]) == ("june", "0.1", "2999-01-01")
    assert "every calibration score" in command.ok("show", "a.fcs").out
    command.ok("sign", "a.fcs", "--key", "a.key", "--new-key")
    key = json.loads(Path("a.fcs.sig").read_text())["key"]
    Path("keys.json").write_text(json.dumps({"a": key}))
    command.ok("calibrate", "a.fcs", "-o", "p.json", "--signed", "keys.json", "--calibration", "june")
    assert command.ok("show", "p.json", "--json").json["holds"]["signed by"] == "a"
    command.ok("sign", "p.json", "--key", "a.key")
    Path("ledger.json").write_text('{"budget": 2}')
    noise = ["--epsilon", "1", "--ledger", "ledger.json"]
    command.ok("summarize", "p.npy", "y.npy", "-o", "a.fcn", "--site", "a", *noise)
    for name, what in {
        "a.key": "a private key",
        "a.fcs.sig": "a site's signature of its summary",
        "p.json.sig": "a coordinator's signature of a predictor",
        "keys.json": "the public keys that are trusted, by site",
        "ledger.json": "a ledger of spent privacy",
        "a.fcn": "noisy counts of a site's calibration scores",
    }.items():
        done = command.ok("show", name)
        assert done.out.startswith(f"{name}: {what}\n")
        assert "Anyone with this file" in done.out or "no secret" in done.out


def test_the_files_of_a_watch(rows: Path, command: Command) -> None:
    command.ok("summarize", "p.npy", "y.npy", "-o", "a.fcs", "--site", "a")
    command.ok("calibrate", "a.fcs", "-o", "p.json", "--alpha", "0.3")
    command.ok("monitor", "start", "w.db", "p.json")
    Path("rows.csv").write_text("id,time,labels\nx,2026-10-01,0 1\ny,2026-10-02,1\n")
    Path("truth.csv").write_text("id,time,label\nx,2026-10-02,2\n")
    command.ok("monitor", "add", "w.db", "rows.csv", "truth.csv")
    command.ok("monitor", "send", "w.db", "-o", "w.fcw")
    found = command.ok("show", "w.fcw", "--json").json
    assert found["what"] == "what a site sends of 2 periods of a watch"
    digest = fc.load("p.json").digest()
    held = {"missed": "1", "rows that wait": "1", "first day": "2026-10-01", "last day": "2026-10-02"}
    held["predictor"] = digest
    assert found["holds"].items() >= held.items()
    watch = command.ok("show", "w.db", "--json").json
    assert watch["what"] == "a watch over a predictor"
    assert watch["holds"].items() >= {"rows": "2", "counted": "1", "days": "2026-10-01 to 2026-10-02"}.items()
    assert "learns the id" in watch["learns"][0]


def test_anything_else_is_refused_in_one_line(here: Path, command: Command) -> None:
    strange = [b"", b"x", b"{}", b'{"a": 1}', b"{", b"[1]", b"FCS1", b"FCN1", b"FCM1", b"\x81" * 40, b'{"budget": -1}']
    for data in strange:
        Path("strange").write_bytes(data)
        assert command.refuses("strange: ", "show", "strange").err.count("\n") == 1


def test_the_number_of_scores_that_are_shown(rows: Path, command: Command) -> None:
    command.ok("summarize", "p.npy", "y.npy", "-o", "a.fcs")
    shown = len(fc.Summary.from_bytes(Path("a.fcs").read_bytes()).points)
    assert f"learns {shown} of the site's calibration scores" in " ".join(command.ok("show", "a.fcs").out.split())
