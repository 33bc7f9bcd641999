"""kill -9 at any moment loses no acknowledged outcome and counts none twice.

Run as a program with the path of a watch, this adds rows and outcomes until it is killed, and prints what was
acknowledged: each line of the input, FIRST SEED, starts a process, and "ended" says that it ended.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import numpy as np
import pytest

from fedconformal.monitoring.store import Watch
from tests.monitoring.watches import answered, started, true

KILLS = 12
MISSED = 3
"""Every third row is missed."""


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def add(path: str, first: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with Watch.open(path) as watch:
        say(str(os.getpid()))
        while True:
            numbers = np.arange(first, first + int(rng.integers(1, 6)))
            first += len(numbers)
            ids = [str(k) for k in numbers]
            watch.add(answered(ids, time=first))
            say(*(f"row {name}" for name in ids))
            watch.add(None, true(ids, np.where(numbers % MISSED == 0, 2, 0), time=first + 0.5))
            say(*(f"outcome {name}" for name in ids))


def main(path: str) -> None:
    Watch.open(path).__exit__()  # so that all is imported
    for line in sys.stdin:
        child = os.fork()
        if not child:
            first, seed = map(int, line.split())
            add(path, first, seed)
        os.waitpid(child, 0)
        say("", "ended")


@pytest.mark.long
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path, rng, rows, outcomes = tmp_path / "w.db", np.random.default_rng(0), set[str](), set[str]()
    started(path, limit=0.9).__exit__()
    program = subprocess.Popen([sys.executable, "-m", __name__, str(path)], stdin=PIPE, stdout=PIPE, text=True)
    with program as children:
        assert children.stdin is not None
        assert children.stdout is not None
        for kill in range(KILLS):
            children.stdin.write(f"{kill * 100_000} {kill}\n")
            children.stdin.flush()
            child = int(children.stdout.readline())
            said = [children.stdout.readline() for _ in range(int(rng.integers(0, 12)))]
            time.sleep(float(rng.random()) * 0.02)  # within a transaction
            os.kill(child, signal.SIGKILL)
            said += iter(children.stdout.readline, "ended\n")
            rows |= {line.split()[1] for line in said if line.startswith("row ") and line.endswith("\n")}
            outcomes |= {line.split()[1] for line in said if line.startswith("outcome ") and line.endswith("\n")}
            recount(path, rows, outcomes)
        children.stdin.close()
    assert len(outcomes) >= KILLS // 2


def recount(path: Path, rows: set[str], outcomes: set[str]) -> None:
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        held = dict(raw.execute("SELECT id, outcome FROM rows"))
    raw.close()
    assert rows <= held.keys()
    known = [name for name, outcome in held.items() if outcome is not None]
    assert outcomes <= set(known)
    with Watch.open(path) as watch:
        found = watch.whole()
        missed = sum(int(name) % MISSED == 0 for name in known)
        assert (found.known, found.misses, found.waiting) == (len(known), missed, len(held) - len(known))
        again = sorted(outcomes)[:50]  # who sends them once more changes nothing
        values = np.array([2.0 if int(name) % MISSED == 0 else 0.0 for name in again])
        assert watch.add(None, true(again, values)).repeated == len(again)
        assert watch.whole() == found


if __name__ == "__main__":
    main(sys.argv[1])
