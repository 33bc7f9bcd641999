"""tab:size-conditional-coverage: coverage in the quarters of rows with the smallest to the largest sets.

Angelopoulos, Bates, Malik and Jordan, "Uncertainty sets for image classifiers using conformal prediction", 2020.
Sets of equal size at the end of a quarter are divided at random.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal_paper.full_results import NOTES
from fedconformal_paper.numbers import SIZE_CONDITIONAL
from fedconformal_paper.score_functions import RANDOMISED, SCORES, scores_for, sets_of
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Measured, Part, Table
from fedconformal_paper.trials import trials

ALPHA = 0.1
QUARTERS = ("0-25", "25-50", "50-75", "75-100")
COLUMNS = ("dataset", "score", "quarter", "paper's\ncoverage", "coverage", "paper's\nsize", "size", "see")


def size_conditional(setup: Setup) -> Table:
    """Measure coverage and size in each quarter, with a TCT model at alpha = 0.1."""
    parts: dict[str, Part] = {}
    for dataset, name in setup.track([(dataset, name) for dataset in SIZE_CONDITIONAL for name in SCORES]):
        answers = setup.logits.read(dataset, "tct")
        if answers is None:
            parts[dataset] = Part(name=f"{dataset} TCT", command=str(setup.logits.command(dataset, "tct")))
            continue
        found = quarters(setup, dataset, name)
        printed = SIZE_CONDITIONAL[dataset][name.lower()]
        part = parts.setdefault(dataset, Part(name=f"{dataset} TCT", see=answers.differs))
        rows = []
        for i, quarter in enumerate(QUARTERS):
            cell = printed[i]
            ours = Measured.of(found[:, i, 0]), Measured.of(found[:, i, 1])
            rows.append((dataset, name, quarter, cell.coverage, ours[0], cell.size, ours[1]))
        parts[dataset] = replace(part, rows=[*part.rows, *rows])
    return Table(
        name="size-conditional-coverage",
        title="Coverage by set size, with TCT at alpha = 0.1",
        columns=COLUMNS,
        parts=list(parts.values()),
        notes=["Quarters of the rows by their set's size, in per cent.", RANDOMISED, *NOTES[:2]],
    )


def quarters(setup: Setup, dataset: str, name: str) -> Floats:
    """Return (trials, quarters, 2): coverage and mean size of each quarter of the rows."""
    rng = np.random.default_rng(0)
    found = []
    for trial in trials(setup.need(dataset, "tct"), count=setup.count):
        sets = sets_of(trial, scores_for(dataset)[name], ALPHA, setup.kind)
        sizes, covered = np.count_nonzero(sets, axis=1), trial.covered(sets)
        order = np.lexsort([rng.random(len(sizes)), sizes])
        parts = np.array_split(order, len(QUARTERS))
        found.append([(covered[part].mean(), sizes[part].mean()) for part in parts])
    return np.array(found)
