"""tab:relative-inefficiency: how much larger the sets of federated models are than those of a central one.

The paper's ratios do not all follow from its own table of sizes (tab:full-results), so that table's are given too:
its FashionMNIST ratios are several times too large, and its DermaMNIST rows are sizes, not ratios.
"""

from __future__ import annotations

from fedconformal._base.arrays import Floats
from fedconformal_paper.full_results import NOTES, measure
from fedconformal_paper.logits import Answers
from fedconformal_paper.numbers import FULL_RESULTS, METHODS, RELATIVE_INEFFICIENCY
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Part, Table

LEVELS = (0.9, 0.8)
SLIP = "Where the first two numbers differ, the paper's ratio does not follow from its own sizes."
COLUMNS = ("dataset", "method", "level", "paper's\nratio", "of the paper's\nsizes", "ours", "see")


def relative_inefficiency(setup: Setup) -> Table:
    """Divide mean sizes by those of the central model: as printed, from the paper's own sizes, and ours."""
    parts: list[Part] = []
    for dataset in setup.track(setup.datasets):
        central = setup.logits.read(dataset, "central")
        base = None if central is None else _sizes(setup, central)
        for method in ("fedavg", "fedprox", "tct"):
            answers = setup.logits.read(dataset, method)
            lacking = "central" if central is None else method
            printed = RELATIVE_INEFFICIENCY.get(dataset, {}).get(method)
            name = f"{dataset} {METHODS[method]}"
            if central is None or base is None or answers is None:
                if printed is not None:
                    parts.append(Part(name=name, command=str(setup.logits.command(dataset, lacking))))
                continue
            ratios = _sizes(setup, answers) / base
            rows = [
                (
                    dataset,
                    METHODS[method],
                    level,
                    *((printed[i], _of_sizes(dataset, method, i)) if printed else (None, None)),
                    round(float(ratios[i]), 2),
                )
                for i, level in enumerate(LEVELS)
            ]
            parts.append(
                Part(name=name, rows=rows, see=" over ".join(dict.fromkeys([answers.differs, central.differs])))
            )
    return Table(
        name="relative-inefficiency",
        title="Size of the sets over that of a central model's",
        columns=COLUMNS,
        parts=parts,
        notes=[SLIP, "Score LAC.", *NOTES[:3]],
    )


def _of_sizes(dataset: str, method: str, i: int) -> float:
    printed = FULL_RESULTS[dataset]
    return round(printed[method][i].size / printed["central"][i].size, 1)


def _sizes(setup: Setup, answers: Answers) -> Floats:
    means: Floats = measure(answers, LEVELS, kind=setup.kind, count=setup.count)[1].mean(axis=0)
    return means
