"""How large sets are that cover each of 100 classes: CIFAR-100 with few rows of a class at each of 20 sites.

    FEDCONFORMAL_DATA=DIRECTORY python benchmarks/by_class.py

The directory holds logits/cifar100_*.npz: a network that others trained in a federation, and its 10,000 test rows. A
temperature is fitted to the validation rows. Half of the test rows calibrate, about 45 of a class, at 20 random sites.
`ByClass(Mixture())` pays one stand-in a site in every class, so no class has enough and every set holds every label.
`ByClass(Independent())` assumes independent rows and pays nothing for the number of sites. With `holders` a class is at
some of the sites only, drawn at random before any row is seen, and pays for these. The table goes into
docs/guarantees.md.
"""

# ruff: noqa: T201

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE

import fedconformal as fc
from fedconformal._base.files import read_npz
from fedconformal.calibration.temperature import fit_temperature

SITES, SPLITS, ALPHA = 20, 10, 0.1
PAGE = HERE.parent / "docs" / "guarantees.md"
START, END = "<!-- by class -->", "<!-- /by class -->"
NAMES = [f"site-{k}" for k in range(SITES)]
HOLDERS = "ByClass(Mixture(), holders=...)"
GUARANTEES: list[tuple[str, fc.Guarantee, int]] = [
    ("ByClass(Mixture())", fc.Mixture(), SITES),
    *((HOLDERS, fc.Mixture(), holding) for holding in (10, 5, 3)),
    ("ByClass(Independent())", fc.Independent(), SITES),
]


def measured(path: Path, guarantee: fc.Guarantee, holding: int) -> tuple[float, float, float]:
    """Return the labels of a set, the coverage of all rows and the mean over splits of the worst class.

    The rows of a class are at `holding` of the sites.
    """
    found = read_npz(path)
    heat = fit_temperature([found["val_logits"]], [found["val_labels"]]).value
    probs = fc.softmax(found["test_logits"], temperature=heat).astype(np.float32)
    labels = found["test_labels"].astype(np.int64)
    rng, kept = np.random.default_rng(0), []
    for _ in range(SPLITS):
        first, second = np.array_split(rng.permutation(len(labels)), 2)
        places = np.argsort(rng.random((100, SITES)))[:, :holding]
        of_site = places[labels[first], rng.integers(0, holding, len(first))]
        parts: dict[str, Any] = {
            name: (probs[first[of_site == k]], labels[first[of_site == k]]) for k, name in enumerate(NAMES)
        }
        held = {label: [NAMES[k] for k in places[label]] for label in range(100)} if holding < SITES else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that classes lack scores is what this measures
            by_class = fc.ByClass(guarantee, holders=held)
            model = fc.FederatedConformalClassifier(guarantee=by_class, alpha=ALPHA).calibrate(parts)
            sets = model.predict_set(probs[second])
        hit = sets[np.arange(len(second)), labels[second]]
        each = np.bincount(labels[second], hit, 100) / np.bincount(labels[second], minlength=100)
        kept.append((sets.sum(axis=1).mean(), hit.mean(), each))
    sizes, hits, classes = (np.array(part) for part in zip(*kept, strict=True))
    return float(sizes.mean()), float(hits.mean()), float(classes.mean(axis=0).min())


def main() -> None:
    """Measure, print, and put the table into the page."""
    folder = Path(os.environ["FEDCONFORMAL_DATA"]) / "logits"
    rows = [
        "| logits | guarantee | sites of a class | labels a set | coverage | worst class |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("cifar100_tct", "cifar100_tct_iid", "cifar100_central"):
        for words, guarantee, holding in GUARANTEES:
            size, hit, worst = measured(folder / f"{name}.npz", guarantee, holding)
            rows.append(f"| {name.replace('_', ' ')} | `{words}` | {holding} | {size:.1f} | {hit:.3f} | {worst:.3f} |")
    table = "\n".join(rows)
    print(table)
    text = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(f"{START}.*{END}", f"{START}\n{table}\n{END}", text, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
