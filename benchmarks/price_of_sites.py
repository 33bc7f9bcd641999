"""Labels a set and coverage under the paper's rank (FCP), the default (Mixture) and a threshold for each site.

    FEDCONFORMAL_DATA=DIRECTORY python benchmarks/price_of_sites.py

The directory holds logits/cifar100_*.npz, others' networks on the 9,000 test rows of CIFAR-100 (a temperature is fitted
to the validation rows), and sites/ist.csv, the International Stroke Trial with its own published predictions of death
or dependency (EXPDD). All sets are LAC's at alpha = 0.1. Of the stroke trial half of each hospital's patients calibrate
and the others test. The figure goes into docs/images/price-of-sites.svg, the tables into README.md and
docs/guarantees.md, the numbers into benchmarks/results/price_of_sites.json.
"""

# ruff: noqa: T201

from __future__ import annotations

import csv
import os
import re
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import HERE, save
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal._base.files import read_npz
from fedconformal.calibration.temperature import fit_temperature
from fedconformal.guarantees.guarantee import ceil_rank
from fedconformal.report.charts import CHART_STYLE, Plot
from fedconformal.training.data.sets.cifar import CIFAR100_GROUPS as GROUPS

ALPHA, SPLITS = Fraction(1, 10), 20
ROWS, NUMBERS = 1000, (2, 5, 10, 20, 50, 100, 200)
README, PAGE = HERE.parent / "README.md", HERE.parent / "docs" / "guarantees.md"
FIGURE = HERE.parent / "docs" / "images" / "price-of-sites.svg"
PRICE, STROKE = "price of sites", "stroke trial"
NAMES = {"fcp": "rank of Lu et al. (2023), ceil(0.9 (N + K))", "mixture": "fedconformal, ceil(0.9 N) + 1"}
SITES = len(GROUPS)
LAC = fc.LAC()
RULES: dict[str, fc.Guarantee] = {"fcp": fc.FCP(), "mixture": fc.Mixture()}


class Rows(NamedTuple):
    """Probabilities and labels."""

    probs: NDArray[Any]
    labels: NDArray[Any]

    def take(self, places: NDArray[Any]) -> Rows:
        """Return some of the rows."""
        return Rows(self.probs[places], self.labels[places])


class Found(NamedTuple):
    """Mean labels a set and coverage over splits, with the standard error of the labels."""

    labels: float
    error: float
    coverage: float


def read_logits(folder: Path, name: str) -> Rows:
    """Read the test rows of a network, with a temperature from its validation rows."""
    found = read_npz(folder / "logits" / f"{name}.npz")
    heat = fit_temperature([found["val_logits"]], [found["val_labels"]]).value
    probs = fc.softmax(found["test_logits"], temperature=heat).astype(np.float32)
    return Rows(probs, found["test_labels"].astype(np.int64))


def read_stroke_trial(folder: Path) -> tuple[Rows, NDArray[Any]]:
    """Read the trial's own predictions of death or dependency, the outcomes, and the hospital of each patient."""
    with (folder / "sites" / "ist.csv").open(encoding="utf-8", newline="") as file:
        kept = [row for row in csv.DictReader(file) if row["OCCODE"] in {"1", "2", "3", "4"} and row["EXPDD"]]
    risk = np.array([float(row["EXPDD"]) for row in kept])
    labels = np.array([int(row["OCCODE"] in {"1", "2"}) for row in kept])
    return Rows(np.stack([1 - risk, risk], axis=1), labels), np.array([row["HOSPNUM"] for row in kept])


def summaries(rows: Rows, sites: NDArray[Any], **more: Any) -> list[fc.Summary]:
    """Summarise the scores of each site."""
    scores = LAC.evaluate(rows.probs, rows.labels)
    found = []
    for site in np.unique(sites):
        mine = sites == site
        about = {key: values[mine] for key, values in more.items()}
        found.append(fc.Summary.of_scores(scores[mine], kind="exact", score=LAC, site=f"site-{site}", **about))
    return found


def sizes_and_hits(thresholds: Any, test: Rows) -> tuple[float, float]:
    """Return the labels a set and the coverage at one threshold, or one for each row or cell."""
    scores = LAC.evaluate_all(test.probs)
    inside = scores <= thresholds
    return float(inside.sum(axis=1).mean()), float(inside[np.arange(len(test.labels)), test.labels].mean())


def mean(results: list[tuple[float, float]]) -> Found:
    """Average over splits."""
    sizes, hits = (np.array(column) for column in zip(*results, strict=True))
    return Found(float(sizes.mean()), float(sizes.std(ddof=1) / np.sqrt(len(sizes))), float(hits.mean()))


def threshold(parts: list[fc.Summary], guarantee: fc.Guarantee) -> Any:
    """Calibrate without rounding for publication; that alpha cannot be promised is part of what is measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fc.calibrate(parts, alpha=ALPHA, guarantee=guarantee, exact=True).threshold


def equal_sites(rows: Rows, count: int, each: int) -> dict[str, Found]:
    """Measure with `count` sites of `each` rows; the other rows test."""
    rng, found = np.random.default_rng(0), {name: [] for name in RULES}
    for _ in range(SPLITS):
        order = rng.permutation(len(rows.labels))
        parts = summaries(rows.take(order[: count * each]), np.repeat(np.arange(count), each))
        test = rows.take(order[count * each :])
        for name, guarantee in RULES.items():
            found[name].append(sizes_and_hits(threshold(parts, guarantee), test))
    return {name: mean(results) for name, results in found.items()}


def by_strata(rows: Rows, strata: list[NDArray[Any]], *, columns: bool) -> dict[str, Found]:
    """Measure with a threshold for each stratum, at 20 sites; half of the rows calibrate.

    Strata are masks of rows. With `columns` stratum c is class c and its threshold is that of a label; else a row takes
    the largest threshold of its strata. The paper's price, one row for each site, is applied to each stratum.
    """
    rng, found = np.random.default_rng(0), {name: [] for name in RULES}
    scores = LAC.evaluate(rows.probs, rows.labels)
    for _ in range(SPLITS):
        first, second = np.array_split(rng.permutation(len(rows.labels)), 2)
        for name, price in (("fcp", SITES), ("mixture", 0)):
            limits = []
            for mask in strata:
                held = np.sort(scores[first[mask[first]]])
                rank = ceil_rank(ALPHA, len(held) + price) + (not price)
                limits.append(held[rank - 1] if rank <= len(held) else np.inf)
            limit: Any = np.array(limits)
            if not columns:
                limit = np.where(np.stack(strata, axis=1)[second], limit, -np.inf).max(axis=1)[:, None]
            found[name].append(sizes_and_hits(limit, rows.take(second)))
    return {name: mean(results) for name, results in found.items()}


def every_site(rows: Rows) -> dict[str, Found]:
    """Measure with coverage at each of 20 sites, classes 0 to 4, 5 to 9 and so on: one threshold or one for each."""
    sites, rng = rows.labels // 5, np.random.default_rng(0)
    found: dict[str, list[tuple[float, float]]] = {"largest": [], "every-site": []}
    for _ in range(SPLITS):
        first, second = np.array_split(rng.permutation(len(rows.labels)), 2)
        own = np.array([threshold([part], fc.Mixture()) for part in summaries(rows.take(first), sites[first])])
        test = rows.take(second)
        found["largest"].append(sizes_and_hits(own.max(), test))
        found["every-site"].append(sizes_and_hits(own[sites[second]][:, None], test))
    return {name: mean(results) for name, results in found.items()}


def stroke_trial(folder: Path) -> dict[str, Found]:
    """Measure on the hospitals of the stroke trial."""
    rows, hospitals = read_stroke_trial(folder)
    rng, found = np.random.default_rng(0), {name: [] for name in RULES}
    for _ in range(SPLITS):
        order = rng.permutation(len(hospitals))
        order = order[np.argsort(hospitals[order], kind="stable")]
        _, starts, counts = np.unique(hospitals[order], return_index=True, return_counts=True)
        place = np.arange(len(order)) - np.repeat(starts, counts)
        first = place < np.repeat((counts + 1) // 2, counts)
        parts = summaries(rows.take(order[first]), hospitals[order[first]])
        for name, guarantee in RULES.items():
            found[name].append(sizes_and_hits(threshold(parts, guarantee), rows.take(order[~first])))
    return {name: mean(results) for name, results in found.items()} | {"hospitals": len(parts)}


def groups_of(rows: Rows) -> list[NDArray[Any]]:
    """Return 44 groups: all rows, the site, the superclass of the top label, and how sure the model is, in thirds."""
    coarse = np.empty(100, dtype=np.int64)
    for k, group in enumerate(GROUPS):
        coarse[list(group)] = k
    top = rows.probs.max(axis=1)
    sure = np.searchsorted(np.quantile(top, [1 / 3, 2 / 3]), top)
    columns = (coarse[rows.labels], coarse[rows.probs.argmax(axis=1)], sure)
    return [np.isfinite(top), *(column == value for column in columns for value in np.unique(column))]


def figure(sweep: dict[int, dict[str, Found]]) -> str:
    """Draw the labels a set against the number of sites, at 1,000 calibration rows in all."""
    most = max(found.labels for cases in sweep.values() for found in cases.values())
    plot = Plot(
        title=f"CIFAR-100, {ROWS:,} calibration rows in all, alpha = 0.1",
        x=(0, max(sweep)),
        y=(0, most),
        x_label="sites",
        y_label="labels a set",
        width=620,
    )
    plot.line([(k, cases["fcp"].labels) for k, cases in sweep.items()], "rank of Lu et al. (2023)")
    plot.line([(k, cases["mixture"].labels) for k, cases in sweep.items()], "fedconformal")
    return plot.svg().replace(">", f' xmlns="http://www.w3.org/2000/svg"><style>{CHART_STYLE}</style>', 1)


def main() -> None:
    """Measure, print, draw, and put the tables into the pages."""
    folder = Path(os.environ["FEDCONFORMAL_DATA"])
    tct, central = (read_logits(folder, f"cifar100_{name}") for name in ("tct", "central"))
    sweep = {count: equal_sites(tct, count, ROWS // count) for count in NUMBERS}
    cases = {
        "CIFAR-100, 100 sites of 10 rows": sweep[100],
        "CIFAR-100, 200 sites of 5 rows": sweep[200],
        "CIFAR-100, 10 sites of 20 rows": equal_sites(tct, 10, 20),
        "CIFAR-100 by class, 20 sites": by_strata(tct, [tct.labels == c for c in range(100)], columns=True),
        "CIFAR-100 by class, 20 sites, central model": by_strata(
            central, [central.labels == c for c in range(100)], columns=True
        ),
        "CIFAR-100, 44 groups, 20 sites": by_strata(tct, groups_of(tct), columns=False),
    }
    stroke = stroke_trial(folder)
    own = {"tct": every_site(tct), "central": every_site(central)}
    save("price_of_sites", {"sweep": {str(k): v for k, v in sweep.items()}, **cases, "stroke": stroke, **own})
    FIGURE.write_text(figure(sweep) + "\n", "utf-8")
    lines = ["| calibration data, alpha = 0.1 | rank of Lu et al. (2023) | fedconformal |", "|---|---|---|"]
    hospitals = stroke.pop("hospitals")
    for name, found in {f"{hospitals} hospitals of the International Stroke Trial": stroke, **cases}.items():
        cells = (f"{one.labels:.2f} labels, coverage {one.coverage:.3f}" for one in found.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    table = "\n".join(lines)
    print(table)
    for name, found in own.items():
        print(f"every site, {name}:", *(f"{rule} {one.labels:.2f} ({one.coverage:.3f})" for rule, one in found.items()))
    put(PAGE, PRICE, table)
    head = f"| {hospitals} hospitals of the International Stroke Trial, alpha = 0.1 | coverage | labels per set |"
    rows = [f"| {NAMES[rule]} | {one.coverage:.3f} | {one.labels:.2f} |" for rule, one in stroke.items()]
    put(README, STROKE, "\n".join([head, "|---|---|---|", *rows]))


def put(page: Path, mark: str, table: str) -> None:
    """Replace the table between two marks of a page."""
    start, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    text = page.read_text("utf-8")
    page.write_text(re.sub(f"{start}.*?{end}", f"{start}\n{table}\n{end}", text, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
