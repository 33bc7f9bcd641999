"""Choice of the default score: all scores on every available real data set.

    FEDCONFORMAL_DATA=DIRECTORY python benchmarks/default_score.py [--page]

The directory holds heart_disease.csv and logits/*.npz; two more data sets come with scikit-learn. Each score is
calibrated for the mixture of the sites, on random splits of the rows; the top label is always in a set. The tables go
into docs/scores.md; `--page` writes them there again from the saved results, without measuring.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, RESULTS, save
from fedconformal_paper.clients import client_of_each
from fedconformal_paper.heart import FILE, HOSPITAL, TARGET, fit
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal._base.files import read_npz
from fedconformal.evaluation.sets import SIZE_EDGES

NAME = "default_score"
PAGE = HERE.parent / "docs" / "scores.md"
START, END = "<!-- measured -->", "<!-- /measured -->"
SCORES: dict[str, fc.Score] = {
    "LAC": fc.LAC(),
    "APS": fc.APS(),
    "APS*": fc.APS(randomized=True),
    "RAPS": fc.RAPS(),
    "RAPS*": fc.RAPS(randomized=True),
    "SAPS": fc.SAPS(),
    "SAPS*": fc.SAPS(randomized=True),
    "Margin": fc.Margin(),
    "TopK": fc.TopK(),
}
ALPHAS = ("0.05", "0.1", "0.2")
SHOWN = "0.1"
SPLITS = {"logits": 20, "table": 100}
ERRORS = ("size", "coverage", "class", "stratum")
RARE = 0.01
"""A size class that holds a smaller share of the sets says little about coverage; a smaller difference says nothing."""

Array = NDArray[Any]
Labelled = tuple[Array, Array]


@dataclass(frozen=True)
class Split:
    """Probabilities and labels for the calibration at the sites and for the test."""

    sites: list[Labelled]
    test: Labelled


def single(probs: Any) -> Array:
    """Round probabilities to float32, as sites and predictors do before they score them."""
    return np.asarray(probs, dtype=np.float32)


def of_logits(path: Path) -> Iterator[Split]:
    """Fit a temperature to the validation rows, and cut the test rows in two; sites hold classes, or rows at random."""
    from fedconformal.calibration.temperature import fit_temperature

    dataset, partition = path.stem.split("_")[0], "iid" if path.stem.endswith("_iid") else "classes"
    found = read_npz(path)
    heat = fit_temperature([found["val_logits"]], [found["val_labels"]]).value
    probs = single(fc.softmax(found["test_logits"], temperature=heat))
    labels = found["test_labels"].astype(np.int64)
    owners = client_of_each(labels, dataset, partition)
    rng = np.random.default_rng(0)
    for _ in range(SPLITS["logits"]):
        first, second = np.array_split(rng.permutation(len(labels)), 2)
        held = [first[owners[first] == k] for k in np.unique(owners[first])]
        yield Split([(probs[mine], labels[mine]) for mine in held], (probs[second], labels[second]))


def of_table(x: Array, y: Array, owners: Array | None = None, *, sites: int = 4) -> Iterator[Split]:
    """Fit a logistic regression to half of the rows, and cut the rest in two; without owners sites are random."""
    for seed in range(SPLITS["table"]):
        rng = np.random.default_rng(seed)
        mine = rng.permutation(len(y)) % sites if owners is None else owners
        parts: dict[str, tuple[Array, Array, Array]] = {}
        for name in np.unique(mine):
            rows = rng.permutation(np.flatnonzero(mine == name))
            parts[str(name)] = (rows[::2], rows[1::4], rows[3::4])
        predict = fit({name: (x[rows], y[rows]) for name, (rows, _, _) in parts.items()})
        test = np.concatenate([rows for _, _, rows in parts.values()])
        held = [(single(predict(x[rows])), y[rows]) for _, rows, _ in parts.values()]
        yield Split(held, (single(predict(x[test])), y[test]))


def heart(directory: Path) -> tuple[Array, Array, Array]:
    """Read the patients: features, the grade of the disease, the hospital."""
    with (directory / FILE).open(encoding="utf-8-sig", newline="") as file:
        patients = list(csv.DictReader(file))
    columns = [name for name in patients[0] if name not in (HOSPITAL, TARGET)]
    x = np.array([[float(one[name] or math.nan) for name in columns] for one in patients])
    grades = np.array([int(float(one[TARGET])) for one in patients])
    return x, grades, np.array([one[HOSPITAL] for one in patients])


def all_sets(directory: Path) -> dict[str, Callable[[], Iterator[Split]]]:
    """Name every data set, and what makes its splits."""
    from sklearn.datasets import load_breast_cancer, load_digits

    x, grades, hospitals = heart(directory)
    cancer, benign = load_breast_cancer(return_X_y=True)
    tables = {
        "heart disease, 2 classes": partial(of_table, x, (grades > 0).astype(np.int64), hospitals),
        "heart disease, 5 classes": partial(of_table, x, grades, hospitals),
        "breast cancer, 3 features": partial(of_table, cancer[:, :3], benign),
        "breast cancer": partial(of_table, cancer, benign),
        "digits": partial(of_table, *load_digits(return_X_y=True)),
    }
    files = sorted((directory / "logits").glob("*.npz"))
    return {path.stem.replace("_", " "): partial(of_logits, path) for path in files} | tables


def measure(splits: Iterator[Split]) -> dict[str, Any]:
    """Measure every score at every alpha, over all splits."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for split in splits:
        for name, score in SCORES.items():
            about: Any = {"kind": "exact", "score": score}
            summaries = [
                fc.Summary.of_scores(score.evaluate(*rows), site=f"{k}", **about) for k, rows in enumerate(split.sites)
            ]
            for alpha in ALPHAS:
                threshold = fc.calibrate(summaries, alpha=alpha, exact=True).threshold
                found.setdefault((alpha, name), []).append(outcome(score, threshold, *split.test))
    rows, classes = split.test[0].shape
    measured = {alpha: {name: pooled(found[alpha, name]) for name in SCORES} for alpha in ALPHAS}
    sites = [len(labels) for _, labels in split.sites]
    return {"classes": classes, "sites": len(sites), "calibrate": sum(sites), "test": rows, "alphas": measured}


def outcome(score: fc.Score, threshold: Any, probs: Array, labels: Array) -> dict[str, Any]:
    """Return what one split shows of a score, and of LAC with a threshold that makes its sets as large on average."""
    sets = score.predict_set(probs, threshold)
    return {
        "size": np.count_nonzero(sets) / len(sets),
        "full": sets.all(axis=1).mean(),
        "empty": 1 - score.predict_set(probs, threshold, allow_empty=True).any(axis=1).mean(),
        **covered(sets, labels, ""),
        **covered(lac_of_size(probs, np.count_nonzero(sets)), labels, "lac_"),
    }


def lac_of_size(probs: Array, labels: int) -> Array:
    """Put the most probable labels of all rows into their sets, `labels` in all; the top label is always in."""
    rank = -probs
    rank[np.arange(len(probs)), probs.argmax(axis=1)] = -np.inf
    return rank <= np.partition(rank, labels - 1, axis=None)[labels - 1]


def covered(sets: Array, labels: Array, who: str) -> dict[str, Array]:
    """Count hits and rows: of all, by class, and by size class."""
    hit, sizes = sets[np.arange(len(labels)), labels], np.count_nonzero(sets, axis=1)
    groups = {
        "coverage": (np.zeros_like(labels), 1),
        "class": (labels, sets.shape[1]),
        "stratum": (np.searchsorted(SIZE_EDGES, sizes, side="right") - 1, len(SIZE_EDGES)),
    }
    return {
        who + name: np.stack([np.bincount(index, hit, most), np.bincount(index, minlength=most)])
        for name, (index, most) in groups.items()
    }


def pooled(splits: list[dict[str, Any]]) -> dict[str, float]:
    """Average over the splits, with standard errors."""
    kept = {}
    for name in splits[0]:
        found = np.array([split[name] for split in splits])
        if found.ndim > 1:
            found = worst(found, least=RARE if name.endswith("stratum") else 0)
        kept[name] = found.mean()
        if name in ERRORS:
            kept[f"{name}_se"] = found.std(ddof=1) / math.sqrt(len(found)) if len(found) > 1 else 0.0
    return {name: round(float(value), 5) for name, value in kept.items()}


def worst(counts: Array, *, least: float) -> Array:
    """Return, split by split, the coverage of the group that is covered least over all splits; no rare ones."""
    hits, rows = counts.sum(axis=0)
    held = (rows > 0) & (rows >= least * rows.sum())
    which = int(np.where(held, hits / np.maximum(rows, 1), np.inf).argmin())
    found = counts[counts[:, 1, which] > 0, :, which]
    coverage: Array = found[:, 0] / found[:, 1]
    return coverage


def relative(results: Any, alpha: str, name: str) -> float:
    """Return a score's set sizes over those of LAC at the alpha shown: the geometric mean over the data sets."""
    tables = [one["alphas"] for one in results.values()]
    return math.exp(sum(math.log(one[alpha][name]["size"] / one[SHOWN]["LAC"]["size"]) for one in tables) / len(tables))


def choice(results: Any) -> str:
    """Return the score with the smallest sets, over all data sets and alphas."""
    return min(SCORES, key=lambda name: math.prod(relative(results, alpha, name) for alpha in ALPHAS))


def smallest(results: Any, alpha: str, name: str) -> int:
    """Count the data sets on which no other score has smaller sets, by more than a hundredth."""
    tables = [one["alphas"][alpha] for one in results.values()]
    return sum(one[name]["size"] <= 1.01 * min(other["size"] for other in one.values()) for one in tables)


def mean(results: Any, alpha: str, name: str, what: str) -> float:
    """Average a number over the data sets."""
    return sum(float(one["alphas"][alpha][name][what]) for one in results.values()) / len(results)


def beside(results: Any, alpha: str, name: str, what: str) -> str:
    """Write a mean, and that of LAC with sets as large."""
    return f"{mean(results, alpha, name, what):.3f} ({mean(results, alpha, name, f'lac_{what}'):.3f})"


def overall(results: Any) -> Iterator[list[str]]:
    """Give a row for each score at the alpha shown: means over the data sets, and counts of data sets."""
    for name in SCORES:
        yield [
            name,
            f"{relative(results, SHOWN, name):.2f}",
            str(smallest(results, SHOWN, name)),
            str(sum(one["alphas"][SHOWN][name]["full"] > 0.5 for one in results.values())),
            f"{mean(results, SHOWN, name, 'coverage'):.3f}",
            *(beside(results, SHOWN, name, what) for what in ("class", "stratum")),
        ]


def markdown(head: list[str], rows: Iterator[list[str]]) -> str:
    """Write a table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]) + "\n"


TEXT = """
{best} has the smallest sets: within a hundredth of the smallest on {wins} of {sets} data sets at alpha = {alpha}.
It covers the worst class and the worst size class less often because its sets are smaller: LAC with sets as large as
another score's (in brackets) covers both at least as often on average.

A star marks a randomised score. `size` is relative to LAC, a geometric mean over the data sets.

{overall}
`benchmarks/default_score.py` measures it on {logits} random splits of each file of logits and {table} of each table;
`benchmarks/results/default_score.json` has every data set, at alpha = 0.05 and 0.2 too.
"""


def measured(results: Any) -> str:
    """Write what was found."""
    best = choice(results)
    columns = ["score", "size", "smallest on", "most sets full on", "coverage", "worst class", "worst size"]
    return TEXT.format(
        best=best,
        wins=smallest(results, SHOWN, best),
        sets=len(results),
        alpha=SHOWN,
        overall=markdown(columns, overall(results)),
        **SPLITS,
    )


def page() -> str:
    """Put what the saved results say into the page."""
    results = json.loads((RESULTS / f"{NAME}.json").read_bytes())["results"]
    before, rest = PAGE.read_text("utf-8").split(START)
    return before + START + measured(results) + END + rest.split(END)[1]


def main() -> None:
    """Measure, save, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", action="store_true")
    if not parser.parse_args().page:
        from threadpoolctl import threadpool_limits

        results = {}
        with threadpool_limits(1):  # many small fits: threads only wait for each other
            for name, splits in all_sets(Path(os.environ["FEDCONFORMAL_DATA"])).items():
                results[name] = measure(splits())
                print(name, {score: cell["size"] for score, cell in results[name]["alphas"][SHOWN].items()}, flush=True)
        save(NAME, results)
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
