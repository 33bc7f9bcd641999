"""Claims of the paper compared with our results: the first table of the results page.

Held-out rows are split into ten random halves, as in the paper; a run without logits has one split into validation and
test rows, which is stated. A claim without evidence is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedconformal_paper.evidence import LEVEL, OTHERS, Evidence, Found
from fedconformal_paper.numbers import COMPARE_LOSS, FULL_RESULTS, METHODS, SWEEP_FEDAVG, TITLES
from fedconformal_paper.runs import AUTHORS, CONSECUTIVE, OURS, Run

NEAR = 1.25
"""Maximum ratio of sizes that agree."""
ALMOST = 1.1
"""TCT's sets are almost as small as a central model's if their ratio is at most this times the paper's."""
WITHIN = 0.01
"""Tolerance of coverage, about its accuracy on some thousand test rows."""
SWEEP = {"2": "", "3": "_overlap3", "4": "_overlap4", "10": "_iid"}
"""CIFAR-10: number of classes per client, and the variant."""
NO_IMAGES = {"tissuemnist", "fitz17k-disease", "fitz17k-skin"}
"""Data sets whose images are not available to the project."""
YES, NO, NOT_TRIED = "yes", "no", "not tried"


class Claim(NamedTuple):
    """A line of the table: claim, the paper's numbers, ours, verdict, and training of our models."""

    says: str
    paper: str
    ours: str
    verdict: str
    cut: str


def claims(evidence: Evidence) -> list[Claim]:
    """Return all claims with evidence, and a line on experiments that were not tried."""
    found = _coverage(evidence)
    for judge in (_smaller_sets, _near_central):
        for dataset in FULL_RESULTS:
            found += judge(evidence, dataset)
    for judge_all in (_central, _subset, _sweep, _maps, _losses, _scores, _not_tried):
        found += judge_all(evidence)
    return found


def _coverage(evidence: Evidence) -> list[Claim]:
    theirs = [cells[0].coverage for methods in FULL_RESULTS.values() for cells in methods.values()]
    runs = [
        run.coverage for run in evidence.runs if run.dataset in FULL_RESULTS and run.accuracy < LEVEL and run.halves
    ]
    others = [one.coverage for one in evidence.all_others()]
    if not runs + others:
        return []
    ours = [f"{_span(some)} {whose}" for some, whose in ((runs, "own"), (others, "others'")) if some]
    cut = [f"{len(some)} {what}" for some, what in ((runs, "own runs"), (others, "of others")) if some]
    near = min(theirs) - WITHIN <= min(runs + others) and max(runs + others) <= max(theirs) + WITHIN
    says = "Coverage: sets hold the truth as often as promised, 0.9"
    return [Claim(says, _span(theirs, 2), _and(ours), YES if near else NO, _and(cut))]


def _verdict(sizes: Mapping[str, tuple[float, float]], *, holds: bool = True) -> str:
    """Return the verdict on a claim, with our sizes that differ from the paper's by more than a quarter.

    >>> _verdict({"TCT": (1.2, 1.2), "FedAvg": (6.9, 3.2)}), _verdict({"TCT": (1.2, 2.4)}), _verdict({}, holds=False)
    ('yes, but our FedAvg sets are larger', 'yes, but our TCT sets are smaller', 'no')
    """
    if not holds:
        return NO
    larger = [name for name, (ours, paper) in sizes.items() if ours > NEAR * paper]
    smaller = [name for name, (ours, paper) in sizes.items() if ours * NEAR < paper]
    parts = [
        f"our {_and(names)} sets are {word}" for names, word in ((larger, "larger"), (smaller, "smaller")) if names
    ]
    return f"{YES}, but {_and(parts)}" if parts else YES


def _smaller_sets(evidence: Evidence, dataset: str) -> list[Claim]:
    """Compare TCT with FedAvg: others' logits, then our runs with either second stage."""
    rows = []
    says = f"{TITLES[dataset]}: TCT smaller than FedAvg"
    paper = FULL_RESULTS[dataset]["tct"][0].size, FULL_RESULTS[dataset]["fedavg"][0].size

    def judge(text: str, sizes: tuple[float, float], cut: str) -> None:
        pairs = dict(zip(("TCT", "FedAvg"), zip(sizes, paper, strict=True), strict=True))
        rows.append(Claim(text, _pair(paper), _pair(sizes), _verdict(pairs, holds=sizes[0] < sizes[1]), cut))

    theirs = evidence.others(dataset, "tct"), evidence.others(dataset, "fedavg")
    if theirs[0] and theirs[1]:
        judge(says, (theirs[0].size, theirs[1].size), OTHERS)
    for way in (AUTHORS, OURS):
        tct = evidence.largest(f"{dataset}_tct", way=way)
        others, same = evidence.others(dataset, "fedavg"), None
        if tct and not (others and tct.settings.get("weights")):  # which continues from others' FedAvg
            same = evidence.largest(f"{dataset}_fedavg", model=tct.model)
        fedavg = same or others
        if tct and fedavg:
            cut = f"{tct.cut}; FedAvg: {_rounds(fedavg)}{_split(tct, fedavg)}"
            judge(f"{says}, {way}", _sizes(tct, fedavg), cut)
    return rows


def _near_central(evidence: Evidence, dataset: str) -> list[Claim]:
    """Compare TCT with a central model of the same network and origin."""
    theirs = evidence.others(dataset, "tct"), evidence.others(dataset, "central")
    tct: Run | Found | None
    central: Run | Found | None
    tct, central = theirs
    if not (tct and central):
        own = evidence.largest(f"{dataset}_tct", way=OURS)
        tct, central = own, evidence.largest(f"{dataset}_central", model=own.model) if own else None
    if not (tct and central):
        return []
    paper = FULL_RESULTS[dataset]["tct"][0].size, FULL_RESULTS[dataset]["central"][0].size
    sizes = _sizes(tct, central)
    pairs = dict(zip(("TCT", "central"), zip(sizes, paper, strict=True), strict=True))
    verdict = _verdict(pairs, holds=sizes[0] / sizes[1] <= ALMOST * paper[0] / paper[1])
    if verdict == NO:
        verdict = f"{NO}: {sizes[0] / sizes[1]:.1f} times as large"
    cut = tct.cut if tct.cut == central.cut else f"{tct.cut}; central: {_rounds(central)}{_split(tct, central)}"
    way = f", {tct.way}" if isinstance(tct, Run) else ""
    return [Claim(f"{TITLES[dataset]}: TCT almost as small as central{way}", _pair(paper), _pair(sizes), verdict, cut)]


def _central(evidence: Evidence) -> list[Claim]:
    found = {dataset: one for dataset in FULL_RESULTS if (one := evidence.others(dataset, "central"))}
    if not found:
        return []
    paper = {dataset: FULL_RESULTS[dataset]["central"][0].size for dataset in found}
    says = f"Central: {', '.join(TITLES[dataset] for dataset in found)}"
    ours = ", ".join(_size(one.size) for one in found.values())
    verdict = _verdict({TITLES[dataset]: (one.size, paper[dataset]) for dataset, one in found.items()})
    return [Claim(says, ", ".join(map(str, paper.values())), ours, verdict, OTHERS)]


def _subset(evidence: Evidence) -> list[Claim]:
    """Compare TCT with FedAvg on the rows that all federated models get right."""
    rows = {row[0]: row for row in evidence.rows("cifar-efficiency-score-compare") if row[1] == "LAC"}
    if not {METHODS["tct"], METHODS["fedavg"]} <= set(rows):
        return []
    both = {name: (rows[name][3].mean, rows[name][2]) for name in (METHODS["tct"], METHODS["fedavg"])}
    ours, paper = zip(*both.values(), strict=True)
    says = "CIFAR-100: TCT smaller than FedAvg on the rows that both and FedProx get right"
    return [Claim(says, _pair(paper), _pair(ours), _verdict(both, holds=ours[0] < ours[1]), _whose(rows))]


def _sweep(evidence: Evidence) -> list[Claim]:
    runs: dict[str, list[Run]] = {}
    for method in ("fedavg", "tct"):
        first = evidence.largest(f"cifar10_{method}_iid")
        model, way = (first.model, first.way) if first else ("", "")
        some = [evidence.largest(f"cifar10_{method}{v}", model=model, way=way) for v in SWEEP.values()]
        runs[method] = [run for run in some if run]
        if len(runs[method]) < len(SWEEP):
            return []
    sizes = {method: [run.sets["0.9"]["size"] for run in some] for method, some in runs.items()}
    grown = {method: some[0] / some[-1] for method, some in sizes.items()}
    falls = sizes["fedavg"] == sorted(sizes["fedavg"], reverse=True)
    ours = "; ".join(f"{METHODS[method]} {', '.join(map(_size, some))}" for method, some in sizes.items())
    says = f"CIFAR-10: with {', '.join(SWEEP)} classes a client FedAvg shrinks, TCT less"
    together = {"FedAvg": (sum(sizes["fedavg"]), sum(SWEEP_FEDAVG))}
    verdict = _verdict(together, holds=falls and grown["tct"] < grown["fedavg"])
    paper = f"FedAvg {', '.join(map(str, SWEEP_FEDAVG))} (read off a plot)"
    cut = f"{runs['tct'][0].cut}; FedAvg: {_rounds(runs['fedavg'][0])}; one split"
    return [Claim(says, paper, ours, verdict, cut)]


def _maps(evidence: Evidence) -> list[Claim]:
    """Compare FedAvg on both maps of CIFAR-100's classes to clients in the authors' code, at the same cut."""
    consecutive, others = evidence.largest(f"cifar100_fedavg_{CONSECUTIVE}"), evidence.others("cifar100", "fedavg")
    like = consecutive and evidence.largest("cifar100_fedavg", model=consecutive.model)
    if not (consecutive and others and like and like.cut == consecutive.cut):
        return []
    printed, sizes = FULL_RESULTS["cifar100"]["fedavg"][0].size, _sizes(like, consecutive)
    wanted, ratio = others.size / printed, sizes[0] / sizes[1]
    says = "CIFAR-100: superclasses, not consecutive classes, a client explain our larger FedAvg sets"
    verdict = YES if ratio * NEAR >= wanted else f"{NO}: {ratio:.1f} times as large, not {wanted:.1f}"
    return [Claim(says, f"{printed:g}, map not stated", _pair(sizes), verdict, like.cut)]


def _losses(evidence: Evidence) -> list[Claim]:
    """Compare the losses in our runs that are otherwise equal, or else in the recorded table."""
    squared = evidence.largest("cifar100_tct-squared")
    cross = evidence.largest("cifar100_tct", way=squared.way, model=squared.model) if squared else None
    if squared and cross:
        sizes, cut = _sizes(squared, cross), f"{cross.cut}, {cross.way}{_split(squared, cross)}"
    else:
        rows = {row[0]: row for row in evidence.rows("tct-compare-loss") if row[3] == "LAC"}
        if set(rows) != set(COMPARE_LOSS):
            return []
        sizes, cut = (rows["squared"][5].mean, rows["cross-entropy"][5].mean), _whose(rows)
    paper = COMPARE_LOSS["squared"][1], COMPARE_LOSS["cross-entropy"][1]
    says = "CIFAR-100: TCT larger with squared loss than with cross-entropy"
    pairs = dict(zip(("squared", "cross-entropy"), zip(sizes, paper, strict=True), strict=True))
    return [Claim(says, _pair(paper), _pair(sizes), _verdict(pairs, holds=sizes[0] > sizes[1]), cut)]


def _whose(rows: Mapping[str, tuple[Any, ...]]) -> str:
    found = {name: OTHERS if row[-1].startswith(OTHERS) else "own run" for name, row in rows.items()}
    return OTHERS if {*found.values()} == {OTHERS} else ", ".join(f"{name}: {whose}" for name, whose in found.items())


def _scores(evidence: Evidence) -> list[Claim]:
    rows = {row[3]: row for row in evidence.rows("tct-compare-loss") if row[0] == "cross-entropy"}
    if not {"LAC", "APS", "RAPS"} <= set(rows):
        return []
    order = [rows[name] for name in ("LAC", "RAPS", "APS")]
    sizes = [row[5].mean for row in order]
    says = "CIFAR-100, TCT: LAC smallest, then RAPS, then APS"
    paper, ours = ", ".join(str(row[4]) for row in order), ", ".join(map(_size, sizes))
    verdict = _verdict({row[3]: (row[5].mean, row[4]) for row in order}, holds=sizes == sorted(sizes))
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
    images = [TITLES[name] for name in (*partly, *absent) if name not in NO_IMAGES]
    cut = "no images here" + (f", but for {_and(images)}: no run yet" if images else "")
    return [Claim("; ".join(parts), "in its tables", "none", NOT_TRIED, cut)] if parts else []


def _split(*models: Run | Found) -> str:
    """Return a note if models have to be compared on one split, because logits are missing."""
    return "" if all(isinstance(model, Found) or model.halves for model in models) else "; one split"


def _sizes(first: Run | Found, second: Run | Found) -> tuple[float, float]:
    """Return both sizes, on ten halves if available for both models."""
    if not _split(first, second):
        return first.size, second.size
    one, other = (model.sets["0.9"]["size"] if isinstance(model, Run) else model.size for model in (first, second))
    return one, other


def _rounds(run: Run | Found) -> str:
    return run.short.rpartition(", ")[2] if isinstance(run, Run) else run.cut


def _size(value: float) -> str:
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _pair(sizes: Sequence[float]) -> str:
    """Format a pair of sizes: the paper's as printed, ours with two digits.

    >>> _pair((1.2, 3.2)), _pair((1.1834, 47.53))
    ('1.2 and 3.2', '1.18 and 47.5')
    """
    return " and ".join(f"{one:g}" if round(one, 1) == one else _size(one) for one in sizes)


def _span(values: Sequence[float], digits: int = 3) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def _and(words: Sequence[Any]) -> str:
    return " and ".join(", ".join(map(str, words)).rsplit(", ", 1))
