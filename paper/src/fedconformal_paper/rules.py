"""Threshold rules on the same logits and halves: the authors' code, the paper's rank, the default, naive sets.

The authors' code (src/conformal.py) reads its digest at a whole percentage, `round(100 * t)` with
t = ceil((N + K)(1 - alpha)) / N: at alpha = 0.1 that is 90, so K has no effect. Eq. 1 of the paper has the naive sets
{y : f(y) >= 1 - alpha}; `naive_lac` of the code has f(y) >= alpha. Neither is calibrated.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedconformal.guarantees import FCP, Mixture
from fedconformal.scores import LAC
from fedconformal_paper.full_results import NOTES
from fedconformal_paper.numbers import METHODS
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Measured, Part, Table
from fedconformal_paper.trials import RandomHalves

DATASET, ALPHA = "cifar100", 0.1
COLUMNS = ("method", "rule", "size", "coverage", "see")


def authors_threshold(trial: RandomHalves, alpha: float) -> float:
    """Return the quantile of all scores at a whole percentage, as in the authors' code."""
    scores = trial.calibration.scores(LAC())
    sites = np.count_nonzero(np.bincount(trial.calibration.clients))
    level = math.ceil(round((1 - alpha) * (len(scores) + sites), 9)) / len(scores)
    return float(np.percentile(scores, min(100, round(100 * level))))


def random_rank(trial: RandomHalves, alpha: float, epsilon: float) -> float:
    """Return the score at a random rank near the paper's, as App. C releases it for differential privacy.

    A test shows that this is not private: it releases a row's own score.
    """
    scores = np.sort(trial.calibration.scores(LAC()))
    sites = np.count_nonzero(np.bincount(trial.calibration.clients))
    distance = np.abs(np.arange(1, len(scores) + 1) - math.ceil(round((1 - alpha) * (len(scores) + sites), 9)))
    chances = np.exp(-epsilon * distance / 2)
    rng = np.random.default_rng(int(trial.calibration.index.sum()))
    return float(rng.choice(scores, p=chances / chances.sum()))


RULES: dict[str, Callable[[RandomHalves], float]] = {
    "authors' code": lambda trial: authors_threshold(trial, ALPHA),
    "FCP, the paper's rank": lambda trial: trial.thresholds(LAC(), [ALPHA], guarantee=FCP())[0],
    "Mixture, our default": lambda trial: trial.thresholds(LAC(), [ALPHA], kind="exact", guarantee=Mixture())[0],
    "random rank, epsilon 1 (App. C)": lambda trial: random_rank(trial, ALPHA, 1.0),
    "naive, f >= 1 - alpha (eq. 1)": lambda _: ALPHA,
    "naive, f >= alpha (their code)": lambda _: 1 - ALPHA,
}


def rules(setup: Setup) -> Table:
    """Measure size and coverage of LAC sets under each rule, on CIFAR-100."""
    parts = []
    for method in setup.track(("fedavg", "fedprox", "tct", "central")):
        answers = setup.logits.read(DATASET, method)
        if answers is None:
            parts.append(Part(name=f"{DATASET} {METHODS[method]}", command=str(setup.logits.command(DATASET, method))))
            continue
        sizes: dict[str, list[float]] = {name: [] for name in RULES}
        coverage: dict[str, list[float]] = {name: [] for name in RULES}
        for trial in setup.trials(answers):
            for name, rule in RULES.items():
                sets = trial.sets(LAC(), rule(trial))
                sizes[name].append(np.count_nonzero(sets) / len(sets))
                coverage[name].append(float(trial.covered(sets).mean()))
        rows = [(METHODS[method], name, Measured.of(sizes[name]), Measured.of(coverage[name])) for name in RULES]
        parts.append(Part(name=f"{DATASET} {METHODS[method]}", rows=rows, see=answers.differs, network=answers.network))
    return Table(
        name="threshold-rules",
        title="The authors' code, the paper's rank, our default and naive sets, on CIFAR-100 at alpha = 0.1",
        columns=COLUMNS,
        parts=parts,
        notes=["Same logits, halves and temperature for every rule.", *NOTES[:2]],
    )
