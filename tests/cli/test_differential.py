"""Differential privacy on the command line: thresholds, their certificates, and ledgers that are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("opendp", reason="noise needs opendp")

import fedconformal as fc
from fedconformal.privacy import read_ledger
from tests.cli.command import Command


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    for k in range(3):
        scores = np.random.default_rng(k).random(400)
        summary = fc.Summary.of_scores(scores, kind="exact", site=f"site-{k}", score=fc.LAC())
        Path(f"site-{k}.fcs").write_bytes(summary.to_bytes())
    Path("ledger.json").write_text('{"budget": 1.5, "entries": []}')
    return [f"site-{k}.fcs" for k in range(3)]


def test_a_private_threshold(sites: list[str], command: Command) -> None:
    options = ["-o", "p.json", "--privacy", "dp", "--epsilon", "1", "--ledger", "ledger.json"]
    done = command.ok("calibrate", *sites, *options)
    assert "epsilon 1 for replacing one calibration row of one site" in done.out
    assert "outside the claim: the model, the temperature" in done.out
    certificate = fc.load("p.json").certificate
    assert certificate.privacy is not None
    assert certificate.coverage_at_least >= 0.9
    assert [record.sha256 for record in certificate.summaries] == ["", "", ""]
    checked = command("verify", "p.json", *sites)
    assert (checked.code, "a private release cannot be recomputed" in checked.out) == (1, True)
    assert [entry.site for entry in read_ledger(Path("ledger.json")).entries] == ["site-0", "site-1", "site-2"]
    again = command("calibrate", *sites, *options)
    assert again.code == 2
    assert "'site-0' has spent 1 of 1.5; 1 more is over its budget" in again.err
    assert len(read_ledger(Path("ledger.json")).entries) == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--privacy", "dp"], "--privacy dp needs --epsilon"),
        (["--epsilon", "1"], "--epsilon goes with --privacy dp"),
        (["--ledger", "ledger.json"], "--ledger goes with --privacy dp"),
        (["--privacy", "dp", "--epsilon", "0"], "epsilon is 0"),
        (["--privacy", "dp", "--epsilon", "1", "--guarantee", "by-class"], "--privacy dp does not go with by-class"),
        (["--privacy", "dp", "--epsilon", "1", "--guarantee", "every-site"], "every-site is not there with"),
        (
            ["--privacy", "dp", "--epsilon", "1", "--guarantee", "robust:1"],
            "robust is not there with differential privacy",
        ),
        (["--privacy", "dp", "--epsilon", "1", "--ledger", "none.json"], "none.json: cannot be read"),
    ],
)
def test_refusals(sites: list[str], command: Command, options: list[str], problem: str) -> None:
    done = command("calibrate", *sites, "-o", "p.json", *options)
    assert done.code == 2
    assert problem in done.err
    assert not Path("p.json").exists()


def rows(k: int, count: int = 900) -> list[str]:
    """Write a site's probabilities and labels; return the files."""
    rng = np.random.default_rng(k)
    probs = rng.dirichlet(np.ones(4), size=count)
    np.save(f"probs-{k}.npy", probs)
    np.save(f"labels-{k}.npy", np.array([rng.choice(4, p=row) for row in probs]))
    return [f"probs-{k}.npy", f"labels-{k}.npy"]


LOCAL = ["--privacy", "local", "--epsilon", "2", "--ledger", "site.json"]


@pytest.fixture
def noisy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("site.json").write_text('{"budget": 3, "entries": []}')
    for k in range(2):
        done = command.ok("summarize", *rows(k), "--score", "lac", *LOCAL, "-o", f"clinic-{k}.fcn")
        assert "noisy summary of 900 scores" in done.out
    return ["clinic-0.fcn", "clinic-1.fcn"]


def test_noise_before_anything_leaves_the_site(noisy: list[str], command: Command) -> None:
    assert [(entry.site, entry.epsilon) for entry in read_ledger(Path("site.json")).entries] == [
        ("clinic-0", 2.0),
        ("clinic-1", 2.0),
    ]
    done = command.ok("calibrate", *noisy, "--privacy", "local", "-o", "p.json")
    assert "epsilon 2 for replacing one calibration row of one site" in done.out
    predictor = fc.load("p.json")
    assert predictor.score == fc.LAC()
    assert predictor.certificate.status == "certified"
    assert predictor.certificate.coverage_at_least >= 0.9
    assert predictor.certificate.privacy is not None
    assert "what each site sends" in predictor.certificate.privacy["definition"]
    command.ok("predict", "p.json", "probs-0.npy", "-o", "sets.npz")
    assert "confirmed from 2 summaries" in command.ok("verify", "p.json", *noisy[::-1]).out
    assert "of site 'clinic-1' was not given" in command("verify", "p.json", noisy[0]).out
    again = command("summarize", "probs-0.npy", "labels-0.npy", *LOCAL, "-o", "clinic-0.fcn")
    assert again.code == 2
    assert "'clinic-0' has spent 2 of 3; 2 more is over its budget" in again.err


def test_another_name_is_no_new_budget(noisy: list[str], command: Command) -> None:
    done = command("summarize", "probs-0.npy", "labels-0.npy", "--score", "lac", *LOCAL, "-o", "other.fcn")
    assert done.code == 2
    assert "'other', which has the rows of 'clinic-0', has spent 2 of 3; 2 more is over its budget" in done.err
    assert not Path("other.fcn").exists()
    Path("link.json").symlink_to("site.json")
    options = ["--privacy", "local", "--epsilon", "2", "--ledger", "link.json", "--site", "clinic-1 "]
    assert "'clinic-1' has spent 2 of 3" in command("summarize", *rows(9), *options, "-o", "other.fcn").err


def test_another_grid(noisy: list[str], command: Command) -> None:
    Path("grid.csv").write_text("0.5\n0.9\n0.95\n1\ninf\n")
    options = ["--score", "lac", "--privacy", "local", "--epsilon", "2", "--grid", "grid.csv"]
    command.ok("summarize", "probs-0.npy", "labels-0.npy", *options, "-o", "a.fcn")
    command.ok("calibrate", "a.fcn", "--privacy", "local", "-o", "p.json")
    privacy = fc.load("p.json").certificate.privacy
    assert privacy is not None
    assert privacy["grid"] == [0.5, 0.9, 0.95, 1.0, "inf"]
    done = command("calibrate", "a.fcn", noisy[1], "--privacy", "local", "-o", "q.json")
    assert done.code == 2
    assert "another grid or epsilon" in done.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--privacy", "local"], "--privacy local needs --epsilon"),
        (["--epsilon", "1"], "--epsilon goes with --privacy local"),
        (["--ledger", "site.json"], "--ledger goes with --privacy local"),
        (["--grid", "grid.csv"], "--grid goes with --privacy local"),
        ([*LOCAL, "--kind", "exact"], "leave out --kind, --by-class, --groups and --chunks"),
        ([*LOCAL, "--by-class"], "leave out --kind, --by-class, --groups and --chunks"),
        (["--privacy", "local", "--epsilon", "none"], "epsilon is none"),
        (["--privacy", "local", "--epsilon", "1", "--grid", "labels-0.npy"], "labels-0.npy: grid: expected 2 to 4096"),
        (["--privacy", "local", "--epsilon", "1", "--ledger", "none.json"], "none.json: cannot be read"),
    ],
)
def test_refusals_at_a_site(noisy: list[str], command: Command, options: list[str], problem: str) -> None:
    done = command("summarize", "probs-0.npy", "labels-0.npy", *options, "-o", "x.fcn")
    assert done.code == 2
    assert problem in done.err
    assert not Path("x.fcn").exists()


@pytest.mark.parametrize(
    ("files", "options", "problem"),
    [
        (["clinic-0.fcn"], [], "(.fcs); it holds noisy counts"),
        (["clinic-0.fcn"], ["--privacy", "local", "--epsilon", "1"], "give them to summarize, at the sites"),
        (["clinic-0.fcn"], ["--privacy", "local", "--guarantee", "by-class"], "is not there with differential privacy"),
        (["probs-0.npy"], ["--privacy", "local"], "probs-0.npy: this is not a noisy histogram"),
        (["clinic-0.fcn", "clinic-0.fcn"], ["--privacy", "local"], "of one or more sites, each once"),
        (["clinic-0.fcn"], ["--privacy", "local", "--signed", "site.json"], "--signed does not go with --privacy"),
    ],
)
def test_refusals_at_the_coordinator(
    noisy: list[str], command: Command, files: list[str], options: list[str], problem: str
) -> None:
    done = command("calibrate", *files, *options, "-o", "p.json")
    assert done.code == 2
    assert problem in done.err
    assert not Path("p.json").exists()


def test_a_run_has_a_noisy_file_for_each_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels, clients = rng.integers(0, 3, 600), np.arange(600) % 2
    np.savez("logits.npz", val_logits=rng.normal(size=(600, 3)), val_labels=labels, val_clients=clients)
    Path("site.json").write_text('{"budget": 2, "entries": []}')
    command.ok("summarize", "logits.npz", *LOCAL, "-o", "out")
    assert sorted(path.name for path in Path("out").iterdir()) == ["client-0.fcn", "client-1.fcn"]
    assert [entry.site for entry in read_ledger(Path("site.json")).entries] == ["client-0", "client-1"]
