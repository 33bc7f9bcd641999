"""Coverage of overlapping groups on real logits, what it costs in labels, and what a summary by group costs in time.

    FEDCONFORMAL_DATA=DIRECTORY python benchmarks/by_group.py

The directory holds logits/*.npz, the outputs of networks that others trained, and dermamnist.npz with the collection
that each image is from. A temperature is fitted to the validation rows. In every split a random half of the rows
calibrates and the other half tests. Groups are what is known at prediction time:

- CIFAR-100: the 20 sites of the paper, five classes each; groups are the site, the superclass of the top label, and how
  sure the model is (thirds).
- DermaMNIST: the 3 sites of the paper; groups are the collection, the site, and whether the top label is the usual one.
- PathMNIST as in GC-FCP (https://github.com/HaifengWen/GC-FCP, `run.sh`): validation and test rows in halves, 5 sites
  with classes of their own, 50 runs, five overlapping windows of the top label. Their method is not run here.

The table goes into docs/groups.md.
"""

# ruff: noqa: T201

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from common import HERE, best, save
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal._base.files import read_npz
from fedconformal._base.groups import group_rows
from fedconformal.calibration.temperature import fit_temperature

SPLITS, ALPHA = 200, 0.1
PAGE = HERE.parent / "docs" / "groups.md"
START, END = "<!-- measured -->", "<!-- /measured -->"
COARSE = (
    "4 30 55 72 95|1 32 67 73 91|54 62 70 82 92|9 10 16 28 61|0 51 53 57 83|22 39 40 86 87|5 20 25 84 94|6 7 14 18 24|"
    "3 42 43 88 97|12 17 37 68 76|23 33 49 60 71|15 19 21 31 38|34 63 64 66 75|26 45 77 79 99|2 11 35 46 98|"
    "27 29 44 78 93|36 50 65 74 80|47 52 56 59 96|8 13 48 58 90|41 69 81 85 89"
)
"""The superclasses of CIFAR-100, which are the sites of the paper as well."""
WINDOWS = ((0, 3), (1, 4), (2, 5), (3, 6), (4, 9))


class Data(NamedTuple):
    """Rows: probabilities, labels, the site of each, and the columns of the groups."""

    probs: NDArray[Any]
    labels: NDArray[Any]
    sites: NDArray[Any]
    groups: Mapping[str, NDArray[Any]]
    splits: int = SPLITS


def _logits(folder: Path, name: str, *, both: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
    found = read_npz(folder / "logits" / f"{name}.npz")
    heat = fit_temperature([found["val_logits"]], [found["val_labels"]]).value
    parts = ("val", "test") if both else ("test",)
    logits = np.concatenate([found[f"{part}_logits"] for part in parts])
    labels = np.concatenate([found[f"{part}_labels"] for part in parts]).astype(np.int64).ravel()
    return fc.softmax(logits, temperature=heat).astype(np.float32), labels


def cifar(folder: Path) -> Data:
    """Return CIFAR-100 at the paper's sites."""
    probs, labels = _logits(folder, "cifar100_tct")
    coarse = np.empty(100, dtype=np.int64)
    for k, group in enumerate(COARSE.split("|")):
        coarse[[int(label) for label in group.split()]] = k
    top = probs.max(axis=1)
    sure = np.searchsorted(np.quantile(top, [1 / 3, 2 / 3]), top)
    return Data(probs, labels, coarse[labels], {"site": coarse[labels], "top": coarse[probs.argmax(1)], "sure": sure})


def derma(folder: Path) -> Data:
    """Return DermaMNIST, whose images come from four collections."""
    probs, labels = _logits(folder, "dermamnist_central")
    source = read_npz(folder / "dermamnist.npz")["test_source"].ravel()[
        -len(labels) :
    ]  # the first 200 are for the temperature
    sites = np.array([0, 0, 1, 1, 2, 2, 2])[labels]
    top = probs.argmax(axis=1)
    usual = np.where(top == np.bincount(top).argmax(), "usual", "other")
    return Data(probs, labels, sites, {"source": source, "site": sites, "top": usual})


def path(folder: Path) -> Data:
    """Return PathMNIST as GC-FCP has it."""
    probs, labels = _logits(folder, "pathmnist_central", both=True)
    top = probs.argmax(axis=1)
    inside = {f"window{low}-{high}": np.where((low <= top) & (top < high), "in", "") for low, high in WINDOWS}
    return Data(probs, labels, np.minimum(labels // 2, 4), inside, splits=50)


def one_split(data: Data, rng: np.random.Generator, guarantee: fc.Guarantee) -> tuple[Any, Any, Any]:
    """Calibrate on one half; return which rows are the other half, and their sets with one threshold and by group."""
    first, second = np.array_split(rng.permutation(len(data.labels)), 2)
    about: dict[str, Any] = {"score": fc.LAC(), "alpha": ALPHA}
    scores = fc.LAC().evaluate(data.probs, data.labels)
    summaries = []
    for site in np.unique(data.sites):
        mine = first[data.sites[first] == site]
        groups = {name: values[mine] for name, values in data.groups.items()}
        summaries.append(
            fc.Summary.of_scores(scores[mine], groups=groups, site=str(site), precision="float32", **about)
        )
    plain = fc.calibrate(summaries, alpha=ALPHA, guarantee=guarantee, exact=True)
    grouped = fc.calibrate(summaries, alpha=ALPHA, guarantee=fc.ByGroup(guarantee), exact=True)
    held = {name: values[second] for name, values in data.groups.items()}
    return second, plain.predict_set(data.probs[second]), grouped.predict_set(data.probs[second], groups=held)


def measured(data: Data, guarantee: fc.Guarantee) -> dict[str, Any]:
    """Return the mean coverage of every group, and the labels of a set: with one threshold and by group."""
    rng, held = np.random.default_rng(0), group_rows(data.groups, rows=len(data.labels))
    hits = {name: np.zeros((2, 2)) for name in held}
    sizes = np.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that some groups lack scores in some splits is counted as it comes
        for _ in range(data.splits):
            second, *found = one_split(data, rng, guarantee)
            for i, sets in enumerate(found):
                covered = np.full(len(data.labels), np.nan)
                covered[second] = sets[np.arange(len(second)), data.labels[second]]
                sizes[i] += sets.sum(axis=1).mean() / data.splits
                for name, mine in held.items():
                    inside = covered[mine]
                    hits[name][i] += np.nansum(inside), np.count_nonzero(~np.isnan(inside))
    coverage = {name: (counts[:, 0] / counts[:, 1]).tolist() for name, counts in hits.items()}
    return {"groups": len(held), "splits": data.splits, "sizes": sizes.tolist(), "coverage": coverage}


def speed() -> dict[str, float]:
    """Return the processor time of a summary by group, for each of its groups, over a plain one of a million scores."""
    rng, rows = np.random.default_rng(0), 1_000_000
    scores, sex = rng.random(rows), rng.choice(["F", "M"], rows)
    age = rng.choice(["18-39", "40-59", "60-79", "80+"], rows)
    columns = {"sex": {"sex": sex}, "sex and age": {"sex": sex, "age": age}}
    contenders: dict[str, Callable[[], Any]] = {"plain": lambda: fc.Summary.of_scores(scores)}
    for name, groups in columns.items():
        contenders[name] = lambda groups=groups: fc.Summary.of_scores(scores, groups=groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken: dict[str, list[float]] = {name: [] for name in contenders}
        for name, run in [*contenders.items()] * 20:
            start = process_time()
            run()
            taken[name].append(process_time() - start)
    fastest = best(taken)
    count = {"sex": 3, "sex and age": 7}
    return {name: fastest[name] / fastest["plain"] / count[name] for name in columns}


def main() -> None:
    """Measure, print, and put the table into the page."""
    folder = Path(os.environ["FEDCONFORMAL_DATA"])
    rows = [
        "| logits | guarantee | groups | lowest with one threshold | lowest by group | labels a set | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    results: dict[str, Any] = {}
    plan: list[tuple[str, Data, fc.Guarantee]] = [
        ("DermaMNIST", derma(folder), fc.Mixture()),
        ("PathMNIST as GC-FCP", path(folder), fc.Mixture()),
        ("CIFAR-100", cifar(folder), fc.Mixture()),
    ]
    for name, data, guarantee in plan:
        found = measured(data, guarantee)
        lowest = [min(pair[i] for pair in found["coverage"].values()) for i in (0, 1)]
        ratio = found["sizes"][1] / found["sizes"][0]
        results[f"{name}, {guarantee.name}"] = found
        rows.append(
            f"| {name} | `ByGroup({type(guarantee).__name__}())` | {found['groups']} "
            f"| {lowest[0]:.3f} | {lowest[1]:.3f} | "
            f"{found['sizes'][0]:.2f} to {found['sizes'][1]:.2f} | {ratio:.2f} |"
        )
        print(rows[-1], flush=True)
    results["a group over a plain summary"] = speed()
    print(results["a group over a plain summary"])
    save("by_group", results)
    text = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(f"{START}.*{END}", f"{START}\n{chr(10).join(rows)}\n{END}", text, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
