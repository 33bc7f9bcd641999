"""Shares of classes, and who can hold one, on the command line: from tables to verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.command import Command

RNG = np.random.default_rng(0)
TRUTH = RNG.choice(2, 900, p=(0.9, 0.1))
CHANCE = np.clip(RNG.normal(np.where(TRUTH == 1, 0.65, 0.2), 0.2), 0, 1)
START = ("calibrate", "0.fcs", "1.fcs", "--force", "-o", "p.json")


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    monkeypatch.chdir(tmp_path)
    for k in range(2):
        rows = [f"{1 - p},{p},{'malignant' if y else 'benign'}" for p, y in zip(CHANCE[k::2], TRUTH[k::2], strict=True)]
        Path(f"{k}.csv").write_text("\n".join(["benign,malignant,label", *rows]))
        command.ok("summarize", f"{k}.csv", "--labels", "label", "--by-class", "--site", f"s{k}", "-o", f"{k}.fcs")
    done = command.ok(*START, "--guarantee", "prevalence:shares=benign=0.3,malignant=0.7", "--json").json["certificate"]
    assert done["guarantee"] == {
        "name": "prevalence",
        "shares": [["benign", 0.3], ["malignant", 0.7]],
    }
    assert done["provenance"]["class_scores"] == np.bincount(TRUTH).tolist()
    assert command.ok("verify", "p.json", "0.fcs", "1.fcs", "--json").json["confirmed"] is True
    assert command.ok("predict", "p.json", "0.csv", "--drop", "label", "-o", "sets.npz", "--json").json
    command.ok("evaluate", "p.json", "0.csv", "--labels", "label")
    assert "prevalence" in command.ok("show", "p.json").out
    bounds = command.ok(*START, "--guarantee", "prevalence:shares=malignant=0.05:0.2", "--json").json["certificate"]
    assert bounds["guarantee"]["shares"] == [["malignant", [0.05, 0.2]]]
    text = command.ok(*START, "--guarantee", 'prevalence:shares={"malignant": [0.05, 0.2]}').out
    assert "provided that a class looks the same at all sites" in " ".join(text.split())
    for shares, problem in {
        "benign=0.3": "shares: they sum to 0.3, not 1",
        "benign": "shares is 'benign', expected numbers",
        "benign=0.3,odd=0.7": "shares: no class is called 'odd'; there are benign, malignant",
        "benign=0.3,benign=0.7": "shares: class benign is there twice",
    }.items():
        bad = command(*START, "--guarantee", f"prevalence:shares={shares}")
        assert (bad.code, bad.out) == (2, "")
        assert problem in bad.err
    few = command.ok(*START, "--guarantee", "prevalence", "--alpha", "0.001")
    assert "more of class 'malignant'" in " ".join(few.err.split())
