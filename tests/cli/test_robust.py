"""calibrate --guarantee robust: the right guarantee, what is said of it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from tests.cli.command import Command


@pytest.fixture
def sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Thirty sites; the last one sends zeros."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = [f"site-{k:02}.fcs" for k in range(30)]
    for k, name in enumerate(names):
        scores = rng.random(100) if k < 29 else np.zeros(100)
        Path(name).write_bytes(fc.Summary.of_scores(scores, site=Path(name).stem, score=fc.LAC()).to_bytes())
    return names


def test_robust(sites: list[str], command: Command) -> None:
    done = command.ok("calibrate", *sites, "-o", "p.json", "--guarantee", "robust:1,most_scores=500")
    assert "whatever at most 1 of the sites sent" in done.out
    predictor = fc.load("p.json")
    assert predictor.certificate.guarantee == {"name": "robust", "liars": 1, "most_scores": 500}
    assert predictor.certificate.sites == 30
    command.ok("verify", "p.json", *sites)


def test_sites_alike(sites: list[str], command: Command) -> None:
    options = ["-o", "p.json", "--guarantee", "quantile-of-quantiles:liars=9,least_scores=100"]
    found = command.ok("calibrate", *sites[:29], *options, "--json").json
    described = {"name": "quantile-of-quantiles", "liars": 9, "least_scores": 100}
    assert found["certificate"]["guarantee"] == described
    assert found["certificate"]["promises"][0]["threshold"] < 1
    command.ok("verify", "p.json", *sites[:29])


def test_most_scores_of_the_mixture(sites: list[str], command: Command) -> None:
    """One file that claims a million zeros no longer makes the threshold zero."""
    Path("loud.fcs").write_bytes(fc.Summary.of_scores(np.zeros(10**6), site="loud", score=fc.LAC()).to_bytes())
    done = command.ok("calibrate", *sites, "loud.fcs", "-o", "p.json", "--json")
    assert done.json["certificate"]["promises"][0]["threshold"] == 0
    assert "site 'loud' has 100% of all scores" in done.err
    assert done.err.endswith("bound what a site may claim (most_scores), or use weights of your own\n")
    done = command.ok("calibrate", *sites, "loud.fcs", "-o", "p.json", "--guarantee", "mixture:most_scores=100")
    assert "in proportion to n_k (counted up to 100)" in done.out
    predictor = fc.load("p.json")
    assert predictor.certificate.guarantee == {"name": "mixture", "weights": "rows", "most_scores": 100}
    assert float(predictor.certificate.limit) > 0.8
    command.ok("verify", "p.json", *sites, "loud.fcs")


@pytest.mark.parametrize(
    ("guarantee", "problem"),
    [
        ("robust:30", "30 liars among 30 sites leave nobody honest"),
        ("robust:liars=-1", "liars is -1"),
        ("robust", "guarantee robust needs liars"),
        ("quantile-of-quantiles:1", "give least_scores, how many scores a site should have at least"),
        ("mixture:most_scores=0", "most_scores is 0, expected a whole number"),
        ("mixture:most_scores=9,weights=uniform", "most_scores goes with weights 'rows'"),
    ],
)
def test_refusals(sites: list[str], command: Command, guarantee: str, problem: str) -> None:
    done = command("calibrate", *sites, "-o", "p.json", "--guarantee", guarantee)
    assert done.code == 2
    assert problem in done.err
    assert not Path("p.json").exists()
