"""Differential privacy on the command line: thresholds, their certificates, and ledgers that are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("opendp", reason="noise needs opendp")

import fedconformal as fc
from fedconformal.privacy import read_ledger
from tests.cli.command import Command

LOCAL = ["--epsilon", "2", "--ledger", "site.json"]
CLAIM = "for replacing one calibration row of one site"


@pytest.fixture
def sites(here: Path) -> list[str]:
    """Exact summaries, rows of two sites, and ledgers."""
    for k in range(3):
        rng = np.random.default_rng(k)
        summary = fc.Summary.of_scores(rng.random(400), kind="exact", site=f"site-{k}", score=fc.LAC())
        Path(f"site-{k}.fcs").write_bytes(summary.to_bytes())
        probs = rng.dirichlet(np.ones(4), size=900)
        np.save(f"probs-{k}.npy", probs)
        np.save(f"labels-{k}.npy", np.array([rng.choice(4, p=row) for row in probs]))
    Path("ledger.json").write_text('{"budget": 1.5, "entries": []}')
    Path("site.json").write_text('{"budget": 3, "entries": []}')
    return [f"site-{k}.fcs" for k in range(3)]


@pytest.fixture
def noisy(sites: list[str], command: Command) -> list[str]:
    for k in range(2):
        done = command.ok("summarize", f"probs-{k}.npy", f"labels-{k}.npy", *LOCAL, "-o", f"clinic-{k}.fcn")
        assert "noisy summary of 900 scores" in done.out
    return ["clinic-0.fcn", "clinic-1.fcn"]


def test_a_private_threshold(sites: list[str], command: Command) -> None:
    options = ["-o", "p.json", "--epsilon", "1", "--ledger", "ledger.json"]
    done = command.ok("calibrate", *sites, *options)
    assert f"epsilon 1 {CLAIM}" in done.out
    certificate = fc.load("p.json").certificate
    assert certificate.privacy is not None
    assert certificate.coverage_at_least >= 0.9
    assert [record.sha256 for record in certificate.summaries] == ["", "", ""]
    command.no("a private release cannot be recomputed", "verify", "p.json", *sites)
    assert [entry.site for entry in read_ledger(Path("ledger.json")).entries] == ["site-0", "site-1", "site-2"]
    command.refuses("'site-0' has spent 1 of 1.5; 1 more is over its budget", "calibrate", *sites, *options)


def test_noise_before_anything_leaves_the_site(noisy: list[str], command: Command) -> None:
    entries = read_ledger(Path("site.json")).entries
    assert [(entry.site, entry.epsilon) for entry in entries] == [("clinic-0", 2.0), ("clinic-1", 2.0)]
    assert f"epsilon 2 {CLAIM}" in command.ok("calibrate", *noisy, "-o", "p.json").out
    certificate = fc.load("p.json").certificate
    assert (certificate.status, certificate.coverage_at_least >= 0.9) == ("certified", True)
    command.ok("predict", "p.json", "probs-0.npy", "-o", "sets.npz")
    assert "confirmed from 2 summaries" in command.ok("verify", "p.json", *noisy[::-1]).out
    command.no("of site 'clinic-1' was not given", "verify", "p.json", noisy[0])


ROWS = ("summarize", "probs-0.npy", "labels-0.npy", "-o", "x.fcn")
SITES = ("calibrate", "site-0.fcs", "site-1.fcs", "-o", "x.json")
NOISY = ("calibrate", "clinic-0.fcn", "-o", "x.json")
REFUSED = {
    (*ROWS, "--ledger", "site.json"): "--ledger goes with --epsilon",
    (*ROWS, *LOCAL, "--kind", "exact"): "--kind does not go with --epsilon",
    (*SITES, "--ledger", "ledger.json"): "--ledger goes with --epsilon",
    (*SITES, "--epsilon", "1", "--exact"): "--exact does not go with privacy",
    (*NOISY, "--epsilon", "1"): "--epsilon does not go with noisy counts",
    (*NOISY, "--signed", "site.json"): "--signed does not go with privacy",
}


def test_refusals(noisy: list[str], command: Command) -> None:
    for words, problem in REFUSED.items():
        command.refuses(problem, *words)


def test_a_run_has_a_noisy_file_for_each_client(sites: list[str], command: Command) -> None:
    rng = np.random.default_rng(0)
    labels, clients = rng.integers(0, 3, 600), np.arange(600) % 2
    np.savez("logits.npz", val_logits=rng.normal(size=(600, 3)), val_labels=labels, val_clients=clients)
    command.ok("summarize", "logits.npz", *LOCAL, "-o", "out")
    assert sorted(path.name for path in Path("out").iterdir()) == ["client-0.fcn", "client-1.fcn"]
    assert [entry.site for entry in read_ledger(Path("site.json")).entries] == ["client-0", "client-1"]
