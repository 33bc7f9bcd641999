"""Calibrate and predict, 50,000 + 50,000 float32 rows, against a lower bound, TorchCP and MAPIE.

python benchmarks/scores.py [--rows 50000] [--classes 100 1000] [--rounds 7] [--without-peers]
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import best, in_a_fresh_process, interleaved, memory, ratios, save, table
from contenders import ALPHA, Labels, Matrix, available, fedconformal

PEERS = ("TorchCP", "MAPIE")
BARS = {"lac": 2.0, "aps": 0.8, "raps": 0.8}


def rows(n: int, classes: int, seed: int) -> tuple[Matrix, Labels]:
    """Draw softmax(3 x standard normal) and labels from these probabilities."""
    rng = np.random.default_rng(seed)
    probs = np.empty((n, classes), dtype=np.float32)
    labels = np.empty(n, dtype=np.int64)
    for part in np.array_split(np.arange(n), max(1, n * classes // 2**20)):
        odds = np.exp(3 * rng.standard_normal((len(part), classes)))
        odds /= odds.sum(axis=1, keepdims=True)
        probs[part] = odds
        labels[part] = (odds.cumsum(axis=1) < rng.random((len(part), 1))).sum(axis=1).clip(max=classes - 1)
    return probs, labels


def compare(name: str, classes: int, options: argparse.Namespace) -> dict[str, Any]:
    """Time one score at one number of classes, and check the sets."""
    probs, labels = rows(options.rows, classes, seed=1)
    test, truth = rows(options.rows, classes, seed=2)
    jobs, missing = available(name)
    jobs = {who: job for who, job in jobs.items() if who not in PEERS or not options.without_peers}
    small, few_labels = rows(500, 10, seed=3)
    for job in jobs.values():  # imports and first calls are not what is measured
        job(small, few_labels, small)
    slow = classes > 500 and name != "lac"
    runs = {who: partial(job, probs, labels, test) for who, job in jobs.items()}
    taken = interleaved(runs, options.rounds * (1 if slow else 3), few=dict.fromkeys(PEERS, 2 if slow else 5))
    ours = fedconformal(name, allow_empty=True)(probs, labels, test)
    found: dict[str, Any] = {"score": name, "classes": classes, "missing": missing, "seconds": best(taken)}
    found |= {"ratio_to_bound": ratios(taken, "bound"), "ratio_to_ours": ratios(taken, "fedconformal")}
    found["sets"] = {}
    for who, job in jobs.items():
        if who != "bound":
            sets = np.asarray(job(probs, labels, test), dtype=np.bool_)
            coverage = float(sets[np.arange(len(truth)), truth].mean())
            equal = float((sets == ours).all(axis=1).mean())
            found["sets"][who] = {
                "coverage": coverage,
                "size": float(sets.sum(axis=1).mean()),
                "rows_equal_to_ours_if_empty_sets_are_allowed": equal,
            }
    # 50,000 calibration and as many test rows: five standard deviations.
    spread = 5 * np.sqrt(2 * ALPHA * (1 - ALPHA) / options.rows)
    own = found["sets"]["fedconformal"]["coverage"]
    if not 1 - ALPHA - spread < own:
        raise SystemExit(f"{name}, {classes} classes: coverage {own}")
    print(f"{name.upper()} J={classes}: {found['ratio_to_bound']['fedconformal']:.2f}x the bound", flush=True)
    return found


def extra_memory(name: str, classes: int, options: argparse.Namespace) -> dict[str, float]:
    """Measure the peak above the inputs, everybody in a process of their own."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for part, seed in (("cal", 1), ("test", 2)):
            probs, labels = rows(options.rows, classes, seed)
            np.save(f"{folder}/{part}-probs.npy", probs)
            np.save(f"{folder}/{part}-labels.npy", labels)
        for who in available(name)[0]:
            if who not in PEERS or not options.without_peers:
                found[who] = float(in_a_fresh_process("scores.py", "--memory-of", who, name, folder))
    return found


def memory_of(who: str, name: str, folder: str) -> float:
    """Return what one run takes on top of its inputs, its result included, in MB."""
    job = available(name)[0][who]
    small, few = rows(200, 10, seed=3)
    job(small, few, small)
    files = [Path(folder) / f"{part}.npy" for part in ("cal-probs", "cal-labels", "test-probs")]
    probs, labels, test = (np.load(file) for file in files)
    before = memory("VmRSS")
    result = job(probs, labels, test)
    del result
    return memory("VmHWM") - before


def main() -> None:
    """Print two tables and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--without-peers", action="store_true")
    parser.add_argument("--memory-of", nargs=3, metavar=("WHO", "SCORE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(memory_of(*options.memory_of)))
        return

    found = [compare(name, classes, options) for classes in options.classes for name in BARS]
    print("\nSeconds, and their ratios: the fastest of several rounds side by side\n")
    whos = list(found[0]["seconds"])
    head = ["", *whos, "ours/bound", "wanted", *(f"{who}/ours" for who in whos if who in PEERS)]
    table(
        head,
        [
            [
                f"{row['score'].upper()} J={row['classes']}",
                *row["seconds"].values(),
                row["ratio_to_bound"]["fedconformal"],
                f"<= {BARS[row['score']]}",
                *(row["ratio_to_ours"][who] for who in whos if who in PEERS),
            ]
            for row in found
        ],
    )
    print("\nCoverage (wanted: 0.9) and mean size; rows equal to ours when empty sets are allowed\n")
    lines = [
        [f"{r['score'].upper()} J={r['classes']}", who, *sets.values()]
        for r in found
        for who, sets in r["sets"].items()
    ]
    table(["", "", "coverage", "size", "rows equal"], lines)
    for who, why in found[0]["missing"].items():
        print(f"\n{who} could not be run: {why}")

    most = max(options.classes)
    extra = {name: extra_memory(name, most, options) for name in BARS}
    print(f"\nMemory above the inputs at J={most}, MB, results included (wanted: under 150)\n")
    table(
        ["", *extra["lac"]],
        [[name.upper(), *(f"{value:.0f}" for value in row.values())] for name, row in extra.items()],
    )
    save("scores", {"rows": options.rows, "times": found, "extra_memory_mb": {"classes": most, **extra}})


if __name__ == "__main__":
    main()
