"""The page in a browser and its modules under node, against the command line: a large CSV to a summary.

    python benchmarks/web_page.py [--rows 1000000] [--classes 10] [--rounds 3]

Each way reads the same file and must write the same bytes. Processor time is compared: that of the command, of node,
and of the page's main thread from the choice of the file to the shown result. The longest wait is how
long the page did not answer, in wall-clock time, so it grows with whatever else the machine does.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from common import save, table  # noqa: E402

from tests.web.form import Form, opened  # noqa: E402
from tests.web.modules import NODE, WEB  # noqa: E402

GOAL = 3.0
BEATS = """
window.longest = 0;
let last = performance.now();
setInterval(() => {
  const now = performance.now();
  window.longest = Math.max(window.longest, now - last);
  last = now;
}, 5);
"""


def write(path: Path, rows: int, classes: int) -> None:
    """Write rows of probabilities with eight decimals, and a label."""
    rng = np.random.default_rng(0)
    names = [f"c{k}" for k in range(classes)]
    with path.open("w") as file:
        file.write(",".join([*names, "truth"]) + "\n")
        for _ in range(0, rows, 50_000):
            probs = rng.dirichlet(np.ones(classes), 50_000)
            labels = rng.integers(0, classes, 50_000)
            lines = (",".join([*(f"{p:.8f}" for p in row), names[k]]) for row, k in zip(probs, labels, strict=True))
            file.write("\n".join(lines) + "\n")


def processor(command: list[str]) -> tuple[float, str]:
    """Run a command; return its processor time and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def by_command(path: Path) -> tuple[float, bytes]:
    """Let the command line summarise."""
    output = path.with_suffix(".fcs")
    command = [sys.executable, "-m", "fedconformal", "--quiet", "summarize", str(path), "--labels", "truth"]
    seconds, _ = processor([*command, "--site", "a", "-o", str(output)])
    return seconds, output.read_bytes()


def by_node(path: Path) -> tuple[float, bytes]:
    """Let the page's modules summarise."""
    wanted = {"site": "a", "kind": "ranks", "alpha": "0.1", "score": {"name": "lac"}}
    cases = path.with_suffix(".json")
    cases.write_text(json.dumps([{"files": [str(path)], "columns": {"labels": "truth"}, "wanted": wanted}]))
    seconds, out = processor([str(NODE), str(WEB / "tools" / "identity.js"), str(cases)])
    return seconds, bytes.fromhex(out.strip())


def busy(form: Form) -> float:
    """Return how long the page's main thread has worked, in seconds of its processor."""
    found = form.browser.tool("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))


def by_page(form: Form, path: Path) -> tuple[float, bytes, float, float]:
    """Let the page summarise; also return the wall-clock time, and the longest time that it did not answer."""
    form.browser.tool("Performance.enable", timeDomain="threadTicks")
    form.browser.go(form.page)
    form.browser.run(BEATS)
    start, before = time.perf_counter(), busy(form)
    form.choose("file", path)
    form.wait()
    form.fill({"labels": "truth", "site": "a"})
    form.click("work")
    form.wait()
    seconds, wall = busy(form) - before, time.perf_counter() - start
    longest = float(form.browser.run("return window.longest")) / 1000
    return seconds, form.saved("a.fcs"), wall, longest


def main() -> None:
    """Measure in turn, round by round, and save the ratios of the fastest rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    taken: dict[str, list[float]] = {"command line": [], "node": [], "page": []}
    walls, waits = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write(path, given.rows, given.classes)
        with opened(Path(folder)) as form:
            for _ in range(given.rounds):
                expected = by_command(path)
                made = by_node(path)
                shown = by_page(form, path)
                if not expected[1] == made[1] == shown[1]:
                    raise SystemExit("the bytes differ")
                for name, seconds in zip(taken, (expected[0], made[0], shown[0]), strict=True):
                    taken[name].append(seconds)
                walls.append(shown[2])
                waits.append(shown[3])
    fastest = {name: min(times) for name, times in taken.items()}
    found: dict[str, Any] = {
        "rows": given.rows,
        "classes": given.classes,
        "processor_s": {name: round(seconds, 3) for name, seconds in fastest.items()},
        "ratio": {name: round(seconds / fastest["command line"], 3) for name, seconds in fastest.items()},
        "page_wall_s": round(min(walls), 3),
        "longest_wait_s": round(min(waits), 3),
        "goal": GOAL,
    }
    save("web_page", found)
    table(["way", "processor s", "ratio"], [[name, fastest[name], found["ratio"][name]] for name in fastest])
    print(f"longest wait in the page {found['longest_wait_s']} s, goal {GOAL} times the command line")


if __name__ == "__main__":
    main()
