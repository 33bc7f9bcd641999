"""Delay and cost of watches that detect more misses, beside MAPIE's RiskMonitoring and online-cp.

    benchmarks/.venv/bin/python benchmarks/monitoring.py [--streams 40] [--rows 2000]

A stream: 500 calibration scores give a threshold for alpha = 0.1 by PAC with failure 0.025; from the first watched row
on, this many more in a hundred are missed than at that threshold before. Everybody sees the same rows, and promises at
most five false alarms in a hundred streams, ever:

- Monitor: limit 0.1, false_alarm 0.025, and 0.025 is PAC's own failure;
- MAPIE, the same limit: RiskMonitoring("accuracy", threshold=0.1, test_level=0.05), which spends half of it on rows;
- MAPIE, 500 reference rows: without a threshold, as in its documentation, with its default tolerance 0.05. The
  reference is 500 more rows before the change, as those of the calibration would not do;
- scores changed: ChangeDetector, whose evidence ever reaches 20 with probability 0.05 at most, and online-cp's
  VilleWrapper(SimpleJumper(), threshold=20), on the same p-values;
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from common import RESULTS, best, in_a_fresh_process, interleaved, memory, ratios, save, table
from numpy.typing import NDArray

from fedconformal.guarantees import PAC
from fedconformal.monitoring.change import MOVE, STAY, ChangeDetector, payoffs
from fedconformal.monitoring.combine import standing_out
from fedconformal.monitoring.monitor import Monitor, log_e

SIZE, ALPHA, FAILURE, LEVEL = 500, 0.1, 0.025, 0.025
EVER = 20.0
SHIFTS = (0, 5, 10, 20)
WANTED = 240
SITES, DAY = 10_000, 50
MANY, MANY_ROWS = 1000, 4000

Floats = NDArray[np.float64]
Stream = tuple[Floats, Floats, Floats, Floats]
"""Calibration scores, reference misses, new scores, new misses."""


@cache
def rank() -> int:
    """Return the rank of PAC's threshold."""
    wanted, guarantee = 1 - ALPHA, PAC(failure=FAILURE)
    return next(r for r in range(1, SIZE + 1) if guarantee.promised([r], [SIZE]) >= wanted)


def stream(points: int, rows: int, rng: np.random.Generator) -> Stream:
    """Draw uniform scores, then scores that are above the threshold more often by this many points."""
    old = rng.random(SIZE)
    q = np.partition(old, rank() - 1)[rank() - 1]
    missed = rng.random(rows) < 1 - q + points / 100
    new = np.where(missed, q + (1 - q) * rng.random(rows), q * rng.random(rows))
    return old, (rng.random(SIZE) > q).astype(float), new, missed.astype(float)


def ours(given: Stream) -> int | None:
    """Watch misses."""
    return Monitor(limit=ALPHA, false_alarm=LEVEL).update(misses=given[3]).alarm_at


def mapie(*, reference: bool) -> Callable[[Stream], int | None]:
    """Watch misses with MAPIE, in steps that double: it works out the bounds of all rows anew at every update."""

    def first(given: Stream) -> int | None:
        from mapie.exchangeability_testing import RiskMonitoring

        _, before, _, missed = given
        limit = None if reference else ALPHA
        watch = RiskMonitoring("accuracy", test_level=FAILURE + LEVEL, threshold=limit, warn=False)
        if reference:
            watch.compute_threshold(np.ones(len(before), dtype=int), 1 - before.astype(int))
        start, step = 0, 256
        while start < len(missed):
            some = missed[start : start + step]
            watch.update(np.ones(len(some), dtype=int), 1 - some.astype(int))
            if found := first_of(watch.online_risk_lower_bound_sequence_history > watch.threshold):
                return found
            start, step = start + step, start + step
        return None

    return first


def first_of(above: NDArray[np.bool_]) -> int | None:
    """Return the first row at which something holds."""
    return int(above.argmax()) + 1 if above.any() else None


def changed(given: Stream) -> int | None:
    """Watch scores by the evidence that anything has changed since the start."""
    old, _, new, _ = given
    stakes = [1 / 6] * 6
    for row, won in enumerate(payoffs(ChangeDetector(old).p_values(new)).tolist(), 1):
        common = MOVE / 6 * sum(stakes)
        stakes = [(STAY * stake + common) * f for stake, f in zip(stakes, won, strict=True)]
        if sum(stakes) >= EVER:
            return row
    return None


def online_cp(given: Stream) -> int | None:
    """Watch the same p-values with online-cp."""
    from online_cp.martingale import SimpleJumper, VilleWrapper

    watch: Any = VilleWrapper(SimpleJumper(), threshold=EVER)
    for row, p in enumerate(ChangeDetector(given[0]).p_values(given[2]).tolist(), 1):
        watch.update(p)
        if watch.rejected:
            return row
    return None


WATCHES: dict[str, Callable[[Stream], int | None]] = {
    "Monitor": ours,
    "MAPIE, the same limit": mapie(reference=False),
    "MAPIE, 500 reference rows": mapie(reference=True),
    "scores changed: ChangeDetector's evidence at 20": changed,
    "scores changed: online-cp, Ville at 20": online_cp,
}


def detection(streams: int, rows: int) -> list[dict[str, Any]]:
    """Return for each watch and shift how many streams were noticed, and after how many rows in the median."""
    found = []
    for points in SHIFTS:
        given = [stream(points, rows, np.random.default_rng([points, i])) for i in range(streams)]
        for who, watch in WATCHES.items():
            try:
                noticed = [watch(one) for one in given]
            except ImportError as error:
                print(f"{who}: {error}", file=sys.stderr)
                continue
            after = float(np.median([math.inf if row is None else row for row in noticed]))
            share = float(np.mean([row is not None for row in noticed]))
            found.append(
                {"watch": who, "points": points, "noticed": share, "rows": after if after < math.inf else None}
            )
            print(f"+{points} points, {who}: noticed {share:.3f}, median {after:g} rows", flush=True)
    return found


def many() -> list[dict[str, Any]]:
    """Return the same for Monitor alone, on many and longer streams, of which the first rows are not those above."""
    found = []
    for points in SHIFTS:
        given = (stream(points, MANY_ROWS, np.random.default_rng([points, i])) for i in range(MANY))
        rows = [math.inf if row is None else row for row in map(ours, given)]
        low, after, high = np.quantile(rows, (0.1, 0.5, 0.9), method="higher").tolist()
        share = float(np.mean(np.isfinite(rows)))
        median = after if after < math.inf else None
        found.append({"watch": "Monitor", "points": points, "noticed": share, "rows": median})
        print(f"+{points} points, Monitor, {MANY} streams: noticed {share:.4f}, {low:g}, {after:g}, {high:g} rows")
    return found


def a_day(states: list[Monitor], missed: NDArray[np.float64]) -> Any:
    """Add a day to the states of all sites; work out the evidence, its mean, and who stands out."""
    watches = [state.update(misses=day) for state, day in zip(states, missed, strict=True)]
    misses = np.array([watch.misses for watch in watches])
    evidence = log_e(misses, np.array([watch.rows for watch in watches]) - misses, ALPHA)
    named = standing_out({str(i): one for i, one in enumerate(evidence.tolist())})
    return watches, np.logaddexp.reduce(evidence) - math.log(len(evidence)), named


def jobs() -> dict[str, Callable[[], object]]:
    """Return what is timed by itself."""
    rng = np.random.default_rng(0)
    missed, scores = (rng.random(1_000_000) < ALPHA).astype(float), rng.random(1_000_000)
    states = [Monitor(limit=ALPHA, known=500, misses=float(m)) for m in rng.binomial(500, 0.09, SITES)]
    day = (rng.random((SITES, DAY)) < 0.09).astype(float)
    return {
        "a million outcomes, Monitor": lambda: Monitor(limit=ALPHA).update(misses=missed),
        "a million scores, ChangeDetector": lambda: ChangeDetector(scores[:500]).update(scores),
        f"a day of {SITES:,} sites, {DAY} rows each": lambda: a_day(states, day),
    }


def alone(what: str) -> dict[str, float]:
    """Time one job, in seconds of one processor, and its extra memory."""
    run, before = jobs()[what], memory("VmHWM")
    start = time.process_time()
    run()
    return {"seconds": time.process_time() - start, "mb": memory("VmHWM") - before}


def beside(rows: int, rounds: int) -> dict[str, float]:
    """Return how many times as long the peers take for the same rows."""
    given = stream(0, rows, np.random.default_rng(1))
    ways: dict[str, Callable[[], object]] = {
        "Monitor": lambda: ours(given),
        "MAPIE": lambda: mapie(reference=False)(given),
        "ChangeDetector": lambda: ChangeDetector(given[0]).update(given[2]),
        "online-cp": lambda: online_cp(given),
    }
    taken = interleaved(ways, rounds)
    print(f"\n{rows} rows at once, seconds: {best(taken)}")
    return {
        "MAPIE against Monitor": ratios(taken, "Monitor")["MAPIE"],
        "online-cp against ChangeDetector": ratios(taken, "ChangeDetector")["online-cp"],
    }


def main() -> None:
    """Print tables and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=40)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument(
        "--part", choices=["cost", "many", "detection"], help="measure this anew and keep the other results"
    )
    parser.add_argument("--alone", help="time one job and print it as JSON")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.alone:
        print(json.dumps(alone(options.alone)))
        return
    found = json.loads((RESULTS / "monitoring.json").read_text())["results"] if options.part else {}
    if options.part in (None, "many"):
        found["many"] = many()
    if options.part in (None, "cost"):
        found["cost"] = {what: in_a_fresh_process("monitoring.py", "--alone", what) for what in jobs()}
        table(["", "seconds", "extra MB"], [[what, one["seconds"], one["mb"]] for what, one in found["cost"].items()])
        found["peers"] = beside(2000, 3)
        table(["", "ratio"], [[what, ratio] for what, ratio in found["peers"].items()])
    if options.part in (None, "detection"):
        found["setting"] = {"streams": options.streams, "rows": options.rows}
        found["detection"] = detection(options.streams, options.rows)
    save("monitoring", found)


if __name__ == "__main__":
    main()
