"""Overhead of `predict_set` for one row, compared with the arithmetic alone.

The arithmetic: round the row to float32, see that it is a distribution, compare it with a cut-off that is known, and
put the top label in if the set is empty.

python benchmarks/one_row.py [--rounds 1001]
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from common import best, interleaved, save, table

import fedconformal as fc
from fedconformal._base.arrays import check_distributions

CALLS = 50


def bare(score: fc.Score, row: Any, limit: Any) -> Callable[[], Any]:
    """Return the arithmetic alone."""

    def answer() -> Any:
        probs = row.astype(np.float32)
        check_distributions(probs, "probabilities", 0)
        sets = np.empty(probs.shape, dtype=np.bool_)
        score.rule(limit)(probs, sets)
        if not sets.any():
            sets[0, probs[0].argmax()] = True
        return sets

    return answer


def many(answer: Callable[[], object]) -> Callable[[], None]:
    """Call it often enough for the clock."""

    def run() -> None:
        for _ in range(CALLS):
            answer()

    return run


def measure(score: fc.Score, classes: int, rounds: int) -> dict[str, Any]:
    """Time both in turns."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(classes), size=500)
    labels = [rng.choice(classes, p=row) for row in probs]
    predictor = fc.FederatedConformalClassifier(score=score).calibrate([(probs, labels)]).predictor
    row = probs[:1]
    needed = bare(score, row, np.asarray(predictor.certificate.limit))
    if not np.array_equal(needed(), predictor.predict_set(row)):
        raise SystemExit(f"{score}: the two do not agree")
    contenders = {"arithmetic": many(needed), "predict_set": many(lambda: predictor.predict_set(row))}
    found = {name: seconds / CALLS * 1e6 for name, seconds in best(interleaved(contenders, rounds)).items()}
    found["more"] = found["predict_set"] - found["arithmetic"]
    return {"score": score.name, "classes": classes, **{name: round(time, 1) for name, time in found.items()}}


def main() -> None:
    """Measure each score, with few classes and with many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1001)
    rounds = parser.parse_args().rounds
    rows = [measure(score, classes, rounds) for score in (fc.LAC(), fc.APS(), fc.RAPS()) for classes in (2, 10, 1000)]
    print("microseconds")
    table(list(rows[0]), [list(row.values()) for row in rows])
    save("one_row", rows)


if __name__ == "__main__":
    main()
