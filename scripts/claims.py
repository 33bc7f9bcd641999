"""What the paper says, what our runs found, and whether it is the same: the first table of docs/training-results.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedconformal_paper.numbers import COMPARE_LOSS, FULL_RESULTS

Found = Mapping[str, dict[str, Any]]
"""The results by the names of their runs."""

NEAR = 1.25
"""Sets are as small as the paper's if they are at most this much larger."""
LEVEL, ROUNDING = 0.9, 0.01
"""Coverage on some thousand test rows is known to about a hundredth."""
ORDER = {
    "fashionmnist": "fashionmnist",
    "dermamnist": "dermamnist",
    "dermamnist-resnet": "dermamnist",
    "cifar10-2": "cifar10",
}
"""How runs are called, and their data set."""
SWEEP = (2, 3, 4, 10)


def claims(found: Found) -> list[str]:
    """Return the lines of the table."""
    rows = [*_smaller_sets(found), *_sweep(found), *_losses(found), *_coverage(found)]
    return [
        "| what the paper says | its numbers | ours | the same? | our cut |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]


def size(result: Mapping[str, Any]) -> float:
    """Return the mean size of the sets at 0.9."""
    return float(result["sets"]["0.9"]["size"])


def cut(result: Mapping[str, Any]) -> str:
    """Say how a run was trained, from what it wrote down itself."""
    settings = {"solver": "scaffold", "model": None, **result["defaults"], **result["settings"]}
    said = f"{settings['method']} {settings['rounds']} rounds"
    if settings["method"] == "tct":
        linear = len(result.get("linear_losses", ())) or settings["linear_rounds"]
        ours = settings["solver"] == "lbfgs"
        said = f"tct {settings['rounds']} + {linear} rounds" + (
            " with our second stage" if ours else f" of {settings['steps']} steps"
        )
    return f"{said}, {settings['model']}" if settings["model"] else said


def _smaller_sets(found: Found) -> list[list[str]]:
    rows = []
    for name, dataset in ORDER.items():
        fedavg = found.get(f"{name}-fedavg")
        for tct in (found.get(f"{name}-tct-authors"), found.get(f"{name}-tct")):
            if tct and fedavg:
                theirs = FULL_RESULTS[dataset]["tct"][0].size
                verdict = "no"
                if size(tct) < size(fedavg):
                    verdict = "yes" if size(tct) <= NEAR * theirs else "yes, but our sets are larger"
                paper = f"{theirs} and {FULL_RESULTS[dataset]['fedavg'][0].size}"
                ours = f"{size(tct):.2f} and {size(fedavg):.2f}"
                what = f"{dataset}: TCT's sets are smaller than FedAvg's, at 0.9"
                rows.append([what, paper, ours, verdict, f"{cut(tct)}; {cut(fedavg)}"])
    return rows


def _sweep(found: Found) -> list[list[str]]:
    runs = {method: [found.get(f"cifar10-{n}-{method}") for n in SWEEP] for method in ("fedavg", "tct")}
    sizes = {method: [size(one) for one in some if one] for method, some in runs.items()}
    if any(len(some) < len(SWEEP) for some in sizes.values()):
        return []
    grown = {method: some[0] / some[-1] for method, some in sizes.items()}
    same = {
        "fedavg": sizes["fedavg"] == sorted(sizes["fedavg"], reverse=True),
        "tct": grown["tct"] < grown["fedavg"],
    }
    says = {"fedavg": "FedAvg's sets are larger, the fewer classes a client has", "tct": "TCT's sets change less"}
    rows = []
    for method, some in sizes.items():
        what = f"cifar10 with {', '.join(map(str, SWEEP))} classes a client: {says[method]}"
        ours = ", ".join(f"{one:.2f}" for one in some)
        rows.append([what, "a figure", ours, "yes" if same[method] else "no", cut(runs[method][0] or {})])
    return rows


def _losses(found: Found) -> list[list[str]]:
    cross, squared = found.get("cifar100-tct"), found.get("cifar100-tct-squared")
    if not (cross and squared):
        return []
    theirs = f"{COMPARE_LOSS['squared'][1]} and {COMPARE_LOSS['cross-entropy'][1]}"
    ours = f"{size(squared):.1f} and {size(cross):.1f}"
    what = "cifar100: TCT with squared loss has larger sets than with cross-entropy, at 0.9"
    return [[what, theirs, ours, "yes" if size(squared) > size(cross) else "no", cut(cross)]]


def _coverage(found: Found) -> list[list[str]]:
    theirs = [cells[0].coverage for methods in FULL_RESULTS.values() for cells in methods.values()]
    at = [one["sets"]["0.9"]["coverage"] for one in found.values() if one["accuracy"] < LEVEL]
    verdict = "yes" if min(at) >= LEVEL - ROUNDING else "no"
    paper, ours = f"{min(theirs)} to {max(theirs)}", f"{min(at):.3f} to {max(at):.3f}"
    return [["sets cover what they promise, 0.9", paper, ours, verdict, f"{len(at)} runs of accuracy below 0.9"]]
