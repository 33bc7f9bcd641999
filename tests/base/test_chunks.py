"""Work in chunks: every row once, the first fault wins, and no thread is left behind."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fedconformal as fc
from fedconformal._base import arrays as chunks

MATRIX = np.zeros((1000, 7))
SIZE = 7 * 10


@pytest.fixture(params=[1, 2, 3], ids=lambda number: f"{number} cores")
def small_chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(chunks, "cores", lambda: request.param)
    return int(request.param)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 999])
def test_every_row_is_worked_on_once(rows: int) -> None:
    seen = np.zeros(rows, dtype=int)

    def work(part: slice) -> None:
        assert part.stop - part.start <= 10
        seen[part] += 1

    chunks.for_each_chunk(MATRIX[:rows], work, size=SIZE)
    assert (seen == 1).all()


def test_as_many_threads_as_cores(small_chunks: int) -> None:
    meet = threading.Barrier(small_chunks, timeout=60)
    names = set()

    def work(part: slice) -> None:
        if part.start < 10 * small_chunks:  # the first ones wait for each other
            meet.wait()
            names.add(threading.current_thread().name)

    before = threading.active_count()
    chunks.for_each_chunk(MATRIX, work, size=SIZE)
    assert len(names) == small_chunks
    assert threading.active_count() == before


def test_a_wide_row_is_a_chunk() -> None:
    assert [*chunks.chunks(np.zeros((3, 1000)), SIZE)] == [slice(0, 1), slice(1, 2), slice(2, 3)]


def test_the_first_fault_is_raised_and_the_rest_is_left(small_chunks: int) -> None:
    done = []
    last = threading.Event()

    def work(part: slice) -> None:
        if part.start == 30:
            last.wait(60 if small_chunks > 1 else 0)  # the later fault comes first
            raise ValueError("first")
        if part.start == 40:
            last.set()
            raise ValueError("second")
        done.append(part.start)

    before = threading.active_count()
    with pytest.raises(ValueError, match="first"):
        chunks.for_each_chunk(MATRIX, work, size=SIZE)
    assert {0, 10, 20} <= set(done)
    assert small_chunks > 1 or len(done) == 3
    assert threading.active_count() == before


def test_the_number_of_cores_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(50, 0.1), size=2000).astype(np.float32)
    labels = rng.integers(0, 50, 2000)
    found = []
    for number in (1, 4):
        monkeypatch.setattr(chunks, "cores", lambda number=number: number)
        for score in (fc.LAC(), fc.APS(), fc.RAPS(randomized=True)):
            monkeypatch.setattr(type(score), "chunk", 50 * 20)
            own = score.evaluate(probs, labels)
            sets = score.predict_set(probs, float(np.median(own)))
            found.append(own.tobytes() + sets.tobytes())
    assert found[:3] == found[3:]
