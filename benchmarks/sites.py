"""Decode and calibrate the summaries of K sites, against concatenating their raw scores and np.partition.

    python benchmarks/sites.py [--sites 10 100 1000 10000 100000] [--million] [--kind ranks]

Every K runs in processes of its own: one that times both ways in turn (the fastest round counts), and one for
each way alone, for its memory and for the time of a first run, where the system still has to find the memory.

Seconds are of one processor: neither way has threads. The process that times both ways in turn keeps its memory: by
itself, glibc gives every array above 32 MB back to the system, which has to find and clear the pages anew, and ratios
went from 0.5x to 5x from run to run. That the one is the cause of the other was not measured by itself.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from common import RESULTS, best, in_a_fresh_process, interleaved, memory, ratios, save, table
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal.summaries.batch import SummaryBatch

ALPHA = 0.1
ROUNDS = 5
DISTINCT = 100_000
"""With more sites than this, scores repeat under new names."""

PATIENCE = 60
"""Seconds after which no further round starts."""

KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""Setting of glibc that keeps freed memory."""

Scores = NDArray[np.float64]


def sites(count: int) -> list[Scores]:
    """Draw what RAPS gives: mass below one plus a small price on the rank; every site its own way."""
    rng = np.random.default_rng(count)
    found = [
        rng.beta(rng.uniform(1, 4), rng.uniform(0.5, 2), size=n) + 0.001 * rng.integers(0, 50, size=n)
        for n in rng.integers(100, 1001, size=min(count, DISTINCT))
    ]
    return [found[k % DISTINCT] for k in range(count)]


def encoded(count: int, kind: str) -> list[bytes]:
    """Return what the sites send."""
    about: dict[str, Any] = {"kind": kind, "alpha": ALPHA, "score": fc.RAPS(), "model": "sha256:0123456789abcdef"}
    scores = sites(count)
    summaries = [fc.Summary.of_scores(part, **about) for part in scores[:DISTINCT]]
    return [replace(summaries[k % DISTINCT], sites=(f"site-{k}",)).to_bytes() for k in range(count)]


def ours(messages: list[bytes]) -> float:
    """Go from bytes to a threshold with a certificate."""
    return fc.calibrate(SummaryBatch.from_bytes(messages), alpha=ALPHA).threshold


def raw(scores: list[Scores]) -> float:
    """Select the wanted rank of all scores."""
    together = np.concatenate(scores)
    rank = math.ceil((1 - ALPHA) * (len(together) + len(scores)))
    return float(np.partition(together, rank - 1)[rank - 1])


def timed(count: int, kind: str) -> dict[str, Any]:
    """Time both ways in turn."""
    messages, scores = encoded(count, kind), sites(count)
    ours(messages[:10])
    jobs = {"raw": lambda: raw(scores), "ours": lambda: ours(messages)}
    interleaved(jobs, 1)  # finds the memory
    taken = interleaved(jobs, 1, clock=time.process_time)
    while len(taken["raw"]) < ROUNDS and sum(map(sum, taken.values())) < PATIENCE:
        for who, seconds in interleaved(jobs, 1, clock=time.process_time).items():
            taken[who] += seconds
    start = time.process_time()
    summaries = SummaryBatch.from_bytes(messages)
    decoding = time.process_time() - start
    result = fc.calibrate(summaries, alpha=ALPHA)
    exact = raw(scores)
    between = sum(int(np.count_nonzero((part > exact) & (part <= result.threshold))) for part in scores)
    return {
        "sites": count,
        "bytes_a_site": sum(map(len, messages)) / count,
        "seconds": best(taken) | {"decoding": decoding},
        "ratio": ratios(taken, "raw")["ours"],
        "threshold_above_raw": result.threshold - exact,
        "ranks_above_raw": between / sum(map(len, scores)),
    }


def alone(who: str, count: int, kind: str) -> dict[str, float]:
    """Run one way once: its peak on top of its inputs in MB, and the seconds it takes with no memory at hand yet."""
    ours(encoded(3, kind))
    with ProcessPoolExecutor(1) as elsewhere:  # what making them takes is not to be found free here
        made = elsewhere.submit(encoded, count, kind) if who == "ours" else elsewhere.submit(sites, count)
        inputs: Any = made.result()
    before, start = memory("VmRSS"), time.process_time()
    (ours if who == "ours" else raw)(inputs)
    return {"seconds": time.process_time() - start, "mb": memory("VmHWM") - before}


def plot(rows: list[dict[str, Any]]) -> str:
    """Draw seconds and memory against K, both axes logarithmic; straight and parallel to the diagonal is linear."""
    counts = [row["sites"] for row in rows]
    names = {"ours": "ours", "raw": "raw scores"}
    panels = [
        ("seconds", [(name, [row["seconds"][who] for row in rows]) for who, name in names.items()]),
        (
            "MB above the inputs",
            [(name, [max(row["memory_mb"][who], 0.1) for row in rows]) for who, name in names.items()],
        ),
    ]
    parts = []
    for left, (name, lines) in zip((60, 450), panels, strict=True):
        flat = [value for _, values in lines for value in values]
        low, high = math.floor(math.log10(min(flat))), math.ceil(math.log10(max(flat)))
        x_low, x_high = math.log10(min(counts)), math.log10(max(counts))
        across = 260 / ((x_high - x_low) or 1)
        up = 240 / ((high - low) or 1)
        parts.append(f'<text x="{left + 130}" y="20" text-anchor="middle">{name}, against the number of sites</text>')
        for power in range(low, high + 1):
            y = 280 - (power - low) * up
            parts.append(f'<path d="M{left},{y:.0f}h260" stroke="#ccc"/>')
            parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{10.0**power:g}</text>')
        for count in counts:
            x = left + (math.log10(count) - x_low) * across
            parts.append(f'<text x="{x:.0f}" y="300" text-anchor="middle">1e{round(math.log10(count))}</text>')
        ends = [values[-1] for _, values in lines]
        for (who, values), colour in zip(lines, ("#0a6", "#666"), strict=True):
            spots = [
                (left + (math.log10(k) - x_low) * across, 280 - (math.log10(value) - low) * up)
                for k, value in zip(counts, values, strict=True)
            ]
            path = "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in spots)
            parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            # Where the lines end close together, one name stands above and one below.
            beside = spots[-1][1] + (12 if values[-1] == min(ends) else -4)
            parts.append(f'<text x="{spots[-1][0] + 4:.0f}" y="{beside:.0f}" fill="{colour}">{who}</text>')
    style = 'font-family="sans-serif" font-size="11"'
    inside = "\n".join(parts)
    box = '<rect width="790" height="320" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 790 320" {style}>\n{box}\n{inside}\n</svg>\n'


def main() -> None:
    """Print a table, write the results and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, nargs="+", default=[10, 100, 1000, 10_000, 100_000])
    parser.add_argument("--million", action="store_true", help="also a million sites: several minutes, 10 GB")
    parser.add_argument("--kind", default="ranks")
    parser.add_argument("--alone", nargs=2, metavar=("WHAT", "SITES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        what, count = options.alone[0], int(options.alone[1])
        print(json.dumps(timed(count, options.kind) if what == "time" else alone(what, count, options.kind)))
        return

    rows = []
    for count in [*options.sites, *([1_000_000] if options.million else [])]:
        arguments = (str(count), "--kind", options.kind)
        row = in_a_fresh_process("sites.py", "--alone", "time", *arguments, **KEEP)
        once = {who: in_a_fresh_process("sites.py", "--alone", who, *arguments) for who in ("ours", "raw")}
        row["memory_mb"] = {who: found["mb"] for who, found in once.items()}
        row["seconds_once"] = {who: found["seconds"] for who, found in once.items()}
        row["ratio_once"] = once["ours"]["seconds"] / once["raw"]["seconds"]
        rows.append(row)
        print(f"{count} sites: {row['ratio']:.2f}x, or {row['ratio_once']:.2f}x in fresh processes", flush=True)
    print(f"\nSummaries of kind {options.kind}; wanted: at most 4x and 600 MB at 100,000 sites\n")
    table(
        [
            "sites",
            "raw s",
            "ours s",
            "decoding s",
            "ours/raw",
            "once, fresh",
            "raw MB",
            "ours MB",
            "bytes a site",
            "level above raw",
        ],
        [
            [
                row["sites"],
                *(row["seconds"][key] for key in ("raw", "ours", "decoding")),
                row["ratio"],
                row["ratio_once"],
                *(f"{row['memory_mb'][who]:.0f}" for who in ("raw", "ours")),
                f"{row['bytes_a_site']:.0f}",
                row["ranks_above_raw"],
            ]
            for row in rows
        ],
    )
    save("sites", {"kind": options.kind, "rows": rows})
    (RESULTS / "sites.svg").write_text(plot(rows))
    print("written: benchmarks/results/sites.svg")


if __name__ == "__main__":
    main()
