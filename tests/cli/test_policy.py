"""A site's policy on the command line: asked before a file is written, and explained in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedconformal.privacy import Ledger, write_ledger
from fedconformal.privacy.policy import EXAMPLE, VARIABLE
from tests.cli.command import Command, write_sites

ROWS = 60


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    write_sites(tmp_path)


def says(line: str) -> None:
    Path("policy.toml").write_text(line, "utf-8")


NOISE = ["--epsilon", "0.5"]
LEAVES = [
    ("sums_only = true", NOISE, "this is of the kind noisy"),
    ('kinds = ["ranks"]', ["--by-class"], "this is of the kind ranks by class"),
    ("largest_epsilon = 0.4", NOISE, "this spends 0.5"),
    ('ledger = "mandatory"', NOISE, "no ledger is given to enter this in"),
    (f"least_rows = {ROWS + 1}", [], "this site has fewer"),
    ('kinds = ["ranks"]', [], None),
    ('ledger = "mandatory"', [*NOISE, "--ledger", "ledger.json"], None),
    (f"least_rows = {ROWS}", [], None),
]


@pytest.mark.parametrize(("line", "options", "why"), LEAVES)
def test_what_may_leave(command: Command, line: str, options: list[str], why: str | None) -> None:
    if NOISE[0] in options:
        pytest.importorskip("opendp", reason="noise needs opendp")
    write_ledger(Path("ledger.json"), Ledger(budget=1.0))
    says(line)
    output = "a.fcn" if NOISE[0] in options else "a.fcs"
    done = command("summarize", "probs-0.npy", "labels-0.npy", "--policy", "policy.toml", "-o", output, *options)
    assert (done.code, Path(output).exists()) == ((0, True) if why is None else (2, False))
    assert why is None or done.err.splitlines()[-1] == f"error: policy.toml, line 1: {line}, and {why}"


@pytest.mark.parametrize("ending", ["csv", "chunks"])
def test_patients_are_distinct_ids(command: Command, ending: str) -> None:
    says("least_patients = 30")
    for patients, code in ((30, 0), (29, 2)):
        rows = [
            f"p{k % patients},{0.9 - k / 100:.2f},{0.1 + k / 100:.2f},{'no' if k % 3 else 'yes'}" for k in range(60)
        ]
        parts = [rows] if ending == "csv" else [rows[:40], rows[40:]]
        files = [f"{k}.csv" for k in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            Path(file).write_text("\n".join(["patient,no,yes,y", *part]))
        asked = ["--labels", "y", "--policy", "policy.toml", *(["--chunks"] if ending == "chunks" else [])]
        done = command("summarize", *files, "--id", "patient", *asked, "-o", "a.fcs")
        assert done.code == code
        assert ("least_patients = 30, and this site has fewer" in done.err) == (code == 2)
    done = command("summarize", *files, "--drop", "patient", *asked, "-o", "b.fcs")
    assert "least_patients = 30, and these rows have no ids to count" in done.err


def test_the_model_is_pinned(command: Command) -> None:
    says('models = ["v7"]')
    summarize = ["summarize", "probs-0.npy", "labels-0.npy", "--policy", "policy.toml", "-o", "a.fcs"]
    assert "this is of no model" in command(*summarize).err
    assert "this is of the model v8" in command(*summarize, "--model", "v8").err
    command.ok(*summarize, "--model", "v7")


def test_a_refusal_costs_nothing(command: Command) -> None:
    pytest.importorskip("opendp", reason="noise needs opendp")
    write_ledger(Path("ledger.json"), Ledger(budget=1.0))
    before = Path("ledger.json").read_bytes()
    says("largest_epsilon = 0.4")
    noisy = ["summarize", "probs-0.npy", "labels-0.npy", *NOISE, "--ledger", "ledger.json", "-o", "a.fcn"]
    assert "this spends 0.5" in command(*noisy, "--policy", "policy.toml").err
    assert Path("ledger.json").read_bytes() == before


def test_the_variable_names_the_policy(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    says("sums_only = true")
    monkeypatch.setenv(VARIABLE, "policy.toml")
    summarize = ["summarize", "probs-0.npy", "labels-0.npy", "-o", "a.fcs"]
    assert "policy.toml, line 1: sums_only = true" in command(*summarize).err
    Path("other.toml").write_text("", "utf-8")
    command.ok(*summarize, "--policy", "other.toml")
    monkeypatch.setenv(VARIABLE, "missing.toml")
    assert "missing.toml: cannot be read" in command(*summarize).err


def test_a_policy_in_words(command: Command) -> None:
    says("sums_only = true\nleast_rows = 50\n")
    words = [
        "Only masked counts leave, in a sums session.",
        "Nothing leaves if this site has fewer than 50 rows.",
        "These kinds may leave: sums.",
    ]
    assert command.ok("policy", "check", "policy.toml").out.splitlines() == words
    assert command.ok("policy", "check", "policy.toml", "--json").json == {
        "policy": {"sums_only": True, "least_rows": 50},
        "words": words,
        "may_leave": ["sums"],
    }
    says('sums_only = true\nkinds = ["ranks"]')
    assert command.ok("policy", "check", "policy.toml").out.splitlines()[-1] == "So nothing can leave this site."
    says("\nsums_onyl = true")
    done = command("policy", "check", "policy.toml")
    assert (done.code, done.out) == (2, "")
    assert "policy.toml: line 2: sums_onyl: is no key of a policy" in done.err


def test_a_policy_to_begin_with(command: Command) -> None:
    assert VARIABLE in command.ok("policy", "new").out
    assert Path("policy.toml").read_text("utf-8") == EXAMPLE
    command.ok("policy", "check", "policy.toml")
    assert "policy.toml: exists; change it, or name another file" in command("policy", "new").err
    assert command.ok("policy", "new", "b.toml", "--json").json == {"policy": "b.toml"}
    assert "expected a file that ends in .toml" in command("policy", "new", "policy").err
