"""What the paper says, what we found, and whether it is the same: the first table of the results page.

Runs of our own are calibrated on validation rows and tested on test rows; others' logits are cut in ten random halves,
as the paper does. A claim without evidence on either side is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedconformal_paper.evidence import LEVEL, OTHERS, Evidence, Found
from fedconformal_paper.numbers import COMPARE_LOSS, FULL_RESULTS, METHODS, TITLES
from fedconformal_paper.runs import AUTHORS, OURS, Run

NEAR = 1.25
"""Sets are as small as the paper's if they are at most this much larger."""
ALMOST = 1.1
"""TCT's sets are almost as small as a central model's if their ratio is at most this times the paper's."""
ROUNDING = 0.01
"""Coverage on some thousand test rows is known to about a hundredth."""
SWEEP = {"2": "", "3": "_overlap3", "4": "_overlap4", "10": "_iid"}
"""CIFAR-10: how many classes a client has, and the variant."""
NO_IMAGES = {"pathmnist", "tissuemnist", "fitz17k-disease", "fitz17k-skin"}
"""Data sets whose images the project cannot have."""
YES, NO, NOT_TRIED = "yes", "no", "not tried"


class Claim(NamedTuple):
    """One line: what the paper says, its numbers, ours, the verdict, and how far our models were trained."""

    says: str
    paper: str
    ours: str
    verdict: str
    cut: str


def claims(evidence: Evidence) -> list[Claim]:
    """Return all claims for which there is evidence, and what was not tried."""
    found = [*_coverage(evidence)]
    for dataset in FULL_RESULTS:
        found += _smaller_sets(evidence, dataset)
    return [
        *found,
        *_authors(evidence),
        *_near_central(evidence),
        *_central(evidence),
        *_sweep(evidence),
        *_losses(evidence),
        *_scores(evidence),
        *_not_tried(evidence),
    ]


def _coverage(evidence: Evidence) -> list[Claim]:
    theirs = [cells[0].coverage for methods in FULL_RESULTS.values() for cells in methods.values()]
    runs = [run.coverage for run in evidence.runs if run.dataset in FULL_RESULTS and run.accuracy < LEVEL]
    others = [one.coverage for one in evidence.all_others()]
    if not runs + others:
        return []
    ours = [f"{_span(some)} {whose}" for some, whose in ((runs, "own"), (others, "others'")) if some]
    cut = [f"{len(some)} {what}" for some, what in ((runs, "own runs"), (others, "of others")) if some]
    verdict = YES if min(runs + others) >= LEVEL - ROUNDING else NO
    return [
        Claim(
            "Coverage: sets hold the truth as often as promised, 0.9", _span(theirs, 2), _and(ours), verdict, _and(cut)
        )
    ]


def _smaller_sets(evidence: Evidence, dataset: str) -> list[Claim]:
    """Compare TCT with FedAvg: others' logits, then our runs, with our second stage if there is one."""
    rows = []
    says = f"{TITLES[dataset]}: TCT smaller than FedAvg"
    paper = FULL_RESULTS[dataset]["tct"][0].size, FULL_RESULTS[dataset]["fedavg"][0].size
    theirs = evidence.others(dataset, "tct"), evidence.others(dataset, "fedavg")
    if theirs[0] and theirs[1]:
        sizes = theirs[0].size, theirs[1].size
        rows.append(Claim(says, _pair(paper), _pair(sizes), _smaller(sizes, paper), OTHERS))
    compared = _own(evidence, dataset, OURS) or _own(evidence, dataset, AUTHORS)
    if compared is not None:
        sizes = compared.tct.size, compared.fedavg.size
        cut = f"{compared.tct.cut}; FedAvg: {compared.fedavg_cut}"
        says = f"{says}, {compared.tct.way}"
        rows.append(Claim(says, _pair(paper), _pair(sizes), _smaller(sizes, paper), cut))
    return rows


class _Compared(NamedTuple):
    """Our run of TCT, and a model of FedAvg to compare it with."""

    tct: Run
    fedavg: Run | Found
    fedavg_cut: str


def _own(evidence: Evidence, dataset: str, way: str) -> _Compared | None:
    """Find our largest run in one way of the second stage, and our FedAvg with the same network, or that of others."""
    tct = evidence.largest(f"{dataset}_tct", way=way)
    same = evidence.largest(f"{dataset}_fedavg", model=tct.model) if tct else None
    fedavg = same or evidence.others(dataset, "fedavg")
    return _Compared(tct, fedavg, _rounds(same) if same else OTHERS) if tct and fedavg else None


def _authors(evidence: Evidence) -> list[Claim]:
    """Judge the authors' second stage in one line, where the lines before are about ours."""
    found = {
        dataset: one
        for dataset in FULL_RESULTS
        if _own(evidence, dataset, OURS) and (one := _own(evidence, dataset, AUTHORS))
    }
    if not found:
        return []
    paper = [[FULL_RESULTS[dataset][method][0].size for method in ("tct", "fedavg")] for dataset in found]
    failed = [TITLES[dataset] for dataset, one in found.items() if one.tct.size >= one.fedavg.size]
    verdict = YES if not failed else NO if len(failed) == len(found) else f"{YES}, but not for {_and(failed)}"
    return [
        Claim(
            f"TCT smaller than FedAvg, {AUTHORS}: {', '.join(TITLES[dataset] for dataset in found)}",
            "; ".join(map(_pair, paper)),
            "; ".join(_pair((one.tct.size, one.fedavg.size)) for one in found.values()),
            verdict,
            "; ".join(one.tct.cut for one in found.values()),
        )
    ]


def _smaller(sizes: tuple[float, float], paper: tuple[float, float]) -> str:
    """Give the verdict on TCT's and FedAvg's sizes.

    >>> _smaller((1.2, 6.9), (1.2, 3.2))
    'yes, but our FedAvg sets are larger'
    """
    if sizes[0] >= sizes[1]:
        return NO
    larger = [size > NEAR * theirs for size, theirs in zip(sizes, paper, strict=True)]
    if all(larger):
        return f"{YES}, but our sets are larger"
    which = [name for name, one in zip(("TCT", "FedAvg"), larger, strict=True) if one]
    return f"{YES}, but our {which[0]} sets are larger" if which else YES


def _near_central(evidence: Evidence) -> list[Claim]:
    """Compare TCT with a central model of the same network, from the same people, in one line for all data sets."""
    found = {dataset: pair for dataset in FULL_RESULTS if (pair := _tct_and_central(evidence, dataset))}
    if not found:
        return []
    paper = {dataset: tuple(FULL_RESULTS[dataset][m][0].size for m in ("tct", "central")) for dataset in found}
    far = {
        TITLES[dataset]: tct.size / central.size
        for dataset, (tct, central) in found.items()
        if tct.size / central.size > ALMOST * paper[dataset][0] / paper[dataset][1]
    }
    times = ", ".join(f"{name} {ratio:.1f} times as large" for name, ratio in far.items())
    return [
        Claim(
            f"TCT almost as small as central: {', '.join(TITLES[dataset] for dataset in found)}",
            "; ".join(map(_pair, paper.values())),
            "; ".join(_pair((tct.size, central.size)) for tct, central in found.values()),
            YES if not far else f"{NO}: {times}" if len(far) == len(found) else f"{YES}, but {times}",
            "; ".join(
                tct.cut if tct.cut == central.cut else f"{tct.cut}, central {_rounds(central)}"
                for tct, central in found.values()
            ),
        )
    ]


def _tct_and_central(evidence: Evidence, dataset: str) -> tuple[Run | Found, Run | Found] | None:
    """Find both models: others' logits, or our runs with our second stage."""
    theirs = evidence.others(dataset, "tct"), evidence.others(dataset, "central")
    if theirs[0] and theirs[1]:
        return theirs[0], theirs[1]
    tct = evidence.largest(f"{dataset}_tct", way=OURS)
    central = evidence.largest(f"{dataset}_central", model=tct.model) if tct else None
    return (tct, central) if tct and central else None


def _central(evidence: Evidence) -> list[Claim]:
    found = {dataset: one for dataset in FULL_RESULTS if (one := evidence.others(dataset, "central"))}
    if not found:
        return []
    paper = {dataset: FULL_RESULTS[dataset]["central"][0].size for dataset in found}
    larger = [TITLES[dataset] for dataset, one in found.items() if one.size > NEAR * paper[dataset]]
    says = f"Central: {', '.join(TITLES[dataset] for dataset in found)}"
    ours = ", ".join(_size(one.size) for one in found.values())
    verdict = f"{YES}, but our {_and(larger)} sets are larger" if larger else YES
    return [Claim(says, ", ".join(map(str, paper.values())), ours, verdict, OTHERS)]


def _sweep(evidence: Evidence) -> list[Claim]:
    runs: dict[str, list[Run]] = {}
    for method in ("fedavg", "tct"):
        first = evidence.largest(f"cifar10_{method}_iid")
        model, way = (first.model, first.way) if first else ("", "")
        some = [evidence.largest(f"cifar10_{method}{v}", model=model, way=way) for v in SWEEP.values()]
        runs[method] = [run for run in some if run]
        if len(runs[method]) < len(SWEEP):
            return []
    sizes = {method: [run.size for run in some] for method, some in runs.items()}
    grown = {method: some[0] / some[-1] for method, some in sizes.items()}
    falls = sizes["fedavg"] == sorted(sizes["fedavg"], reverse=True)
    ours = "; ".join(f"{METHODS[method]} {', '.join(map(_size, some))}" for method, some in sizes.items())
    says = f"CIFAR-10: with {', '.join(SWEEP)} classes a client FedAvg shrinks, TCT less"
    verdict = YES if falls and grown["tct"] < grown["fedavg"] else NO
    cut = f"{runs['tct'][0].cut}; FedAvg: {_rounds(runs['fedavg'][0])}"
    return [Claim(says, "a figure", ours, verdict, cut)]


def _losses(evidence: Evidence) -> list[Claim]:
    """Compare our runs with each loss if they are alike in all else; or what the paper's table has."""
    squared = evidence.largest("cifar100_tct-squared")
    cross = evidence.largest("cifar100_tct", way=squared.way, model=squared.model) if squared else None
    if squared and cross:
        sizes, cut = (squared.size, cross.size), f"{cross.cut}, {cross.way}"
    else:
        rows = {row[0]: row for row in evidence.rows("tct-compare-loss") if row[3] == "LAC"}
        if set(rows) != set(COMPARE_LOSS):
            return []
        sizes, cut = (rows["squared"][5].mean, rows["cross-entropy"][5].mean), _whose(rows)
    paper = COMPARE_LOSS["squared"][1], COMPARE_LOSS["cross-entropy"][1]
    says = "CIFAR-100: TCT larger with squared loss than with cross-entropy"
    larger = any(size > NEAR * theirs for size, theirs in zip(sizes, paper, strict=True))
    verdict = (f"{YES}, but our sets are larger" if larger else YES) if sizes[0] > sizes[1] else NO
    return [Claim(says, _pair(paper), _pair(sizes), verdict, cut)]


def _whose(rows: Mapping[str, tuple[Any, ...]]) -> str:
    return ", ".join(f"{name}: {OTHERS if row[-1].startswith(OTHERS) else 'own run'}" for name, row in rows.items())


def _scores(evidence: Evidence) -> list[Claim]:
    rows = {row[3]: row for row in evidence.rows("tct-compare-loss") if row[0] == "cross-entropy"}
    if not {"LAC", "APS", "RAPS"} <= set(rows):
        return []
    order = [rows[name] for name in ("LAC", "RAPS", "APS")]
    sizes = [row[5].mean for row in order]
    says = "CIFAR-100, TCT: LAC smallest, then RAPS, then APS"
    paper, ours = ", ".join(str(row[4]) for row in order), ", ".join(map(_size, sizes))
    larger = any(row[5].mean > NEAR * row[4] for row in order)
    verdict = (f"{YES}, but our sets are larger" if larger else YES) if sizes == sorted(sizes) else NO
    return [Claim(says, paper, ours, verdict, OTHERS if order[0][-1].startswith(OTHERS) else "own run")]


def _not_tried(evidence: Evidence) -> list[Claim]:
    absent = [name for name in FULL_RESULTS if not any(evidence.best(name, method) for method in METHODS)]
    partly = [
        name
        for name in FULL_RESULTS
        if name not in absent and not any(evidence.best(name, m) for m in ("fedavg", "tct"))
    ]
    parts = [
        f"{', '.join(TITLES[one] for one in datasets)}: {methods}"
        for datasets, methods in ((partly, "FedAvg and TCT"), (absent, "all models"))
        if datasets
    ]
    cut = "no images here" if {*partly, *absent} <= NO_IMAGES else "no run"
    return [Claim("; ".join(parts), "in its tables", "none", NOT_TRIED, cut)] if parts else []


def _rounds(run: Run | Found) -> str:
    return run.cut.rpartition(", ")[2]


def _size(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _pair(sizes: Sequence[float]) -> str:
    """Write the paper's numbers as it does, and ours with two digits.

    >>> _pair((1.2, 3.2)), _pair((1.1834, 47.53))
    ('1.2 and 3.2', '1.18 and 47.5')
    """
    return " and ".join(f"{one:g}" if round(one, 1) == one else _size(one) for one in sizes)


def _span(values: Sequence[float], digits: int = 3) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def _and(words: Sequence[Any]) -> str:
    return " and ".join(", ".join(map(str, words)).rsplit(", ", 1))
