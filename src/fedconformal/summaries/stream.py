"""Certified ranks of more scores than fit in memory: read them twice, keep only what matters.

The first pass counts how many scores are below and at each of a few thousand edges, taken from the first
scores. That tells, for every rank to be sent, between which edges its score is; the second pass keeps just the
scores there. If too many are between two edges, the space between them is cut finer and the scores are read once
more. The result is the same, to the last byte, as from all scores at once.

Counting takes one sort of each chunk. Collecting takes none: most scores are ruled out by a look in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers, as_alpha, as_scores
from fedconformal._base.chunks import CHUNK
from fedconformal._base.float_bits import keys_of, score_of
from fedconformal.errors import InputError
from fedconformal.summaries.ranks import POINTS, RankSummary, scheduled_ranks

EDGES = 2**13
CELLS = 2**16
CHANGED = "the files changed while they were being read; start again"
MEMORY = 2**22
"""How many scores are kept at a time, by default; those of one chunk come on top."""

Read = Callable[[], Iterable[Floats]]


def summarize_stream(read: Read, *, alpha: Any = None, memory: int = MEMORY, **about: Any) -> RankSummary:
    """Summarise the scores of one site; `read()` starts from the beginning and yields them chunk by chunk.

    >>> scores = [np.linspace(0, 1, 700), np.linspace(0.5, 2, 500)]
    >>> summary = summarize_stream(lambda: scores, alpha=0.1)
    >>> summary.to_bytes() == RankSummary.of_scores(np.concatenate(scores), alpha=0.1).to_bytes()
    True
    """
    edges, below, upto, n = _count(_gathered(read, memory))
    schedule = (POINTS, None if alpha is None else as_alpha(alpha))
    ranks = scheduled_ranks(n, *schedule)
    while True:
        # The first edge with at least r scores at or below it; the score of rank r is that edge, or is before it.
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
        sift = _Sift(np.append(-np.inf, edges)[crowded], edges[crowded], edges[upto - below > n // 16])
        kept = _collect(_gathered(read, memory), sift, inside)
        first = np.cumsum(inside) - inside
        position = np.searchsorted(crowded, at[before])
        rank_inside = ranks[before] - np.append(0, upto)[at[before]]
        values[before] = kept[first[position] + rank_inside - 1]
    return RankSummary.scheduled(values, schedule, sizes=(n,), **about)


def _gathered(read: Read, memory: int) -> Iterator[Floats]:
    """Read checked scores, many small chunks as one: a look at every edge is too dear for a few scores."""
    waiting: list[Floats] = []
    for chunk in read():
        waiting.append(as_scores(chunk))
        if sum(map(len, waiting)) >= min(CHUNK, memory):
            yield _together(waiting)
            waiting = []
    if waiting:
        yield _together(waiting)


def _together(parts: list[Floats]) -> Floats:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _count(chunks: Iterable[Floats], edges: Floats | None = None) -> tuple[Floats, Integers, Integers, int]:
    """Count the scores below and at most each edge; without edges, take them from the first scores."""
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
    """Cut the space before each of these edges evenly, in the order of the bit patterns: every round gets on."""
    ends = keys_of(np.append(-np.finfo(np.float64).max, edges)).tolist()
    share = max(2, EDGES // len(wide))
    new = [ends[i] + (ends[i + 1] - ends[i]) * j // share for i in wide.tolist() for j in range(1, share)]
    return np.unique(np.concatenate([edges, list(map(score_of, new))]))


def _collect(chunks: Iterable[Floats], sift: _Sift, inside: Integers) -> Floats:
    """Keep the scores strictly between each pair of bounds, sorted; there must be as many as were counted."""
    parts = []
    found = np.zeros(len(inside), dtype=np.int64)
    for chunk in chunks:
        scores = np.sort(np.concatenate([sift(chunk[i : i + CHUNK]) for i in range(0, len(chunk), CHUNK)]))
        starts = np.searchsorted(scores, sift.low, side="right")
        stops = np.searchsorted(scores, sift.high, side="left")
        found += stops - starts
        if (found > inside).any():
            raise InputError(CHANGED)
        parts += [scores[start:stop].copy() for start, stop in zip(starts, stops, strict=True) if start < stop]
    if (found != inside).any():
        raise InputError(CHANGED)
    kept = np.concatenate(parts)
    kept.sort()
    return kept


class _Sift:
    """Rule out most of the scores that are between no pair of bounds, at a fraction of the cost of a sort.

    The line is cut into equal cells, and a table tells which of them touch a pair. A score's cell never falls as
    the score rises, whatever the rounding, so no score between bounds is lost. The few values that very many
    scores have, none of them between bounds, are ruled out by themselves.
    """

    def __init__(self, low: Floats, high: Floats, frequent: Floats) -> None:
        self.low, self.high, self.frequent = low, high, frequent
        # The cells stop short of the outermost bounds, which may be far out; scores beyond them share a cell.
        ends = np.sort(np.concatenate([low, high]))
        self.origin, last = ends[len(ends) // 50], ends[-1 - len(ends) // 50]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            self.scale = CELLS / (last - self.origin)
        self.of_use = bool(0 < self.scale < np.inf)
        self.table: Booleans = np.zeros(CELLS + 2, dtype=np.bool_)
        if self.of_use:
            for start, stop in zip(self._cells(low), self._cells(high), strict=True):
                self.table[start : stop + 1] = True

    def _cells(self, scores: Floats) -> Integers:
        with np.errstate(over="ignore"):
            place: Floats = scores - self.origin
            place *= self.scale
        np.clip(place, -1, CELLS, out=place)
        place += 1
        return place.astype(np.int64)

    def __call__(self, scores: Floats) -> Floats:
        left = scores[self.table.take(self._cells(scores), mode="clip")] if self.of_use else scores
        for value in self.frequent:
            left = left[left != value]
        return left
