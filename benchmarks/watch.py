"""Cost of a watch: the pure update, the file, many sites, and one outcome at a time.

python benchmarks/watch.py [--rows 1000000] [--sites 10000]

Processor time, as the machine may be busy with other work; of single outcomes also the time on the clock, most of which
the disk takes to make each of them last.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from common import save, table

import fedconformal as fc
from fedconformal.monitoring.events import Outcomes, Predicted
from fedconformal.monitoring.limits import limits_of
from fedconformal.monitoring.store import Watch

ROWS_A_SITE, SINGLE = 5, 200
START = 20_700 * 86_400.0


def spent(call: Callable[[], object]) -> float:
    """Return the processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def made(ids: list[str], times: np.ndarray, rng: np.random.Generator, sites: list[str] | None = None) -> Predicted:
    """Make rows of which a tenth misses."""
    sets = np.ones((len(ids), 2), dtype=np.bool_)
    sets[:, 1] = rng.random(len(ids)) > 0.1
    return Predicted(ids=ids, times=times, sets=sets, sites=sites)


def main() -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sites", type=int, default=10_000)
    asked = parser.parse_args()
    rng, found = np.random.default_rng(0), {}
    sent = fc.Summary.of_scores(rng.random(500), site="a", score=fc.LAC(), classes=["no", "yes"])
    rule = fc.calibrate([sent], alpha=0.1)
    misses = rng.random(asked.rows) < 0.1
    found["Monitor.update, all outcomes at once"] = spent(lambda: fc.Monitor.of(rule).update(misses=misses))
    with tempfile.TemporaryDirectory() as folder, Watch.start(Path(folder, "w.db"), rule, limits_of(rule)) as watch:
        ids, times = [f"p{k}" for k in range(asked.rows)], START + np.sort(rng.random(asked.rows)) * 30 * 86_400
        rows, ones = made(ids, times, rng), np.ones(asked.rows)
        found["the file: rows"] = spent(lambda: watch.add(rows))
        came = Outcomes(ids=ids, times=times + 60, values=ones)
        found["the file: outcomes"] = spent(lambda: watch.add(None, came))
        count = asked.sites * ROWS_A_SITE
        ids, times = [f"s{k}" for k in range(count)], np.full(count, START + 31 * 86_400)
        rows = made(ids, times, rng, [f"site-{k % asked.sites}" for k in range(count)])
        found["a day of all sites: rows"] = spent(lambda: watch.add(rows))
        came = Outcomes(ids=ids, times=times, values=np.ones(count))
        found["a day of all sites: outcomes"] = spent(lambda: watch.add(None, came))
        day = START + 32 * 86_400
        watch.add(made([f"t{k}" for k in range(SINGLE)], np.full(SINGLE, day), rng))
        start = time.perf_counter()
        one = [Outcomes(ids=[f"t{k}"], times=np.array([day]), values=np.ones(1)) for k in range(SINGLE)]
        found["one outcome"] = spent(lambda: [watch.add(None, outcome) for outcome in one]) / SINGLE
        found["one outcome, on the clock"] = (time.perf_counter() - start) / SINGLE
    print(f"{asked.rows} rows; {asked.sites} sites with {ROWS_A_SITE} rows a day")
    table(["", "seconds"], [[name, f"{seconds:.4f}"] for name, seconds in found.items()])
    save("watch", {"rows": asked.rows, "sites": asked.sites, "seconds": found})


if __name__ == "__main__":
    main()
