"""tab:full-results: coverage and size of the sets of four kinds of models, at three levels.

The score is LAC, as stated in the paper's table of relative inefficiency, which derives from this table.
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
from fedconformal_paper.table import Measured, Part, Table
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
    """Return the table, with all runs of a model."""
    parts: list[Part] = []
    for dataset, method in setup.track([(dataset, method) for dataset in setup.datasets for method in METHODS]):
        printed = FULL_RESULTS.get(dataset, {}).get(method)
        name = f"{dataset} {METHODS[method]}"
        labels = setup.logits.labels(dataset, method)
        if printed and "" not in labels:
            parts.append(Part(name=name, command=str(setup.logits.command(dataset, method))))
        for label in labels:
            answers = setup.logits.read(dataset, method, label=label)
            if answers is not None:
                kind = f" (run {label})" if label else ""
                rows = _measured(answers, f"{METHODS[method]}{kind}", printed, setup)
                see = answers.differs if printed else f"{answers.differs}; not in the paper"
                parts.append(Part(name=f"{name}{kind}", rows=rows, see=see, network=answers.network))
    return Table(
        name="full-results",
        title="Coverage and size of prediction sets",
        columns=COLUMNS,
        parts=parts,
        notes=[*NOTES, f"Score LAC. Thresholds at rank ceil((1-alpha)(N+K)), from {READ[setup.kind]}."],
    )


def _measured(answers: Answers, method: str, printed: tuple[Cell, ...] | None, setup: Setup) -> list[tuple[Any, ...]]:
    coverage, sizes = measure(answers, COVERAGES, kind=setup.kind, count=setup.count)
    return [
        (
            answers.dataset,
            method,
            level,
            cell and cell.coverage,
            Measured.of(coverage[:, i]),
            cell and cell.size,
            Measured.of(sizes[:, i]),
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
