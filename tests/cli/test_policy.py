"""A site's policy on the command line: asked before a file is written, and explained in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedconformal.privacy import Ledger, write_ledger
from fedconformal.privacy.policy import EXAMPLE, VARIABLE
from tests.cli.command import Command

ROWS = 60


@pytest.fixture(autouse=True)
def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def says(line: str) -> None:
    Path("policy.toml").write_text(line, "utf-8")


NOISE = ["--epsilon", "0.5"]
LEAVES = [
    ("sums_only = true", NOISE, "this is of the kind noisy"),
    ('kinds = ["ranks"]', ["--by-class"], "this is of the kind ranks by class"),
    ("largest_epsilon = 0.4", [*NOISE, "--ledger", "ledger.json"], "this spends 0.5"),
    ('ledger = "mandatory"', NOISE, "no ledger is given to enter this in"),
    (f"least_rows = {ROWS + 1}", [], "this site has fewer"),
    ('models = ["v7"]', [], "this is of no model"),
    ('ledger = "mandatory"', [*NOISE, "--ledger", "ledger.json"], None),
    ('models = ["v7"]', ["--model", "v7"], None),
]


def test_what_may_leave(command: Command) -> None:
    """A refusal costs nothing of the budget, either."""
    pytest.importorskip("opendp", reason="noise needs opendp")
    write_ledger(Path("ledger.json"), Ledger(budget=1.0))
    for k, (line, options, why) in enumerate(LEAVES):
        says(line)
        output = f"{k}.fcn" if NOISE[0] in options else f"{k}.fcs"
        summarize = ("summarize", "probs-0.npy", "labels-0.npy", "--policy", "policy.toml", "-o", output, *options)
        if why is None:
            command.ok(*summarize)
        else:
            command.refuses(f"the site's policy: {line}, and {why}", *summarize)


def test_patients_are_distinct_ids(command: Command) -> None:
    says("least_patients = 30")
    for patients, code in ((30, 0), (29, 2)):
        rows = [
            f"p{k % patients},{0.9 - k / 100:.2f},{0.1 + k / 100:.2f},{'no' if k % 3 else 'yes'}" for k in range(60)
        ]
        Path("rows.csv").write_text("\n".join(["patient,no,yes,y", *rows]))
        asked = ["rows.csv", "--labels", "y", "--policy", "policy.toml"]
        done = command("summarize", "--id", "patient", *asked, "-o", "a.fcs")
        assert done.code == code
        assert ("least_patients = 30, and this site has fewer" in done.err) == (code == 2)
    done = command("summarize", "--drop", "patient", *asked, "-o", "b.fcs")
    assert "least_patients = 30, and these rows have no ids to count" in done.err


def test_a_policy_in_words(command: Command) -> None:
    says("least_rows = 50\n")
    words = ["Nothing leaves if this site has fewer than 50 rows."]
    assert command.ok("policy", "check", "policy.toml").out.splitlines() == words
    stated = command.ok("policy", "check", "policy.toml", "--json").json
    assert stated == {"policy": {"least_rows": 50}, "words": words}


def test_a_policy_to_begin_with(command: Command) -> None:
    assert VARIABLE in command.ok("policy", "new").out
    assert Path("policy.toml").read_text("utf-8") == EXAMPLE
    command.ok("policy", "check", "policy.toml")
    command.refuses("policy.toml: exists; change it, or name another file", "policy", "new")
    assert command.ok("policy", "new", "b.toml", "--json").json == {"policy": "b.toml"}
    command.refuses("expected a file that ends in .toml", "policy", "new", "policy")
