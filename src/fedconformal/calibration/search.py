"""The smallest threshold that promises enough, among the points of all summaries.

Every guarantee is the smallest q at which the counts of scores promise enough. So this file searches over
q, asks the summaries for lower counts and the guarantee for what they promise, and knows nothing of either.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from operator import ge

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.calibration.curve import MAX_POINTS, PromiseCurve, in_units
from fedconformal.guarantees import Guarantee
from fedconformal.summaries.stack import Stack, Stackable, Stretch

USUAL_ALPHAS = [Fraction(i, 100) for i in range(1, 51)] + [Fraction(i, 1000) for i in (1, 2, 5, 25)]
"""The promise curve is exact at these."""

BLOCK = 2**22
"""Counts worked on at a time."""

SAMPLE = 1024
"""How many points of a stretch are looked at to choose where to ask."""

NEAR = 8
"""How far from where it should be a point is looked for first."""

MOST_PIVOTS = 128
PIVOT_COUNTS = 2**17
"""How many thresholds are asked for at a time: fewer if there are many summaries."""


@dataclass(frozen=True, eq=False)
class _Edge:
    """A threshold, what it promises, and where each summary's points above it begin."""

    value: float
    promised: Fraction
    after: Integers


def _guesses(wanted: Sequence[Fraction], low: _Edge, high: _Edge, values: Floats, rises: Integers) -> Floats:
    """Choose, for each wanted coverage, two of these points that it probably lies between.

    As if coverage grew with the count of all scores, which is true where they weigh alike, or not far off.
    """
    share = np.cumsum(rises) / max(1, rises.sum())
    whole = high.promised - low.promised
    level = np.array([float((coverage - low.promised) / whole) for coverage in wanted])
    middle = np.searchsorted(share, level)
    reach = 1 + 2 * np.sqrt(len(values) * level * (1 - level)) if len(values) == SAMPLE else np.ones(len(level))
    chosen = np.concatenate([middle - reach, middle + reach]).astype(np.int64)
    return np.sort(values[np.clip(chosen, 0, len(values) - 1)])


class Search:
    """The thresholds there are to choose from, and what each promises."""

    def __init__(self, summaries: Sequence[Stackable], guarantee: Guarantee, sizes: Sequence[int]) -> None:
        self._summaries = summaries
        self._guarantee = guarantee
        self._sizes = sizes

    @cached_property
    def _stack(self) -> Stack:
        return Stack(self._summaries)

    def smallest(self, alphas: Sequence[Fraction]) -> list[float]:
        """Find the first point that promises 1 - alpha, for each alpha; +inf if none does."""
        if len(self._summaries) == 1:
            return [self._bisected(1 - alpha) for alpha in alphas]
        stretch = self._stack.everything
        most = self._promised(self._stack.counts(stretch.last)[:, None])[0]
        wanted = sorted({1 - alpha for alpha in alphas if 1 - alpha <= most})
        low = _Edge(-math.inf, Fraction(0), stretch.first)
        high = _Edge(float(self._stack.values[stretch.last - 1].max()), most, stretch.last)
        found = dict(self._narrowed(wanted, low, high, guess=True)) if wanted else {}
        return [found.get(1 - alpha, math.inf) for alpha in alphas]

    def _bisected(self, wanted: Fraction) -> float:
        """Find the first point of the only summary that promises as much as wanted; +inf if none does."""
        points, bounds = self._summaries[0].points, self._summaries[0].bounds

        def promise(place: int) -> Fraction:
            return self._promised(bounds(points[place : place + 1])[0][None])[0]

        size = len(points)
        near = math.ceil(wanted * size)  # as if coverage grew evenly; mostly it does
        low, high = max(0, near - NEAR), min(size, near + NEAR)
        if (low and promise(low - 1) >= wanted) or promise(high - 1) < wanted:
            low, high = 0, size
        place = bisect_left(range(size), wanted, low, high, key=promise)
        return float(points[place]) if place < size else math.inf

    def _narrowed(
        self, wanted: Sequence[Fraction], low: _Edge, high: _Edge, *, guess: bool
    ) -> Iterator[tuple[Fraction, float]]:
        """Find the first points that promise as much as wanted: more than `low` does, and at most what `high` does.

        Ask at a few points in between and go on, for each wanted coverage, between the two where it lies.
        """
        stretch = Stretch(self._stack, low.after, high.after)
        values, rises = stretch.sample(SAMPLE)
        order = np.argsort(values)
        values, rises = values[order], rises[order]
        all_equal = stretch.size <= SAMPLE and values[0] == values[-1]
        if all_equal or math.nextafter(low.value, math.inf) >= high.value:
            yield from ((coverage, float(values[0])) for coverage in wanted)
            return
        few = max(2, min(MOST_PIVOTS, PIVOT_COUNTS // len(self._stack)))
        if guess and 2 * len(wanted) <= few:
            pivots = _guesses(wanted, low, high, values, rises)
        else:
            pivots = values[np.linspace(0, len(values) - 1, few + 2).astype(np.int64)[1:-1]]
        # Of very many points that equal `high`, ask just below them.
        pivots = np.unique(pivots[pivots < high.value])
        if not len(pivots):
            pivots = np.array([math.nextafter(high.value, -math.inf)])
        after = stretch.split(pivots)
        promised = self._promised(self._stack.counts(after))
        edges = [low, *map(_Edge, pivots.tolist(), promised, after.T), high]
        upto = [0, *(bisect_right(wanted, promise) for promise in promised), len(wanted)]
        for (start, end), (first, last) in zip(pairwise(edges), pairwise(upto), strict=True):
            if inside := wanted[first:last]:
                left = int((end.after - start.after).sum())
                yield from self._narrowed(inside, start, end, guess=2 * left < stretch.size)

    def _promised(self, counts: Integers) -> list[Fraction]:
        # Where all scores weigh alike, only the total matters.
        if not self._guarantee.sites_apart:
            counts = counts.sum(axis=0, keepdims=True)
        return self._guarantee.promised_many(counts, self._sizes)

    def curve(self, alpha: Fraction) -> PromiseCurve:
        """Choose at most 1,024 points: all, or an even spread, a fine tail, the usual alphas and this one."""
        apart = self._guarantee.sites_apart
        owner = self._stack.owners()
        rise = self._stack.rises(np.arange(len(owner)), owner)
        if apart or (rise != rise[0]).any():
            order = np.argsort(self._stack.values)
            values, owner, rise = self._stack.values[order], owner[order], rise[order]
        else:  # it does not matter whose point is whose
            values = np.sort(self._stack.values)
        # Where a run of equal values ends: at that point all of them count.
        ends = np.append(np.flatnonzero(values[1:] != values[:-1]), len(values) - 1) + 1
        points = values[ends - 1]
        count = len(points)
        totals = np.cumsum(rise)[ends - 1]
        chosen = np.arange(count)
        if count > MAX_POINTS:
            alphas = [alpha, *USUAL_ALPHAS]
            exact = np.searchsorted(points, self.smallest(alphas)) if apart else self._first_of(totals, alphas)
            rest = MAX_POINTS - len(exact)
            even = np.linspace(0, count - 1, rest - rest // 4).astype(np.int64)
            tail = count - np.geomspace(1, count, rest // 4).astype(np.int64)
            chosen = np.unique(np.concatenate([exact, even, tail]))
            chosen = chosen[chosen < count]
        found = self._swept(owner, rise, ends[chosen]) if apart else self._promised(totals[None, chosen])
        promised = np.array([in_units(coverage) for coverage in found], dtype=np.int64)
        # Of several points that promise the same, the first is the one to use.
        first = np.flatnonzero(np.diff(promised, prepend=-1) > 0)
        return PromiseCurve(points[chosen[first]], promised[first])

    def _first_of(self, totals: Integers, alphas: Sequence[Fraction]) -> Integers:
        """Return where the first of these totals is that promises 1 - alpha, by bisecting for all alphas side by side.

        Far quicker than `smallest` once all points are sorted, which the curve needs anyhow.
        """
        first, last = np.zeros(len(alphas), dtype=np.int64), np.full(len(alphas), len(totals))
        wanted = [1 - alpha for alpha in alphas]
        while (first < last).any():
            middle = (first + last) // 2
            promised = self._promised(totals[None, np.minimum(middle, len(totals) - 1)])
            enough = np.array(list(map(ge, promised, wanted)))
            last = np.where(enough, np.minimum(middle, last), last)
            first = np.where(enough, first, np.minimum(middle + 1, last))
        return first

    def _swept(self, owner: Integers, rise: Integers, ends: Integers) -> list[Fraction]:
        """Return what is promised by the first so many points: one sweep from left to right, in bounded memory."""
        count = len(self._stack)
        reached, start = np.zeros(count), 0
        found: list[Fraction] = []
        for block in np.array_split(ends, math.ceil(len(ends) * count / BLOCK)):
            counts = np.empty((count, len(block)), dtype=np.int64)
            for column, end in enumerate(block.tolist()):
                # Whole numbers in float64, exact below 2^53.
                reached += np.bincount(owner[start:end], rise[start:end], count)
                counts[:, column] = reached
                start = end
            found += self._guarantee.promised_many(counts, self._sizes)
        return found
