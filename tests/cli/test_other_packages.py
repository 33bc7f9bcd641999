"""A score and a guarantee of another package, each with a parameter, work everywhere; nothing of ours knows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.cli.command import write_sites

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
class Scaled(Score):
    """A factor times one minus the probability."""

    name = "scaled"

    factor: float = 0.25

    def __post_init__(self):
        if not 0 < self.factor <= 1:
            raise InputError(f"factor is {self.factor}, expected a number from 0 to 1")

    def of_labels(self, probs, labels):
        return self.of_all(probs)[np.arange(len(probs)), labels]

    def of_all(self, probs):
        return (1 - probs.astype(np.float64)) * self.factor


@dataclass(frozen=True, kw_only=True)
class Spoiled(Guarantee):
    """Cover the mixture of the sites, though some scores of each were written down too low."""

    name = "spoiled"
    assumption = "all but the stated number of each site's rows are exchangeable with the test row of that site"
    caveat = "This is not a promise to a single site."

    spoiled: int = 1

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
        """Round the scores."""
        return super().build(scores.round(decimals), **about)
'''

ENTRY_POINTS = """
[fedconformal.scores]
scaled = scratch_conformal:Scaled
broken = scratch_conformal:Absent

[fedconformal.summaries]
rounded = scratch_conformal:RoundedSummary

[fedconformal.guarantees]
spoiled = scratch_conformal:Spoiled
"""


PROGRAM = """
import contextlib, io, json, sys
from fedconformal.cli.app import run
for arguments in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
from scratch_conformal import Scaled, Spoiled
from fedconformal.testing import check_guarantee, check_score
check_score(Scaled())
check_guarantee(Spoiled())
print("checked")
"""
"""Runs commands in one process, which is not this one: a plug-in stays for as long as the process lives."""

SCORE = ("--score", "scaled:factor=0.125")
GUARANTEE = ("--guarantee", "spoiled:2")
COMMANDS = [
    ("summarize", "probs-0.npy", "labels-0.npy", "-o", "0.fcs", *SCORE),
    ("summarize", "probs-1.npy", "labels-1.npy", "-o", "1.fcs", *SCORE),
    ("calibrate", "0.fcs", "1.fcs", "-o", "p.json", *GUARANTEE),
    ("verify", "p.json", "0.fcs", "1.fcs"),
    ("predict", "p.json", "test-probs.npy", "-o", "sets.npz"),
    ("summarize", "probs-0.npy", "labels-0.npy", "-o", "r.fcs", "--kind", "rounded:decimals=2"),
    ("calibrate", "r.fcs", "-o", "r.json", "--exact"),
    ("plan", "--sizes", "60,60,60", *GUARANTEE),
]
WRONG = ("summarize", "p.npy", "y.npy", "-o", "x.fcs", "--score", "scaled:factor=x")


def run(folder: Path, program: str, text: str = "") -> list[str]:
    """Run a program in another process, and return the lines that it prints."""
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command, env = [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def install(folder: Path) -> None:
    """Install the package as pip does: a module, and its metadata beside it."""
    (folder / "scratch_conformal.py").write_text(PACKAGE)
    about = folder / "scratch_conformal-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scratch-conformal\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)


def test_from_rows_to_sets(here: Path) -> None:
    write_sites(here)
    install(here)
    *lines, checked = run(here, PROGRAM, json.dumps([WRONG, *((*words, "--json") for words in COMMANDS)]))
    (code, _, said), *done = map(json.loads, lines)
    broken, refusal = said.splitlines()
    assert (code, checked) == (2, "checked")
    assert "broken of scratch_conformal:Absent cannot be imported and is left out" in broken
    assert refusal.endswith("factor is 'x', expected a number; scaled has the parameters factor (--score)")
    assert [code for code, _, _ in done] == [0] * len(COMMANDS), done
    found: list[dict[str, Any]] = [json.loads(out) for _, out, _ in done]
    assert found[0]["score"] == "Scaled(factor=0.125)"
    certificate = found[2]["certificate"]
    assert certificate["guarantee"] == {"name": "spoiled", "spoiled": 2}
    assert certificate["provenance"]["score"] == {"name": "scaled", "factor": 0.125}
    assert found[3]["confirmed"] is True
    probs = np.load("test-probs.npy").astype(np.float32).astype(np.float64)
    expected = (1 - probs) * 0.125 <= certificate["promises"][0]["threshold"]
    assert np.array_equal(np.load("sets.npz")["sets"], expected | (probs == probs.max(axis=1, keepdims=True)))
    assert found[5]["summaries"][0]["kind"] == "rounded"
    (promise,) = found[6]["certificate"]["promises"]
    assert (found[6]["certificate"]["status"], round(promise["threshold"], 2)) == ("estimated", promise["threshold"])
    assert "spoiled:2" in [option["guarantee"] for option in found[7]["options"]]


ONE_FILE = """
import fedconformal.guarantees, fedconformal.scores
for package in (fedconformal.guarantees, fedconformal.scores):
    package.__path__.append("new")
import fedconformal as fc
from fedconformal._base.registry import build
print(build("scaled:factor=0.5", fc.Score), build("spoiled:2", fc.Guarantee), sep=", ")
"""


def test_one_file_of_ours_is_enough(here: Path) -> None:
    Path("new").mkdir()
    Path("new/new_file.py").write_text(PACKAGE)
    assert run(here, ONE_FILE) == ["Scaled(factor=0.5), Spoiled(spoiled=2)"]
