"""kill -9 at any moment loses no acknowledged outcome and counts none twice."""

import multiprocessing
import sqlite3
import time
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from fedconformal.monitoring.store import Watch
from tests.monitoring.watches import answered, started, true

KILLS = 12
MISSED = 3
"""Every third row is missed."""


def add(path: Path, first: int, seed: int, acknowledged: Connection) -> None:
    """Add rows and outcomes for ever, and tell the ids of those that were acknowledged."""
    rng = np.random.default_rng(seed)
    with Watch.open(path) as watch:
        while True:
            numbers = np.arange(first, first + int(rng.integers(1, 6)))
            first += len(numbers)
            ids = [str(k) for k in numbers]
            watch.add(answered(ids, time=first))
            acknowledged.send(("rows", ids))
            watch.add(None, true(ids, np.where(numbers % MISSED == 0, 2, 0), time=first + 0.5))
            acknowledged.send(("outcomes", ids))


@pytest.mark.long
def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path, rng, told = tmp_path / "w.db", np.random.default_rng(0), {"rows": set[str](), "outcomes": set[str]()}
    started(path, limit=0.9).__exit__()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    for kill in range(KILLS):
        hear, acknowledged = context.Pipe(duplex=False)
        child = context.Process(target=add, args=(path, kill * 100_000, kill, acknowledged))
        child.start()
        acknowledged.close()
        with suppress(EOFError):
            for number in range(10**6):
                if number == kill % 5:
                    time.sleep(float(rng.random()) * 0.02)  # within a transaction
                    child.kill()
                what, ids = hear.recv()
                told[what] |= set(ids)
        child.join()
        recount(path, told["rows"], told["outcomes"])
    assert len(told["outcomes"]) >= KILLS // 2


def recount(path: Path, rows: set[str], outcomes: set[str]) -> None:
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        held = dict(raw.execute("SELECT id, outcome FROM rows"))
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
