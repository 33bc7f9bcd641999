"""Every score that TorchCP has too, on the real logits: coverage and size of its sets beside ours.

    FEDCONFORMAL_DATA=DIRECTORY benchmarks/.venv/bin/python benchmarks/torchcp_scores.py

The directory holds logits/*.npz. A temperature is fitted to the validation rows, half of the test rows calibrate as one
site, the others test, ten times. No score is randomised, and sets may be empty, as TorchCP has it. The table goes into
docs/scores.md.
"""

# ruff: noqa: T201

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import HERE, save, table
from contenders import ALPHA, SCORES, fedconformal, torchcp

import fedconformal as fc
from fedconformal._base.files import read_npz
from fedconformal.calibration.temperature import fit_temperature

SPLITS = 10
PAGE = HERE.parent / "docs" / "scores.md"
START, END = "<!-- torchcp -->", "<!-- /torchcp -->"


def measured(path: Path, name: str) -> dict[str, float]:
    """Return coverage and size of both, and the share of sets that are the same."""
    found = read_npz(path)
    heat = fit_temperature([found["val_logits"]], [found["val_labels"]]).value
    probs = fc.softmax(found["test_logits"], temperature=heat).astype(np.float32)
    labels = found["test_labels"].astype(np.int64)
    rng, kept = np.random.default_rng(0), list[list[float]]()
    jobs = [fedconformal(name, allow_empty=True), torchcp(name)]
    for _ in range(SPLITS):
        first, second = np.array_split(rng.permutation(len(labels)), 2)
        ours, theirs = (np.asarray(job(probs[first], labels[first], probs[second])) > 0 for job in jobs)
        hits = [sets[np.arange(len(second)), labels[second]].mean() for sets in (ours, theirs)]
        sizes = [sets.sum(axis=1).mean() for sets in (ours, theirs)]
        kept.append([*hits, *sizes, (ours == theirs).all(axis=1).mean()])
    return dict(
        zip(("hit", "hit_torchcp", "size", "size_torchcp", "same"), np.mean(kept, axis=0).tolist(), strict=True)
    )


def main() -> None:
    """Measure, print, and put the table into the page."""
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    for path in sorted((Path(os.environ["FEDCONFORMAL_DATA"]) / "logits").glob("*.npz")):
        results[path.stem] = {name: measured(path, name) for name in SCORES}
        print(path.stem, flush=True)
    save("torchcp_scores", {"alpha": ALPHA, "splits": SPLITS, "data": results})
    head = ["data set", *(type(score).__name__ for score in SCORES.values())]
    rows = [[name.replace("_", " "), *map(cell, found.values())] for name, found in results.items()]
    table(head, rows)
    PAGE.write_text(written(PAGE.read_text("utf-8"), results), "utf-8")


def written(page: str, results: dict[str, Any]) -> str:
    """State in the page how many pairs of a data set and a score agree, and count the others by score."""
    names = {name: type(score).__name__ for name, score in SCORES.items()}
    pairs = [(names[name], "/" in cell(one)) for found in results.values() for name, one in found.items()]
    other = Counter(name for name, differs in pairs if differs)
    counts = ", ".join(f"{count} with {name}" for name, count in other.items())
    text = (
        f"{len(pairs) - other.total()} of {len(pairs)} pairs of a data set and a score agree; of the others {counts}."
    )
    return re.sub(f"{START}.*{END}", lambda _: f"{START}\n{text}\n{END}", page, flags=re.DOTALL)


def cell(one: dict[str, float]) -> str:
    """Write coverage and size, and those of TorchCP beside if they are others."""
    ours, theirs = (f"{one['hit' + who]:.3f}, {one['size' + who]:.2f}" for who in ("", "_torchcp"))
    return ours if ours == theirs else f"{ours} / {theirs}"


if __name__ == "__main__":
    main()
