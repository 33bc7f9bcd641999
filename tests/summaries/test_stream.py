"""Scores that come in chunks, read more than once: the same bytes as in one piece, in bounded memory."""

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import Floats
from fedconformal.summaries import stream
from fedconformal.summaries.stream import summarize_stream
from tests.contracts.tools import checks, peak_memory

pytestmark = pytest.mark.long

SHAPES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda rng, n: rng.random(n),
    "near one": lambda rng, n: 1 - rng.random(n) * 1e-12,
    "one value": lambda _, n: np.full(n, 0.25),
    "few values": lambda rng, n: rng.integers(0, 3, n) / 4,
    "huge and negative": lambda rng, n: rng.normal(size=n) * 1e300,
    "beyond the difference of two floats": lambda rng, n: rng.uniform(-0.9, 0.9, n) * np.finfo(np.float64).max,
    "heavy tails": lambda rng, n: rng.standard_cauchy(n),
    "drifting": lambda rng, n: rng.random(n) + rng.integers(0, 9),
    "ascending": lambda rng, n: np.sort(rng.random(n)) + n,
    "tiny": lambda rng, n: rng.integers(-5, 6, n).astype(np.float64) * 5e-324,
    "half one": lambda rng, n: np.where(rng.random(n) < 0.5, rng.random(n), 1.0),
    "all one but a few": lambda rng, n: np.where(rng.random(n) < 0.01, rng.random(n), 1.0),
}

floats = st.floats(allow_nan=False, allow_infinity=False)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few hundred scores be many."""
    monkeypatch.setattr(stream, "CHUNK", 64)
    monkeypatch.setattr(stream, "EDGES", 32)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("memory", [1, 50, 10**6])
@pytest.mark.parametrize("shapes", [*([shape] * 6 for shape in SHAPES), list(SHAPES)], ids=lambda some: some[0])
def test_the_same_bytes_as_in_one_piece(shapes: list[str], memory: int) -> None:
    rng = np.random.default_rng(3)
    chunks = [SHAPES[shape](rng, n) for shape, n in zip(shapes, cycle((400, 1, 900, 33, 2, 333)), strict=False)]
    before = [chunk.copy() for chunk in chunks]
    for alpha in (None, 0.1):
        found = summarize_stream(lambda: chunks, alpha=alpha, memory=memory, sites=("a",))
        assert found.to_bytes() == fc.Summary.of_scores(np.concatenate(chunks), alpha=alpha, site="a").to_bytes()
    assert all(map(np.array_equal, chunks, before))


@given(st.lists(st.lists(floats, min_size=1), min_size=1), st.integers(1, 9), st.integers(2, 9))
@checks(60)
def test_any_scores(chunks: list[list[float]], memory: int, edges: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "EDGES", edges)
        found = summarize_stream(lambda: [np.array(chunk) for chunk in chunks], memory=memory)
    assert found.to_bytes() == fc.Summary.of_scores([score for chunk in chunks for score in chunk]).to_bytes()


@pytest.mark.parametrize("shape", ["uniform", "near one", "heavy tails", "half one"])
def test_two_passes_are_enough_for_ordinary_scores(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "CHUNK", 2**14)
    rng = np.random.default_rng(0)
    chunks = [SHAPES[shape](rng, 20_000) for _ in range(10)]
    read: list[int] = []
    kept: list[int] = []
    collect = stream._collect

    def once() -> Iterator[Floats]:
        read.append(1)
        return iter(chunks)

    def collecting(*arguments: Any) -> Floats:
        scores = collect(*arguments)
        kept.append(len(scores))
        return scores

    monkeypatch.setattr(stream, "_collect", collecting)
    summarize_stream(once, alpha=0.1)
    assert len(read) == 2
    assert sum(kept) < 5_000  # of 200,000


@pytest.mark.long
@pytest.mark.parametrize(("shape", "rows"), [("uniform", 1000), ("all one but a few", 20_000), ("ascending", 20_000)])
def test_memory_is_bounded_by_the_setting(shape: str, rows: int) -> None:
    memory = 2**14

    def read() -> Iterator[Floats]:
        for k in range(1_000_000 // rows):
            yield SHAPES[shape](np.random.default_rng(k), rows) + (k if shape == "ascending" else 0)

    summarize_stream(lambda: islice(read(), 3))  # what is imported or remembered at a first call does not count
    most = 8 * (8 * memory + 6 * rows + 24 * stream.EDGES)
    assert most < 1_000_000 * 8 / 2
    with peak_memory(most):
        summarize_stream(read, alpha=0.1, memory=memory)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("memory", [1, 10**6])
@pytest.mark.parametrize("last", [601, 300, 1])
def test_files_that_change_are_noticed(last: int, memory: int) -> None:
    """Whether they change before the edges are cut finer, or before the scores between edges are collected."""
    lengths = iter([600, *[last] * 20])

    def read() -> list[Floats]:
        return [np.full(100, 0.5), np.random.default_rng(0).random(next(lengths))]

    with pytest.raises(fc.InputError, match="changed while"):
        summarize_stream(read, memory=memory)


def test_nothing_is_refused() -> None:
    with pytest.raises(fc.InputError, match="is empty"):
        summarize_stream(list)
