"""tab:relative-inefficiency: how much larger the sets of federated models are than those of a central one.

The paper's ratios do not all follow from its own table of sizes (tab:full-results), so that table's are given too:
its FashionMNIST ratios are several times too large, and its DermaMNIST rows are sizes, not ratios.
"""

from __future__ import annotations

from typing import Any

from fedconformal._base.arrays import Floats
from fedconformal_paper.full_results import NOTES, measure
from fedconformal_paper.logits import Answers
from fedconformal_paper.numbers import FULL_RESULTS, METHODS, RELATIVE_INEFFICIENCY
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Table

LEVELS = (0.9, 0.8)
SLIP = "Where the first two numbers differ, the paper's ratio does not follow from its own sizes."
COLUMNS = ("dataset", "method", "level", "paper's\nratio", "of the paper's\nsizes", "ours", "see")


def relative_inefficiency(setup: Setup) -> Table:
    """Divide mean sizes by those of the central model: as printed, from the paper's own sizes, and ours."""
    rows: list[tuple[Any, ...]] = []
    for dataset in setup.track(setup.datasets):
        central = setup.logits.read(dataset, "central")
        base = None if central is None else _sizes(setup, central)
        for method in ("fedavg", "fedprox", "tct"):
            answers = setup.logits.read(dataset, method)
            lacking = "central" if central is None else method
            if central is None or base is None or answers is None:
                ratios, see = None, setup.logits.command(dataset, lacking).absent
            else:
                ratios = _sizes(setup, answers) / base
                see = " over ".join(dict.fromkeys([answers.differs, central.differs]))
            printed = RELATIVE_INEFFICIENCY.get(dataset, {}).get(method)
            if printed is None and ratios is None:
                continue
            for i, level in enumerate(LEVELS):
                ours = None if ratios is None else round(float(ratios[i]), 2)
                theirs = (printed[i], _of_sizes(dataset, method, i)) if printed else (None, None)
                rows.append((dataset, METHODS[method], level, *theirs, ours, see))
    return Table(
        name="relative-inefficiency",
        title="Size of the sets over that of a central model's",
        columns=COLUMNS,
        rows=rows,
        notes=[SLIP, "Score LAC.", *NOTES[:3]],
    )


def _of_sizes(dataset: str, method: str, i: int) -> float:
    printed = FULL_RESULTS[dataset]
    return round(printed[method][i].size / printed["central"][i].size, 1)


def _sizes(setup: Setup, answers: Answers) -> Floats:
    means: Floats = measure(answers, LEVELS, kind=setup.kind, count=setup.count)[1].mean(axis=0)
    return means
