"""A score and a guarantee of another package, each with a parameter, work everywhere; nothing of ours knows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.command import write_sites

ROOT = Path(__file__).parents[2]

PACKAGE = '''
"""A score and a guarantee as another package writes them."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import Audience, Band, Guarantee
from fedconformal.scores import Score
from fedconformal.summaries.exact import ExactSummary


@dataclass(frozen=True, kw_only=True)
class RankPrice(Score):
    """The largest probability, plus a price for every rank below the first (Huang et al., 2024, with u = 1).

    Attributes:
        price: what a rank costs.
    """

    name = "rank-price"

    price: float = 0.25

    def __post_init__(self):
        if not 0 <= self.price <= 1:
            raise InputError(f"price is {self.price}, expected a number from 0 to 1")

    @classmethod
    def examples(cls):
        return (cls(price=0.1),)

    def of_labels(self, probs, labels):
        own = probs[np.arange(len(probs)), labels][:, None]
        before = np.arange(probs.shape[1]) < labels[:, None]
        ranks = ((probs > own) | ((probs == own) & before)).sum(axis=1)
        return probs.max(axis=1).astype(np.float64) + ranks * self.price

    def of_all(self, probs):
        order = np.argsort(-probs, axis=1, kind="stable")
        ranks = np.argsort(order, axis=1, kind="stable")
        return probs.max(axis=1).astype(np.float64)[:, None] + ranks * self.price


@dataclass(frozen=True, kw_only=True)
class Spoiled(Guarantee):
    """Cover the mixture of the sites, though some scores of each were written down too low.

    Attributes:
        spoiled: how many scores of a site may be wrong.
    """

    name = "spoiled"
    assumption = "all but the stated number of each site's rows are exchangeable with the test row of that site"
    caveat = "This is not a promise to a single site."

    spoiled: int = 1

    @classmethod
    def examples(cls):
        return (cls(spoiled=2),)

    def promised(self, counts, sizes):
        return Fraction(sum(max(0, m - self.spoiled) for m in counts), sum(sizes) + len(sizes))

    def band(self, alpha, sizes, gaps=None):
        return Band(1 - alpha, Fraction(1), Fraction(sum(gaps or ()), sum(sizes) + len(sizes)))

    def audience(self, sites, stratum=None):
        return Audience(population=f"from the mixture of the sites, {self.spoiled} bad rows at each")


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundedSummary(ExactSummary):
    """All scores with a few decimals, so that counts can be wrong."""

    name = "rounded"
    letter = "Z"
    certified = False

    @classmethod
    def build(cls, scores, *, alpha=None, decimals: int = 6, **about):
        """Round the scores.

        Args:
            decimals: how many are kept.
        """
        return super().build(scores.round(decimals), **about)
'''

ENTRY_POINTS = """
[fedconformal.scores]
rank-price = scratch_conformal:RankPrice
broken = scratch_conformal:Absent

[fedconformal.summaries]
rounded = scratch_conformal:RoundedSummary

[fedconformal.guarantees]
spoiled = scratch_conformal:Spoiled
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package as pip does: a module, and beside it what its metadata says."""
    folder = tmp_path_factory.mktemp("installed")
    (folder / "scratch_conformal.py").write_text(PACKAGE)
    about = folder / "scratch_conformal-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scratch-conformal\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def run(installed: Path, *arguments: str, module: str = "fedconformal") -> subprocess.CompletedProcess[str]:
    paths = [str(installed), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, *(["-m", module] if module != "-c" else ["-c"]), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "COLUMNS": "120"},
    )


def run_json(installed: Path, *arguments: str) -> dict[str, Any]:
    done = run(installed, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_from_rows_to_sets(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_sites(tmp_path)
    summaries = ["0.fcs", "1.fcs"]
    for k, summary in enumerate(summaries):
        rows = (f"probs-{k}.npy", f"labels-{k}.npy")
        made = run_json(installed, "summarize", *rows, "-o", summary, "--score", "rank-price:price=0.125")
        assert made["score"] == "RankPrice(price=0.125)"
    options = ("--guarantee", "spoiled:2")
    certificate = run_json(installed, "calibrate", *summaries, "-o", "p.json", *options)["certificate"]
    assert certificate["guarantee"] == {"name": "spoiled", "spoiled": 2}
    assert certificate["provenance"]["score"] == {"name": "rank-price", "price": 0.125}
    assert run_json(installed, "verify", "p.json", *summaries)["confirmed"] is True
    assert run_json(installed, "predict", "p.json", "test-probs.npy", "-o", "sets.npz")["rows"] == 180
    probs = np.load("test-probs.npy").astype(np.float32)
    ranks = (-probs).argsort(axis=1).argsort(axis=1)
    expected = probs.max(axis=1)[:, None] + ranks * 0.125 <= certificate["promises"][0]["threshold"]
    expected |= ranks == 0
    assert (np.load("sets.npz")["sets"] == expected).all()
    few = ("probs-0.npy", "labels-0.npy", "-o", "r.fcs", "--kind", "rounded:decimals=2")
    assert run_json(installed, "summarize", *few)["summaries"][0]["kind"] == "rounded"
    certificate = run_json(installed, "calibrate", "r.fcs", "-o", "r.json", "--exact")["certificate"]
    (promise,) = certificate["promises"]
    assert (certificate["status"], round(promise["threshold"], 2)) == ("estimated", promise["threshold"])
    planned = run_json(installed, "plan", "--sizes", "60,60,60", *options)
    assert "spoiled:2" in [option["guarantee"] for option in planned["options"]]


ONE_FILE = """
import sys
import fedconformal.guarantees, fedconformal.scores
for package in (fedconformal.guarantees, fedconformal.scores):
    package.__path__.append(sys.argv[1])
import fedconformal as fc
from fedconformal._base.registry import build
print(build("rank-price:price=0.5", fc.Score), build("spoiled:2", fc.Guarantee), sep=", ")
"""


def test_one_file_of_ours_is_enough(tmp_path: Path) -> None:
    (tmp_path / "new_file.py").write_text(PACKAGE)
    done = subprocess.run([sys.executable, "-c", ONE_FILE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("RankPrice(price=0.5), Spoiled(spoiled=2)\n")


def test_refusals(installed: Path) -> None:
    rows = ("summarize", "p.npy", "y.npy", "-o", "x.fcs", "--score")
    done = run(installed, *rows, "rank-price:price=x")
    broken, refusal = done.stderr.splitlines()
    assert "broken of scratch_conformal:Absent cannot be imported and is left out" in broken
    assert refusal.endswith("price is 'x', expected a number; rank-price has the parameters price (--score)")


@pytest.mark.long
def test_the_contract_checks_run_over_them(installed: Path) -> None:
    checks = [str(ROOT / "tests" / "contracts" / f"test_{what}.py") for what in ("scores", "guarantees")]
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir", str(ROOT))
    done = run(installed, *checks, *options, "-k", "RankPrice or Spoiled", module="pytest")
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(done.stdout.split(" passed")[0].split()[-1]) > 15, done.stdout[-300:]
