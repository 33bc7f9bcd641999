"""One site's scores in many files: two passes and one pass, against np.sort of each file's scores.

    python benchmarks/stream.py [--chunks 100] [--rows 1000000] [--rounds 3]

Reading is part of every time. Each way also runs once in a process of its own, for its memory.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import best, in_a_fresh_process, interleaved, memory, ratios, save, table
from numpy.typing import NDArray

import fedconformal as fc
from fedconformal.summaries.stream import MEMORY, summarize_stream

ALPHA = 0.1
BARS = {"sort": 1.0, "stream": 2.5}

Scores = NDArray[np.float64]


def write(folder: Path, chunks: int, rows: int) -> None:
    """Draw every file from its own beta distribution."""
    rng = np.random.default_rng(chunks)
    for k in range(chunks):
        np.save(folder / f"{k:06}.npy", rng.beta(rng.uniform(1, 4), rng.uniform(0.5, 2), size=rows))


def read(folder: Path) -> Iterator[Scores]:
    """Read one file at a time."""
    for file in sorted(folder.glob("*.npy")):
        yield np.load(file)


def sort(folder: Path) -> None:
    """Sort and forget."""
    for chunk in read(folder):
        np.sort(chunk)


def stream(folder: Path) -> fc.Summary:
    """Read twice."""
    return summarize_stream(partial(read, folder), alpha=ALPHA)


WAYS: dict[str, Callable[[Path], Any]] = {"sort": sort, "stream": stream}


def alone(who: str, folder: Path) -> dict[str, Any]:
    """Run one way once: its peak in MB on top of an interpreter with everything imported, and what it gives."""
    before = memory("VmRSS")
    summary = WAYS[who](folder)
    found: dict[str, Any] = {"mb": memory("VmHWM") - before}
    if summary is not None:
        found |= {"bytes": len(summary.to_bytes()), "gap": summary.gap / summary.n}
        lower, upper = summary.bounds(summary.points)
        found["widest"] = int((upper[:-1] - lower[:-1]).max()) / summary.n
    return found


def main() -> None:
    """Print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", nargs=2, metavar=("WHO", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(alone(options.alone[0], Path(options.alone[1]))))
        return

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, options.chunks, options.rows)
        taken = interleaved({who: partial(run, folder) for who, run in WAYS.items()}, options.rounds)
        once = {who: in_a_fresh_process("stream.py", "--alone", who, name) for who in WAYS}
    seconds, ratio = best(taken), ratios(taken, "sort")
    print(
        f"{options.chunks} files of {options.rows} scores; the setting is {MEMORY} scores, {MEMORY * 8 / 2**20:.0f} MB"
    )
    print("wanted: stream at most 2.5x\n")
    table(
        ["", "seconds", "ratio", "wanted", "peak MB", "bytes", "gap / n"],
        [
            [who, seconds[who], ratio[who], BARS[who], f"{once[who]['mb']:.0f}", *map(once[who].get, ("bytes", "gap"))]
            for who in WAYS
        ],
    )
    facts = {"chunks": options.chunks, "rows": options.rows, "memory_setting": MEMORY}
    save("stream", {**facts, "seconds": seconds, "rounds": taken, "ratio": ratio, "alone": once})


if __name__ == "__main__":
    main()
