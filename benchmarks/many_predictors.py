"""Time of a predictor for very many sites, under every guarantee that weighs all scores alike.

    python benchmarks/many_predictors.py [--sites 1000000]

Sites have 10 to 30 scores each, or 100 to 1,000 of which about 100 are sent; a tenth of a million of them are distinct
and repeat under new names. `calibrate` finds the threshold, and `Predictor.of` sorts all points for the promise curve.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from common import in_a_fresh_process, memory, save, table

import fedconformal as fc
from fedconformal.summaries.batch import SummaryBatch

DISTINCT = 100_000
SIZES = {"10 to 30": (10, 31), "100 to 1,000": (100, 1001)}
GUARANTEES: dict[str, fc.Guarantee] = {one.name: one for one in (fc.Mixture(), fc.FCP(), fc.PAC())}


def alone(count: int, sizes: str) -> list[dict[str, Any]]:
    """Calibrate and make the predictor under each guarantee; seconds of the processor, which others do not lengthen."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    made = [
        fc.Summary.of_scores(rng.beta(2, 1, size=n), alpha=0.1, score=fc.LAC(), model="sha256:0123456789abcdef")
        for n in rng.integers(*SIZES[sizes], size=min(count, DISTINCT))
    ]
    sent = [replace(made[k % len(made)], sites=(f"site-{k}",)).to_bytes() for k in range(count)]
    sites = SummaryBatch.from_bytes(sent)
    found = []
    for name, guarantee in GUARANTEES.items():
        start = time.process_time()
        result = fc.calibrate(sites, alpha=0.1, guarantee=guarantee)
        middle = time.process_time()
        predictor = result
        found.append(
            {
                "sites": count,
                "scores a site": sizes,
                "guarantee": name,
                "calibrate s": middle - start,
                "Predictor.of s": time.process_time() - middle,
                "threshold": predictor.threshold,
                "peak MB": memory("VmHWM"),
            }
        )
    return found


def main() -> None:
    """Measure sites of each size in a process of their own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, default=1_000_000)
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(alone(options.sites, options.alone)))
        return
    arguments = ("--sites", str(options.sites), "--alone")
    rows = [row for sizes in SIZES for row in in_a_fresh_process("many_predictors.py", *arguments, sizes)]
    print("\nwanted: Predictor.of within 10 s for a million sites\n")
    table(list(rows[0]), [list(row.values()) for row in rows])
    save("many_predictors", rows)


if __name__ == "__main__":
    main()
