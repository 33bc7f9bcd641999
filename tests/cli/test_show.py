"""show: every file that we write is recognised, described in plain words, and anything else is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.certificates.text import sentence
from scripts import vectors
from scripts.vector_cases.tools import File
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
        assert found["holds"]["kind"] == summary.name
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
    assert (found["classes"], found["precision"], found["alpha"]) == ("3", "float32", "0.1")
    assert (found["calibration"], found["expires"]) == ("june", "2999-01-01")
    assert "every calibration score" in command.ok("show", "a.fcs").out
    command.ok("sign", "a.fcs", "--key", "a.key", "--new-key")
    key = json.loads(Path("a.fcs.sig").read_text())["key"]
    Path("keys.json").write_text(json.dumps({"a": key}))
    command.ok("calibrate", "a.fcs", "-o", "p.json", "--signed", "keys.json", "--calibration", "june")
    assert command.ok("show", "p.json", "--json").json["holds"]["signed by"] == "a"
    Path("ledger.json").write_text('{"budget": 2}')
    noise = ["--epsilon", "1", "--ledger", "ledger.json"]
    command.ok("summarize", "p.npy", "y.npy", "-o", "a.fcn", "--site", "a", *noise)
    Path("brace.key").write_bytes(b"{" + bytes(range(200, 231)))
    for name, what in {
        "a.key": "a private key",
        "brace.key": "a private key",
        "ledger.json": "a ledger of spent privacy",
        "a.fcn": "noisy counts of a site's calibration scores",
    }.items():
        done = command.ok("show", name)
        assert done.out.startswith(f"{name}: {what}\n")
        assert "Anyone with this file" in done.out


def test_anything_else_is_refused_in_one_line(here: Path, command: Command) -> None:
    strange = [b"", b"x", b"{}", b'{"a": 1}', b"{", b"[1]", b"FCS1", b"FCN1", b"FCM1", b"\x81" * 40, b'{"budget": -1}']
    for data in strange:
        Path("strange").write_bytes(data)
        assert command.refuses("strange: ", "show", "strange").err.count("\n") == 1
    Path("strange").write_bytes(b"FCS2")
    command.refuses("strange: the summary is of format '2', not 1", "show", "strange")
    Path("strange").write_bytes(File(fc.Summary.of_scores([0.5], score=fc.LAC())).having(score=["best", []]))
    assert command.refuses("no score is called 'best'", "show", "strange").err.endswith("topk\n")  # show has no --score


def test_the_number_of_scores_that_are_shown(rows: Path, command: Command) -> None:
    command.ok("summarize", "p.npy", "y.npy", "-o", "a.fcs")
    shown = len(fc.Summary.from_bytes(Path("a.fcs").read_bytes()).points)
    assert f"learns {shown} of the site's calibration scores" in " ".join(command.ok("show", "a.fcs").out.split())
