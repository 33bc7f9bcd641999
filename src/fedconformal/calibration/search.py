"""The smallest threshold that promises enough, among the points of all summaries.

Every guarantee is the smallest q at which the counts of scores promise enough. So this file searches over
q, asks the summaries for lower counts and the guarantee for what they promise, and knows nothing of either.

One threshold is found by narrowing: ask at two points that it is probably between, and go on between these. Every
summary's own points are in ascending order, so the points between two thresholds are one stretch of each summary, and a
third threshold splits all stretches side by side. To sort all points for one threshold too, as the promise curve does,
would be less code, and takes 1.17 times as long at 100,000 sites (benchmarks/sites.py, with the decoding).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.calibration.curve import PromiseCurve, SortedPoints
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import summed
from fedconformal.summaries import Summary

SAMPLE = 1024
"""How many points of a stretch are looked at to choose where to ask."""

MOST_PIVOTS = 128
PIVOT_COUNTS = 2**17
"""How many thresholds are asked for at a time: fewer if there are many summaries."""


class _Edge(NamedTuple):
    """A threshold, what it promises, and where each summary's points above it begin."""

    value: float
    promised: Fraction
    after: Integers


class Stack:
    """The points of all summaries, one summary after the other, and the counts that are reached at them.

    >>> from fedconformal import summarize
    >>> stack = Stack([summarize([0.1, 0.2, 0.3]), summarize([0.2, 0.4])])
    >>> stack.counts(stack.split(stack.starts, stack.ends, np.array([0.1, 0.25])))
    array([[1, 2],
           [0, 1]])
    """

    def __init__(self, summaries: Sequence[Summary]) -> None:
        """Put the columns together."""
        points = [summary.points for summary in summaries]
        lengths = np.array(list(map(len, points)))
        self.values: Floats = points[0] if len(points) == 1 else np.concatenate(points)
        self.ends: Integers = np.cumsum(lengths)
        self.starts: Integers = self.ends - lengths
        # Many sites share one column of counts: it is kept once, and a zero before it.
        reached = [summary.reached for summary in summaries]
        distinct = {id(column): column for column in reached}
        first = np.cumsum([0, *(len(column) + 1 for column in distinct.values())]).tolist()
        place = dict(zip(distinct, first, strict=False))
        self._table = np.zeros(first[-1], dtype=np.int64)
        for start, column in zip(first, distinct.values(), strict=False):
            self._table[start + 1 : start + 1 + len(column)] = column
        # From a position among the points to one in the table.
        self._shift = np.array([place[id(column)] for column in reached]) - self.starts

    def counts(self, after: Integers) -> Integers:
        """Return every summary's lower count, where the first point above the threshold is at `after`."""
        counts: Integers = self._table[after + (self._shift if after.ndim == 1 else self._shift[:, None])]
        return counts

    def rises(self, place: Integers, owner: Integers) -> Integers:
        """By how much the count of the summary that owns it rises at each of these points."""
        place = place + self._shift[owner]
        return self._table[place + 1] - self._table[place]

    def sample(self, first: Integers, last: Integers, most: int) -> tuple[Floats, Integers]:
        """Return the points from `first` up to before `last`, in order, and how much the counts rise at each.

        If there are more than `most`, an even choice.
        """
        upto = np.cumsum(last - first)
        count = min(most, int(upto[-1]))
        chosen = np.arange(count) * int(upto[-1]) // count
        owner = np.searchsorted(upto, chosen, side="right")
        place = last[owner] - upto[owner] + chosen
        values, rises = self.values[place], self.rises(place, owner)
        order = np.argsort(values)
        return values[order], rises[order]

    def split(self, first: Integers, last: Integers, thresholds: Floats) -> Integers:
        """Return where, from `first` up to `last`, the first point above each threshold is, for every summary."""
        after = np.repeat(first[:, None], len(thresholds), axis=1)
        open_ = np.flatnonzero(last > first)
        if not len(open_):
            return after
        here, last = after[open_], last[open_, None]
        step = 1 << (int((last - here).max()).bit_length() - 1)
        while step:  # forward by ever smaller steps, wherever what is stepped over is not above
            ahead = here + step
            passed = self.values.take(ahead - 1, mode="clip") <= thresholds
            passed &= ahead <= last
            here += step * passed
            step //= 2
        after[open_] = here
        return after


class Search:
    """The thresholds there are to choose from, and what each promises."""

    def __init__(self, summaries: Sequence[Summary], guarantee: Guarantee, sizes: Sequence[int]) -> None:
        self._summaries = summaries
        self._total = sum(sizes)
        self._group, self._promise = guarantee.grouped(sizes)

    @cached_property
    def _stack(self) -> Stack:
        return Stack(self._summaries)

    def _promised(self, counts: Integers) -> list[Fraction]:
        return self._promise(summed(counts, self._group, self._total))

    def smallest(self, alpha: Fraction) -> float:
        """Find the first point that promises 1 - alpha; +inf if none does."""
        wanted = 1 - alpha
        if len(self._summaries) == 1:  # no need to stack it, which takes up to twice as long
            points, bounds = self._summaries[0].points, self._summaries[0].bounds
            place = bisect_left(
                range(len(points)), wanted, key=lambda i: self._promised(bounds(points[i : i + 1])[0][None])[0]
            )
            return float(points[place]) if place < len(points) else math.inf
        stack = self._stack
        most = self._promised(stack.counts(stack.ends)[:, None])[0]
        if most < wanted:
            return math.inf
        low = _Edge(-math.inf, Fraction(0), stack.starts)
        high = _Edge(float(stack.values.max()), most, stack.ends)
        size, guess = len(stack.values), True
        while True:
            values, rises = stack.sample(low.after, high.after, SAMPLE)
            all_equal = size <= SAMPLE and values[0] == values[-1]
            if all_equal or math.nextafter(low.value, math.inf) >= high.value:
                return float(values[0])
            if guess:
                pivots = _guesses(wanted, low, high, values, rises)
            else:
                few = max(2, min(MOST_PIVOTS, PIVOT_COUNTS // len(self._summaries)))
                pivots = values[np.linspace(0, len(values) - 1, few + 2).astype(np.int64)[1:-1]]
            # Of very many points that equal `high`, ask just below them.
            pivots = np.unique(pivots[pivots < high.value])
            if not len(pivots):
                pivots = np.array([math.nextafter(high.value, -math.inf)])
            after = stack.split(low.after, high.after, pivots)
            promised = self._promised(stack.counts(after))
            edges = [low, *map(_Edge, pivots.tolist(), promised, after.T), high]
            low, high = next(pair for pair in pairwise(edges) if pair[1].promised >= wanted)
            before, size = size, int((high.after - low.after).sum())
            guess = 2 * size < before

    def curve(self, alpha: Fraction) -> PromiseCurve:
        """Sort all points, and choose those of the promise curve; it is exact at this alpha and the usual ones."""
        stack = self._stack
        owner = np.repeat(np.arange(len(self._summaries)), stack.ends - stack.starts)
        rise = stack.rises(np.arange(len(owner)), owner)
        group = None
        if self._group is not None or (rise != rise[0]).any():
            order = np.argsort(stack.values)
            values, rise = stack.values[order], rise[order]
            group = None if self._group is None else self._group[owner[order]]
        else:  # it does not matter whose point is whose
            values = np.sort(stack.values)
        # Where a run of equal values ends: at that point all of them count.
        ends = np.append(np.flatnonzero(values[1:] != values[:-1]), len(values) - 1) + 1
        groups = 1 if self._group is None else int(self._group.max()) + 1
        return SortedPoints(values[ends - 1], np.append(0, ends), rise, group, groups, self._promise).curve(alpha)


def _guesses(wanted: Fraction, low: _Edge, high: _Edge, values: Floats, rises: Integers) -> Floats:
    """Choose two of these points that a wanted coverage is probably between.

    As if coverage grew with the count of all scores, which is true where they weigh alike, or not far off.
    """
    share = np.cumsum(rises) / max(1, rises.sum())
    level = float((wanted - low.promised) / (high.promised - low.promised))
    middle = int(np.searchsorted(share, level))
    reach = 1 + 2 * math.sqrt(len(values) * level * (1 - level)) if len(values) == SAMPLE else 1
    chosen = np.array([middle - reach, middle + reach]).astype(np.int64)
    return np.sort(values[np.clip(chosen, 0, len(values) - 1)])
