"""Which score has the smallest sets where everything is known: a thousand synthetic problems, from 2 to 100 classes.

    python benchmarks/synthetic_scores.py [--page]

Labels are drawn from a softmax of random logits, and some are noise; the model sees the logits with errors, and is too
sure or not sure enough. Each problem has its own seed, so any of them can be made again. The tables go into
docs/scores.md; `--page` writes them there again from the saved results, without measuring.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import RESULTS, save
from default_score import ALPHAS, PAGE, Array, markdown, single
from default_score import SCORES as ALL

import fedconformal as fc

NAME = "synthetic_scores"
START, END = "<!-- synthetic -->", "<!-- /synthetic -->"
SCORES = {name: ALL[name] for name in ("LAC", "APS", "APS*", "RAPS", "RAPS*")}
PROBLEMS = 1000
TEST_ROWS = 1000
CLASSES = ((2, 2), (3, 10), (11, 30), (31, 100))
AGAIN = 4
"""How many problems are saved one by one, for a test that makes them again."""
TIE = 1.01
"""Sizes that differ by less than a hundredth count as the same."""
HALF = 0.5
BINS = 15


@dataclass(frozen=True)
class Problem:
    """Probabilities and labels of some sites, and of test rows; what they were made with."""

    alpha: str
    label_noise: float
    sites: list[tuple[Array, Array]]
    test: tuple[Array, Array]


def draw(seed: int) -> Problem:
    """Make a problem; a quarter of them is in each range of classes."""
    rng = np.random.default_rng([16, seed])

    def between(low: float, high: float) -> float:
        return float(math.exp(rng.uniform(math.log(low), math.log(high))))

    low, high = CLASSES[seed % len(CLASSES)]
    classes = min(high, max(low, round(between(low - 0.5, high + 0.5))))
    rows, sites = round(between(200, 4000)), int(rng.integers(1, 11))
    spread = np.exp(rng.uniform(0, 1) * rng.standard_normal((rows + TEST_ROWS, 1)))  # easy rows and hard ones
    strength = between(0.5, 30) * spread
    logits = strength * rng.standard_normal((rows + TEST_ROWS, classes))
    labels = np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)
    noise = float(rng.uniform(0, 0.2)) if rng.random() < HALF else 0.0
    labels = np.where(rng.random(len(labels)) < noise, rng.integers(classes, size=len(labels)), labels)
    seen = logits + between(0.02, 1) * strength * rng.standard_normal(logits.shape)
    probs = single(fc.softmax(between(1 / 3, 3) * seen))
    mine = np.array_split(np.arange(rows), sites)
    return Problem(
        alpha=ALPHAS[int(rng.integers(len(ALPHAS)))],
        label_noise=noise,
        sites=[(probs[part], labels[part]) for part in mine],
        test=(probs[rows:], labels[rows:]),
    )


def measure(problem: Problem) -> dict[str, Any]:
    """Measure every score on a problem, and the model."""
    probs, labels = problem.test
    sizes, full = {}, {}
    for name, score in SCORES.items():
        about: Any = {"kind": "exact", "score": score}
        parts = [
            fc.Summary.of_scores(score.evaluate(*rows), site=f"{k}", **about) for k, rows in enumerate(problem.sites)
        ]
        rule = fc.calibrate(parts, alpha=problem.alpha, guarantee=fc.FCP(), exact=True)
        sets = score.predict_set(probs, rule.threshold)
        sizes[name] = round(np.count_nonzero(sets) / len(sets), 5)
        full[name] = round(float(sets.all(axis=1).mean()), 5)
    return {
        "classes": probs.shape[1],
        "alpha": problem.alpha,
        "rows": sum(len(one) for _, one in problem.sites),
        "label_noise": problem.label_noise,
        "accuracy": float(np.mean(probs.argmax(axis=1) == labels)),
        "error": calibration_error(probs, labels),
        "size": sizes,
        "full": full,
    }


def calibration_error(probs: Array, labels: Array) -> float:
    """Return how far the top probability is from the share of hits, on average over bins of it (Guo et al., 2017)."""
    sure, hit = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1) == labels
    index = np.minimum((sure * BINS).astype(int), BINS - 1)
    off = np.abs(np.bincount(index, sure, BINS) - np.bincount(index, hit, BINS))
    return float(off.sum() / len(labels))


def regimes() -> dict[str, Callable[[Any], bool]]:
    """Name the kinds of problems that are looked at."""
    found: dict[str, Callable[[Any], bool]] = {"all": lambda one: one["rows"] > 0}
    for low, high in CLASSES:
        what = f"{low} classes" if low == high else f"{low} to {high} classes"
        found[what] = lambda one, low=low, high=high: low <= one["classes"] <= high
    for low, high in ((0, 0.5), (0.5, 0.8), (0.8, 0.9), (0.9, 1.01)):
        what = f"accuracy {low:g} to {min(high, 1):g}"
        found[what] = lambda one, low=low, high=high: low <= one["accuracy"] < high
    for low, high in ((0, 0.05), (0.05, 0.15), (0.15, 1.01)):
        what = f"calibration error {low:g} to {min(high, 1):g}"
        found[what] = lambda one, low=low, high=high: low <= one["error"] < high
    found["no label noise"] = lambda one: one["label_noise"] == 0
    found["label noise up to 0.2"] = lambda one: one["label_noise"] > 0
    found["fewer than 1000 calibration rows"] = lambda one: one["rows"] < 1000
    found["1000 calibration rows or more"] = lambda one: one["rows"] >= 1000
    for alpha in ALPHAS:
        found[f"alpha = {alpha}"] = lambda one, alpha=alpha: one["alpha"] == alpha
    return found


def collect(problems: list[Any]) -> dict[str, Any]:
    """Count, regime by regime, which score is smallest; and what changing the score does where most sets are full."""
    found = {what: regime([one for one in problems if fits(one)]) for what, fits in regimes().items()}
    ranges = {what: fits for what, fits in regimes().items() if what.endswith("classes")}
    stuck = {
        f"{name}, {what}": changes([one for one in problems if fits(one) and one["full"][name] > HALF], name)
        for name in SCORES
        for what, fits in ranges.items()
    }
    return {
        "problems": len(problems),
        "test_rows": TEST_ROWS,
        "regimes": found,
        "most_full": stuck,
        "again": problems[:AGAIN],
    }


def regime(problems: list[Any]) -> dict[str, Any]:
    """Return the share of the problems on which each score is smallest, but for ties, and its size over that of LAC."""
    sizes = np.array([[one["size"][name] for name in SCORES] for one in problems])
    least = (sizes <= TIE * sizes.min(axis=1, keepdims=True)).mean(axis=0)
    over = np.exp(np.log(sizes / sizes[:, :1]).mean(axis=0))
    return {
        "problems": len(problems),
        "smallest": dict(zip(SCORES, least.round(4).tolist(), strict=True)),
        "over_lac": dict(zip(SCORES, over.round(4).tolist(), strict=True)),
    }


def changes(problems: list[Any], old: str) -> dict[str, Any]:
    """Say what each other score does on these problems."""
    others = {new: change(problems, old, new) for new in SCORES if new != old}
    return {"problems": len(problems), "others": others}


def change(problems: list[Any], old: str, new: str) -> dict[str, float]:
    """Return how often another score has smaller sets, or larger ones, and how many labels it leaves of the old."""
    ratios = np.array([one["size"][new] / one["size"][old] for one in problems])
    if not len(ratios):
        return {"smaller": 0, "larger": 0, "ratio": 1.0}
    return {
        "smaller": int(np.count_nonzero(ratios * TIE < 1)),
        "larger": int(np.count_nonzero(ratios > TIE)),
        "ratio": round(float(np.exp(np.log(ratios).mean())), 4),
    }


TEXT = """
On {problems} synthetic problems with 2 to 100 classes LAC is within a hundredth of the smallest sets on {share:.0%},
and least often, on {least_share:.0%}, with {least}; there the best score has sets {least_over:.2f} times as large. A
cell is the share of problems on which a score is within a hundredth of the smallest, and its size relative to LAC.

{regimes}
Measured by `benchmarks/synthetic_scores.py`; `benchmarks/results/synthetic_scores.json` has more regimes, and the
problems where more than half of the sets hold every label: there LAC helps with 2 classes and a randomised RAPS with
many. Choose a score before the calibration rows are scored. Real models differ.
"""


def measured(found: Any) -> str:
    """Write what was found."""
    regimes = found["regimes"]

    def by_regime() -> Iterator[list[str]]:
        for what, one in regimes.items():
            if what == "all" or what.endswith("classes"):
                cells = (f"{one['smallest'][name]:.0%}, {one['over_lac'][name]:.2f}" for name in SCORES)
                yield [what, str(one["problems"]), *cells]

    least = min(regimes, key=lambda what: regimes[what]["smallest"]["LAC"])
    return TEXT.format(
        share=regimes["all"]["smallest"]["LAC"],
        least=least,
        least_share=regimes[least]["smallest"]["LAC"],
        least_over=min(regimes[least]["over_lac"].values()),
        problems=f"{found['problems']:,}",
        regimes=markdown(["problems", "number", *SCORES], by_regime()),
    )


def page() -> str:
    """Put what the saved results say into the page."""
    found = json.loads((RESULTS / f"{NAME}.json").read_bytes())["results"]
    before, rest = PAGE.read_text("utf-8").split(START)
    return before + START + measured(found) + END + rest.split(END)[1]


def main() -> None:
    """Measure, save, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true")
    if not parser.parse_args().page:
        problems = []
        for seed in range(PROBLEMS):
            problems.append(measure(draw(seed)))
            if seed % 100 == 99:
                print(f"{seed + 1} of {PROBLEMS}", flush=True)
        save(NAME, collect(problems))
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
