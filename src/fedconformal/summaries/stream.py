"""Certified ranks of more scores than fit in memory: read them twice, keep only what matters.

The first pass counts how many scores lie below and at each of a few thousand edges, taken from the first
chunk. That tells, for every rank to be sent, between which edges its score lies; the second pass keeps just the
scores there. If too many lie between two edges, the space between them is cut finer and the scores are read once
more. The result is the same, to the last byte, as from all scores at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fedconformal.errors import InputError
from fedconformal.summaries.ranks import POINTS, RankSummary, scheduled_ranks
from fedconformal.validation import Floats, Integers, as_alpha, as_scores

EDGES = 2**14
CHANGED = "the files changed while they were being read; start again"
MEMORY = 2**22
"""How many scores are kept at a time, unless told otherwise."""


def summarize_stream(
    read: Callable[[], Iterable[Floats]], *, alpha: Any = None, memory: int = MEMORY, **about: Any
) -> RankSummary:
    """Summarise the scores of one site; `read()` starts from the beginning and yields them chunk by chunk.

    >>> scores = [np.linspace(0, 1, 700), np.linspace(0.5, 2, 500)]
    >>> summary = summarize_stream(lambda: scores, alpha=0.1)
    >>> summary.to_bytes() == RankSummary.of_scores(np.concatenate(scores), alpha=0.1).to_bytes()
    True
    """
    edges = _first_edges(read)
    below, upto, n = _count(read, edges)
    if n == 0:
        raise InputError("scores: is empty; a site needs at least one calibration row")
    schedule = (POINTS, None if alpha is None else as_alpha(alpha))
    ranks = scheduled_ranks(n, *schedule)
    while True:
        # The first edge with at least r scores at or below it; the score of rank r is that edge, or lies before it.
        at = np.searchsorted(upto, ranks, side="left")
        before = ranks <= below[at]
        crowded = np.unique(at[before])
        inside = below[crowded] - np.append(0, upto)[crowded]
        if inside.sum() <= memory:
            break
        wide = crowded[inside > memory // len(crowded)]
        edges = _finer(edges, wide)
        below, upto, n_again = _count(read, edges)
        if n_again != n:
            raise InputError(CHANGED)
    values = edges[at]
    if crowded.size:
        kept, found = _collect(read, np.append(-np.inf, edges)[crowded], edges[crowded])
        if (found != inside).any():
            raise InputError(CHANGED)
        first = np.cumsum(inside) - inside
        position = np.searchsorted(crowded, at[before])
        rank_inside = ranks[before] - np.append(0, upto)[at[before]]
        values[before] = kept[first[position] + rank_inside - 1]
    return RankSummary.scheduled(values, schedule, sizes=(n,), **about)


def _first_edges(read: Callable[[], Iterable[Floats]]) -> Floats:
    for chunk in read():
        scores = np.sort(as_scores(chunk))
        even = scores[np.linspace(0, len(scores) - 1, min(EDGES, len(scores))).astype(np.int64)]
        return np.unique(np.append(even, np.finfo(np.float64).max))
    raise InputError("scores: is empty; a site needs at least one calibration row")


def _count(read: Callable[[], Iterable[Floats]], edges: Floats) -> tuple[Integers, Integers, int]:
    """Count the scores below and at most each edge."""
    below = np.zeros(len(edges), dtype=np.int64)
    upto = np.zeros(len(edges), dtype=np.int64)
    n = 0
    for chunk in read():
        scores = np.sort(as_scores(chunk))
        below += np.searchsorted(scores, edges, side="left")
        upto += np.searchsorted(scores, edges, side="right")
        n += len(scores)
    return below, upto, n


def _finer(edges: Floats, wide: Integers) -> Floats:
    """Cut the space before each of these edges evenly, in the order of the bit patterns: every round gets on."""
    ends = _ordered_bits(np.append(-np.finfo(np.float64).max, edges)).tolist()
    share = max(2, EDGES // len(wide))
    new = [ends[i] + (ends[i + 1] - ends[i]) * j // share for i in wide.tolist() for j in range(1, share)]
    return np.unique(np.concatenate([edges, _from_ordered_bits(np.array(new, dtype=np.int64))]))


def _ordered_bits(values: Floats) -> Integers:
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _from_ordered_bits(bits: Integers) -> Floats:
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits).view(np.float64) + 0.0


def _collect(read: Callable[[], Iterable[Floats]], low: Floats, high: Floats) -> tuple[Floats, Integers]:
    """Keep the scores strictly between each pair of bounds, sorted, and count them for each pair."""
    parts = []
    found = np.zeros(len(low), dtype=np.int64)
    for chunk in read():
        scores = np.sort(as_scores(chunk))
        starts, stops = np.searchsorted(scores, low, side="right"), np.searchsorted(scores, high, side="left")
        found += stops - starts
        parts += [scores[start:stop].copy() for start, stop in zip(starts, stops, strict=True) if start < stop]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0), found
