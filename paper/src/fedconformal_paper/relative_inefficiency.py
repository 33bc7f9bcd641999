"""tab:relative-inefficiency: how much larger the sets of federated models are than those of a central one.

Not all of the paper's ratios follow from its own table of sizes (tab:full-results), so those of that table are given:
its FashionMNIST ratios are several times too large, and its DermaMNIST rows are sizes, not ratios.
Ours follow from the sizes in our own table, so that the two always agree.
"""

from __future__ import annotations

from fedconformal_paper.full_results import NOTES, full_results
from fedconformal_paper.numbers import FULL_RESULTS, METHODS, NETWORKS, RELATIVE_INEFFICIENCY
from fedconformal_paper.setup import Setup
from fedconformal_paper.table import Part, Table

LEVELS = (0.9, 0.8)
SLIP = "Where the first two numbers differ, the paper's ratio does not follow from its own sizes."
SAME = "Only models of the same network are divided: others' by others', own by own."
COLUMNS = ("dataset", "method", "level", "paper's\nratio", "of the paper's\nsizes", "ours", "see")


def relative_inefficiency(setup: Setup) -> Table:
    """Return the table, from measured sizes."""
    return ratios(full_results(setup))


def ratios(sizes: Table) -> Table:
    """Return ratios of mean sizes to those of the central model: as printed, from the paper's sizes, and ours."""
    there = {part.name: part for part in sizes.parts}
    parts: list[Part] = []
    alone: list[str] = []
    for dataset in dict.fromkeys(name.split()[0] for name in there):
        base = f"{dataset} {METHODS['central']}"
        central = [part for name, part in there.items() if name == base or name.startswith(f"{base} (")]
        for method in ("fedavg", "fedprox", "tct"):
            part = there.get(f"{dataset} {METHODS[method]}")
            if part is not None and central:
                same = [one for one in central if not part.rows or one.command or one.network == part.network]
                if same:
                    parts.append(_divided(part, same[-1], dataset, method))
                else:
                    alone.append(f"{part.name} ({NETWORKS.get(part.network, 'others')})")
    without = [f"Not divided, as no central model has the same network: {', '.join(alone)}."] if alone else []
    return Table(
        name="relative-inefficiency",
        title="Size of the sets over that of a central model's",
        columns=COLUMNS,
        parts=parts,
        notes=[SLIP, SAME, *without, "Score LAC.", *NOTES[:3]],
    )


def _divided(part: Part, central: Part, dataset: str, method: str) -> Part:
    if central.command or part.command:
        return Part(name=part.name, command=central.command or part.command)
    ours, base = ({row[2]: row[6].mean for row in one.rows} for one in (part, central))
    printed = RELATIVE_INEFFICIENCY.get(dataset, {}).get(method)
    rows = [
        (
            dataset,
            METHODS[method],
            level,
            *((printed[i], _of_sizes(dataset, method, i)) if printed else (None, None)),
            round(ours[level] / base[level], 2),
        )
        for i, level in enumerate(LEVELS)
    ]
    return Part(name=part.name, rows=rows, see=" over ".join(dict.fromkeys([part.see, central.see])))


def _of_sizes(dataset: str, method: str, i: int) -> float:
    printed = FULL_RESULTS[dataset]
    return round(printed[method][i].size / printed["central"][i].size, 1)
