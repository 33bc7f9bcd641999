"""tab:cifar-efficiency-score-compare: sets of the rows that every federated model gets right, with each score."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedconformal._base.arrays import Booleans
from fedconformal.errors import InputError
from fedconformal_paper.full_results import NOTES
from fedconformal_paper.logits import Answers
from fedconformal_paper.numbers import METHODS, SCORE_COMPARE
from fedconformal_paper.score_functions import RANDOMISED, SCORES, sets_of
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Measured, Part, Table
from fedconformal_paper.trials import trials

DATASET, ALPHA = "cifar100", 0.1
COLUMNS = ("method", "score", "paper's\nsize", "size", "coverage", "see")


def score_compare(setup: Setup) -> Table:
    """Measure mean sizes at alpha = 0.1 on the CIFAR-100 rows that FedAvg, FedProx and TCT all classify correctly."""
    models = {method: setup.need(DATASET, method) for method in SCORE_COMPARE}
    right = all_right(list(models.values()))
    parts: dict[str, list[tuple[Any, ...]]] = {method: [] for method in models}
    for method, name in setup.track([(method, name) for method in models for name in SCORES]):
        sizes, coverage = [], []
        for trial in trials(models[method], count=setup.count):
            sets = sets_of(trial, SCORES[name], ALPHA, setup.kind)
            kept = right[trial.test.index]
            sizes.append(int(np.count_nonzero(sets[kept])) / max(1, int(np.count_nonzero(kept))))
            coverage.append(float(trial.covered(sets)[kept].mean()))
        printed = SCORE_COMPARE[method][list(SCORES).index(name)]
        parts[method].append((METHODS[method], name, printed, Measured.of(sizes), Measured.of(coverage)))
    share = f"{right.mean():.1%} of the rows are right with all three models; the paper does not say its share."
    return Table(
        name="cifar-efficiency-score-compare",
        title="Sets of the CIFAR-100 rows that all three models get right, at alpha = 0.1",
        columns=COLUMNS,
        parts=[Part(name=f"{DATASET} {METHODS[m]}", rows=rows, see=models[m].differs) for m, rows in parts.items()],
        notes=[share, RANDOMISED, *NOTES[:2]],
    )


def all_right(models: list[Answers]) -> Booleans:
    """Return which rows are classified correctly by every model; all models need the same rows."""
    for other in models[1:]:
        if not np.array_equal(other.labels, models[0].labels):
            raise InputError(
                f"{models[0].name} and {other.name} are about different rows; make both from the same ones"
            )
    right: Booleans = np.logical_and.reduce([one.logits.argmax(axis=1) == one.labels for one in models])
    return right
