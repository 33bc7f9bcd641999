"""Loss curves: summarised against one plain sum over them, and calibrated for very many sites.

    python benchmarks/losses.py [--rows 100000] [--points 1000] [--sites 1000000] [--rounds 5]

Summarising checks every loss (a number, in bounds, falling along the grid) and rounds the sums up. Many sites have
curves of 100 thresholds each, and are calibrated under the guarantees that weigh rows alike.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import best, interleaved, ratios, save, table

import fedconformal as fc
from fedconformal.summaries import LossSummary

WANTED, WANTED_SECONDS = 6.0, 10.0
SIZE, POINTS = 12, 100
ALIKE: tuple[fc.Guarantee, ...] = (fc.Mixture(), fc.PAC())


def summarising(rows: int, points: int, rounds: int) -> dict[str, Any]:
    """Time summaries of losses that fall along the grid, each row in its own way, beside one sum."""
    rng, grid = np.random.default_rng(0), np.arange(points) / points
    losses = np.empty((rows, points))
    for start in range(0, rows, 1000):
        some = losses[start : start + 1000]
        some[:] = np.clip(rng.random((len(some), 1)) + 0.2 - grid * rng.random((len(some), 1)), 0, 1)
    ways: dict[str, Callable[[], Any]] = {
        "sum": lambda: losses.sum(axis=0),
        "summarize_losses": lambda: fc.LossSummary.of_losses(losses, thresholds=grid),
    }
    taken = interleaved(ways, rounds)
    return {"rows": rows, "points": points, "seconds": best(taken), "rounds": taken, "ratio": ratios(taken, "sum")}


def many_sites(sites: int) -> dict[str, float]:
    """Time calibration from decoded summaries to the predictor, of sites with twelve rows each."""
    rng, grid = np.random.default_rng(0), np.arange(POINTS) / POINTS
    curves = [
        fc.LossSummary.of_losses(np.clip(rng.random((SIZE, 1)) - grid / 2, 0, 1), thresholds=grid) for _ in range(50)
    ]
    given = [
        LossSummary(units=curves[i % 50].units, sizes=(SIZE,), sites=(f"s{i}",), provenance=curves[0].provenance)
        for i in range(sites)
    ]
    for one in given:
        one.to_bytes()  # as if it had been received
    return {guarantee.name: _seconds(given, guarantee) for guarantee in ALIKE}


def _seconds(given: Sequence[fc.Summary], guarantee: fc.Guarantee) -> float:
    """Return the seconds of one processor: there is nothing beside it to give a ratio to, and the machine is shared."""
    start = time.process_time()
    fc.calibrate(given, risk=0.35, guarantee=guarantee)
    return time.process_time() - start


def main() -> None:
    """Print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--sites", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    one = summarising(options.rows, options.points, options.rounds)
    print(f"{options.rows} rows at {options.points} thresholds; wanted: at most {WANTED}x\n")
    table(["", "seconds", "ratio"], [[who, one["seconds"][who], one["ratio"][who]] for who in one["seconds"]])
    found = many_sites(options.sites)
    print(f"\n{options.sites} sites of {SIZE} rows; wanted: under {WANTED_SECONDS:g} s\n")
    table(["", "seconds"], [[name, seconds] for name, seconds in found.items()])
    save("losses", {"summarising": one, "sites": options.sites, "seconds": found})


if __name__ == "__main__":
    main()
