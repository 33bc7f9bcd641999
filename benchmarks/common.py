"""Shared parts of the benchmarks: interleaved timing, memory of a process, files of results.

A time on a shared machine says little, so everything is timed side by side, in rounds, and given as a ratio.
"""

# ruff: noqa: T201

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PACKAGES = ("fedconformal", "numpy", "MAPIE", "crepes", "torch", "torchcp", "online-cp")

Seconds = dict[str, list[float]]


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    few: dict[str, int] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Seconds:
    """Time the contenders in turn, round by round (A, B, A, B, ...); `few` limits the rounds of slow ones."""
    taken: Seconds = {name: [] for name in contenders}
    for turn in range(rounds):
        for name, run in contenders.items():
            if turn < (few or {}).get(name, rounds):
                start = clock()
                run()
                taken[name].append(clock() - start)
    return taken


def ratios(taken: Seconds, base: str) -> dict[str, float]:
    """Return each contender's fastest round over the base's fastest."""
    fastest = best(taken)
    return {name: seconds / fastest[base] for name, seconds in fastest.items()}


def best(taken: Seconds) -> dict[str, float]:
    """Return the fastest round of each, which other work on the machine disturbed least."""
    return {name: min(times) for name, times in taken.items()}


def memory(what: str) -> float:
    """Return "VmRSS" (now) or "VmHWM" (the peak) of this process in MB; Linux only, else NaN."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return float("nan")
    return int(status.split(f"{what}:")[1].split()[0]) / 1024


def in_a_fresh_process(script: str, *arguments: str, **environment: str) -> Any:
    """Run one of these scripts by itself and return the JSON on the last line of its output."""
    command, env = [sys.executable, str(HERE / script), *arguments], {**os.environ, **environment}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)  # noqa: S603
    return json.loads(done.stdout.splitlines()[-1])


def versions() -> dict[str, str]:
    """Return the versions of what is compared, where installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def save(name: str, results: Any) -> None:
    """Write results with where, when and with what they were measured."""
    RESULTS.mkdir(exist_ok=True)
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "system": platform.system()},
        "versions": versions(),
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")
    print(f"\nwritten: {path.relative_to(HERE.parent)}")


def table(head: list[str], rows: list[list[Any]]) -> None:
    """Print rows under a head, numbers with three digits."""
    cells = [head, *([f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print(row[0].ljust(widths[0]), *rest, sep="  ")
