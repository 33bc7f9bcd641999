"""tab:full-results: coverage and size of the sets of four kinds of models, at three levels.

The score is LAC (the paper's table of relative inefficiency, which derives from this one, says so).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal.scores import LAC
from fedconformal_paper.logits import Answers
from fedconformal_paper.numbers import COVERAGES, FULL_RESULTS, METHODS, Cell
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Measured, Table
from fedconformal_paper.trials import TRIALS, trials

COLUMNS = ("dataset", "method", "level", "paper's\ncoverage", "coverage", "paper's\nsize", "size", "see")
NOTES = (
    f"{TRIALS} random halves of the pooled validation and test rows; the top label is always in the set.",
    "The temperature is fitted on the calibration rows, as the paper does, so exactness of the promise is given up.",
    "The central model, trained in one place, is calibrated across the same clients, so that only the model differs.",
    "Level: the coverage 1 - alpha that is wanted. Ours: mean and standard deviation over the trials.",
    "The paper states deviations of about .01 in coverage and .1 in size.",
)
READ = {"tdigest": "t-digests that are merged, as in the paper", "exact": "all scores", "ranks": "certified ranks"}


def full_results(setup: Setup) -> Table:
    """Repeat the table; rows without logits say the command that would make them."""
    rows: list[tuple[Any, ...]] = []
    for dataset, method in setup.track([(dataset, method) for dataset in setup.datasets for method in METHODS]):
        printed = FULL_RESULTS.get(dataset, {}).get(method)
        answers = setup.logits.read(dataset, method)
        if answers is not None:
            rows += _measured(answers, METHODS[method], printed, setup)
        elif printed is not None:
            absent = setup.logits.command(dataset, method).absent
            rows += [
                (dataset, METHODS[method], level, cell.coverage, None, cell.size, None, absent)
                for level, cell in zip(COVERAGES, printed, strict=True)
            ]
    return Table(
        name="full-results",
        title="Coverage and size of prediction sets",
        columns=COLUMNS,
        rows=rows,
        notes=[*NOTES, f"Score LAC. Thresholds at rank ceil((1-alpha)(N+K)), from {READ[setup.kind]}."],
    )


def _measured(answers: Answers, method: str, printed: tuple[Cell, ...] | None, setup: Setup) -> list[tuple[Any, ...]]:
    coverage, sizes = measure(answers, COVERAGES, kind=setup.kind, count=setup.count)
    differs = answers.differs if printed else f"{answers.differs}; not in the paper"
    return [
        (
            answers.dataset,
            method,
            level,
            cell and cell.coverage,
            Measured.of(coverage[:, i]),
            cell and cell.size,
            Measured.of(sizes[:, i]),
            differs,
        )
        for i, (level, cell) in enumerate(zip(COVERAGES, printed or (None,) * len(COVERAGES), strict=True))
    ]


def measure(
    answers: Answers, levels: Sequence[float], *, kind: str = "tdigest", count: int = TRIALS
) -> tuple[Floats, Floats]:
    """Return coverage and mean size of the LAC sets in each trial (row) at each level (column)."""
    coverage, sizes = np.empty((count, len(levels))), np.empty((count, len(levels)))
    alphas = [round(1 - level, 12) for level in levels]
    for t, trial in enumerate(trials(answers, count=count)):
        for i, threshold in enumerate(trial.thresholds(LAC(), alphas, kind=kind)):
            sets = trial.sets(LAC(), threshold)
            coverage[t, i] = trial.covered(sets).mean()
            sizes[t, i] = np.count_nonzero(sets) / len(sets)
    return coverage, sizes
