"""Rank summaries of more scores than fit into memory, in two or more passes.

The first pass counts the scores below and at each of a few thousand edges, chosen from the first scores. Every required
rank then lies between two known edges, and the second pass collects the scores in these intervals. If they are too
many, the intervals are divided and the scores are read again. The result has the same bytes as that of one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fedconformal._base.arrays import CHUNK, Floats, Integers, as_alpha, as_scores, keys_of, score_of
from fedconformal.errors import InputError
from fedconformal.summaries.ranks import POINTS, RankSummary, lower_of, scheduled_ranks

EDGES = 2**13
CHANGED = "the files changed while they were being read; start again"
MEMORY = 2**22
"""Default number of scores in memory, in addition to one chunk."""

Read = Callable[[], Iterable[Floats]]


def summarize_stream(read: Read, *, alpha: Any = None, memory: int = MEMORY, **about: Any) -> RankSummary:
    """Summarise the scores of one site; every call of `read` yields all scores, in chunks."""
    edges, below, upto, n = _count(_gathered(read, memory))
    schedule = (POINTS, None if alpha is None else as_alpha(alpha))
    ranks = scheduled_ranks(n, *schedule, lower_of(about.get("provenance")))
    while True:
        # The first edge with at least r scores at or below it; the score of rank r is this edge, or less.
        at = np.searchsorted(upto, ranks, side="left")
        before = ranks <= below[at]
        crowded = np.unique(at[before])
        inside = below[crowded] - np.append(0, upto)[crowded]
        if inside.sum() <= memory:
            break
        wide = crowded[inside > memory // len(crowded)]
        edges, below, upto, n_again = _count(_gathered(read, memory), _finer(edges, wide))
        if n_again != n:
            raise InputError(CHANGED)
    values = edges[at]
    if crowded.size:
        collected = _collect(_gathered(read, memory), np.append(-np.inf, edges)[crowded], edges[crowded], inside)
        first = np.cumsum(inside) - inside
        position = np.searchsorted(crowded, at[before])
        rank_inside = ranks[before] - np.append(0, upto)[at[before]]
        values[before] = collected[first[position] + rank_inside - 1]
    return RankSummary.scheduled(values, schedule, sizes=(n,), **about)


def _gathered(read: Read, memory: int) -> Iterator[Floats]:
    """Yield validated scores, with small chunks combined, as each search of all edges is expensive."""
    waiting: list[Floats] = []
    for chunk in read():
        waiting.append(as_scores(chunk))
        if sum(map(len, waiting)) >= min(CHUNK, memory):
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)


def _count(chunks: Iterable[Floats], edges: Floats | None = None) -> tuple[Floats, Integers, Integers, int]:
    """Count the scores below and at most each edge; by default the edges come from the first scores."""
    below = upto = np.zeros(1, dtype=np.int64)
    n = 0
    for scores in chunks:
        scores.sort()
        edges = _first_edges(scores) if edges is None else edges
        start = np.searchsorted(scores, edges, side="left")
        stop = start.copy()
        tied = np.flatnonzero(scores[np.minimum(start, len(scores) - 1)] == edges)
        stop[tied] = np.searchsorted(scores, edges[tied], side="right")
        below, upto, n = below + start, upto + stop, n + len(scores)
    if edges is None:
        raise InputError("scores: is empty; a site needs at least one calibration row")
    return edges, below, upto, n


def _first_edges(scores: Floats) -> Floats:
    even = scores[np.linspace(0, len(scores) - 1, min(EDGES, len(scores))).astype(np.int64)]
    return np.unique(np.append(even, np.finfo(np.float64).max))


def _finer(edges: Floats, wide: Integers) -> Floats:
    """Divide the interval before each of these edges evenly in bit patterns, which guarantees progress."""
    ends = keys_of(np.append(-np.finfo(np.float64).max, edges)).tolist()
    share = max(2, EDGES // len(wide))
    new = [ends[i] + (ends[i + 1] - ends[i]) * j // share for i in wide.tolist() for j in range(1, share)]
    return np.unique(np.concatenate([edges, list(map(score_of, new))]))


def _collect(chunks: Iterable[Floats], low: Floats, high: Floats, inside: Integers) -> Floats:
    """Return the sorted scores strictly between each pair of bounds, whose numbers must agree with the counts."""
    parts = []
    counts = np.zeros(len(inside), dtype=np.int64)
    for scores in chunks:
        scores.sort()
        starts = np.searchsorted(scores, low, side="right")
        stops = np.searchsorted(scores, high, side="left")
        counts += stops - starts
        if (counts > inside).any():
            raise InputError(CHANGED)
        parts += [scores[start:stop].copy() for start, stop in zip(starts, stops, strict=True) if start < stop]
    if (counts != inside).any():
        raise InputError(CHANGED)
    scores = np.concatenate(parts)
    scores.sort()
    return scores
