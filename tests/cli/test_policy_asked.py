"""Every command that lets something leave a site asks its policy first.

Messages of engines: tests/engines/test_transports.py on every engine, tests/engines/flower/test_policy.py in a run.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import typer

from fedconformal.cli.app import app
from fedconformal.privacy.policy import VARIABLE
from tests.cli.command import Command
from tests.cli.test_help import commands

STAYS = {
    "at the coordinator": "calibrate verify plan monitor/combine",
    "of a predictor, which is public": "page report show sign serve predict evaluate",
    "nothing is written for others": "sql policy/check policy/new monitor/start monitor/add monitor/status",
    "training and apps: outside a policy (docs/policy.md)": "train demo flower/init flower/run",
}


@pytest.fixture
def site(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of every kind that a site may send from, and a policy that lets nothing pass."""
    rng = np.random.default_rng(0)
    logits = {"val_logits": rng.normal(size=(60, 3)), "val_labels": rng.integers(0, 3, 60)}
    np.savez("logits.npz", **logits, val_clients=np.arange(60) % 2)  # type: ignore[arg-type]
    np.save("masks.npy", rng.random((60, 4)) < 0.5)
    command.ok("summarize", "probs-0.npy", "labels-0.npy", "-o", "a.fcs")
    command.ok("calibrate", "a.fcs", "--alpha", "0.3", "-o", "p.json")
    command.ok("monitor", "start", "watch.db", "p.json")
    Path("rows.csv").write_text("id,time,labels,label\nx,2026-10-01,0 1,0\n")
    command.ok("monitor", "add", "watch.db", "rows.csv")
    Path("policy.toml").write_text('kinds = ["sums"]\n')
    monkeypatch.setenv(VARIABLE, "policy.toml")
    return folder


SENDS: dict[str, list[tuple[str, ...]]] = {
    "summarize": [
        ("probs-0.npy", "labels-0.npy", "-o", "x.fcs"),
        ("probs-0.npy", "labels-0.npy", "--kind", "exact", "--by-class", "-o", "x.fcs"),
        ("probs-0.npy", "masks.npy", "--loss", "false-negative-rate", "-o", "x.fcs"),
        ("logits.npz", "-o", "x"),
        ("probs-0.npy", "labels-0.npy", "--epsilon", "1", "-o", "x.fcn"),
    ],
    "monitor/send": [("watch.db", "-o", "x.fcw")],
}


def test_every_command_is_known_and_those_that_send_ask(site: Path, command: Command) -> None:
    pytest.importorskip("opendp", reason="noise needs opendp")
    groups = {"monitor", "policy", "flower", "paper"}
    there = {"/".join(words) for words in commands(typer.main.get_command(app)) if words[0] != "paper"} - groups
    assert there == {*SENDS, *" ".join(STAYS.values()).split()}
    for name, cases in SENDS.items():
        for words in cases:
            command.refuses("the site's policy: kinds", *name.split("/"), *words)
