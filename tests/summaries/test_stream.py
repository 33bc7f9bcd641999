"""Scores that come in chunks, read more than once: the same bytes as in one piece, in bounded memory."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal.summaries import stream
from fedconformal.summaries.stream import summarize_stream
from fedconformal.validation import Floats, Integers

SHAPES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda rng, n: rng.random(n),
    "near one": lambda rng, n: 1 - rng.random(n) * 1e-12,
    "one value": lambda _, n: np.full(n, 0.25),
    "few values": lambda rng, n: rng.integers(0, 3, n) / 4,
    "huge and negative": lambda rng, n: rng.normal(size=n) * 1e300,
    "drifting": lambda rng, n: rng.random(n) + rng.integers(0, 9),
    "tiny": lambda rng, n: rng.integers(-5, 6, n).astype(np.float64) * 5e-324,
}


@pytest.mark.parametrize("alpha", [None, 0.1])
@pytest.mark.parametrize("memory", [1, 50, 10**6])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_bytes_as_in_one_piece(shape: str, memory: int, alpha: float | None) -> None:
    rng = np.random.default_rng(3)
    chunks = [SHAPES[shape](rng, n) for n in (400, 1, 900, 333)]
    found = summarize_stream(lambda: chunks, alpha=alpha, memory=memory, sites=("a",))
    assert found.to_bytes() == fc.summarize(np.concatenate(chunks), alpha=alpha, site="a").to_bytes()


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), min_size=1), st.integers(1, 9))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_any_scores(chunks: list[list[float]], memory: int) -> None:
    found = summarize_stream(lambda: [np.array(chunk) for chunk in chunks], memory=memory)
    assert found.to_bytes() == fc.summarize([score for chunk in chunks for score in chunk]).to_bytes()


def test_two_passes_are_enough_for_ordinary_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    chunks = [rng.beta(2, 5, 20_000) for _ in range(10)]
    read: list[int] = []
    kept: list[int] = []
    collect = stream._collect

    def once() -> Iterator[Floats]:
        read.append(1)
        return iter(chunks)

    def counting(*arguments: Any) -> tuple[Floats, Integers]:
        scores, found = collect(*arguments)
        kept.append(len(scores))
        return scores, found

    monkeypatch.setattr(stream, "_collect", counting)
    summarize_stream(once, alpha=0.1)
    assert len(read) == 3  # a look at the first chunk, then twice
    assert sum(kept) < 5_000  # of 200,000


@pytest.mark.parametrize("memory", [1, 10**6])
@pytest.mark.parametrize("last", [601, 300, 1])
def test_files_that_change_are_noticed(last: int, memory: int) -> None:
    """Whether they change before the edges are cut finer, or before the scores between edges are collected."""
    lengths = iter([600, 600, *[last] * 20])

    def read() -> list[Floats]:
        return [np.full(100, 0.5), np.random.default_rng(0).random(next(lengths))]

    with pytest.raises(fc.InputError, match="changed while"):
        summarize_stream(read, memory=memory)


def test_nothing_is_refused() -> None:
    with pytest.raises(fc.InputError, match="is empty"):
        summarize_stream(list)
