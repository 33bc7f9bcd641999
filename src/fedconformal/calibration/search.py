"""The smallest threshold that promises enough, among the points of all summaries, and what every threshold promises.

Every guarantee is the smallest q at which the counts of scores promise enough. So this file searches over
q, asks the summaries for lower counts and the guarantee for what they promise, and knows nothing of either.

One threshold is found by narrowing: ask at two points that it is probably between, and go on between these. The promise
curve asks at hundreds of points, so it sorts all of them once and counts from left to right. To sort for one threshold
as well would be less code, and takes 1.17 times as long at 100,000 sites (benchmarks/sites.py, with the decoding).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.calibration.curve import MAX_POINTS, PromiseCurve, in_units
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import Promise, summed
from fedconformal.summaries.stack import Stack, Stackable, Stretch

USUAL_ALPHAS = [Fraction(i, 100) for i in range(1, 51)] + [Fraction(i, 1000) for i in (1, 2, 5, 25)]
"""The promise curve is exact at these."""

BLOCK = 2**22
"""Counts worked on at a time."""

SAMPLE = 1024
"""How many points of a stretch are looked at to choose where to ask."""

MOST_PIVOTS = 128
PIVOT_COUNTS = 2**17
"""How many thresholds are asked for at a time: fewer if there are many summaries."""


@dataclass(frozen=True, eq=False)
class _Edge:
    """A threshold, what it promises, and where each summary's points above it begin."""

    value: float
    promised: Fraction
    after: Integers


class Search:
    """The thresholds there are to choose from, and what each promises."""

    def __init__(self, summaries: Sequence[Stackable], guarantee: Guarantee, sizes: Sequence[int]) -> None:
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
        stretch = self._stack.everything
        most = self._promised(self._stack.counts(stretch.last)[:, None])[0]
        if most < wanted:
            return math.inf
        low = _Edge(-math.inf, Fraction(0), stretch.first)
        high = _Edge(float(self._stack.values[stretch.last - 1].max()), most, stretch.last)
        guess = True
        while True:
            values, rises = stretch.sample(SAMPLE)
            order = np.argsort(values)
            values, rises = values[order], rises[order]
            all_equal = stretch.size <= SAMPLE and values[0] == values[-1]
            if all_equal or math.nextafter(low.value, math.inf) >= high.value:
                return float(values[0])
            if guess:
                pivots = _guesses(wanted, low, high, values, rises)
            else:
                few = max(2, min(MOST_PIVOTS, PIVOT_COUNTS // len(self._stack)))
                pivots = values[np.linspace(0, len(values) - 1, few + 2).astype(np.int64)[1:-1]]
            # Of very many points that equal `high`, ask just below them.
            pivots = np.unique(pivots[pivots < high.value])
            if not len(pivots):
                pivots = np.array([math.nextafter(high.value, -math.inf)])
            after = stretch.split(pivots)
            promised = self._promised(self._stack.counts(after))
            edges = [low, *map(_Edge, pivots.tolist(), promised, after.T), high]
            low, high = next(pair for pair in pairwise(edges) if pair[1].promised >= wanted)
            before, stretch = stretch.size, Stretch(self._stack, low.after, high.after)
            guess = 2 * stretch.size < before

    def curve(self, alpha: Fraction) -> PromiseCurve:
        """Choose at most 1,024 points: all, or an even spread, a fine tail, the usual alphas and this one."""
        sweep = self._sweep()
        count = len(sweep.points)
        chosen = np.arange(count)
        if count > MAX_POINTS:
            wanted = sorted(1 - usual for usual in {alpha, *USUAL_ALPHAS})
            exact = sweep.firsts(wanted)
            rest = MAX_POINTS - 1 - len(USUAL_ALPHAS)
            even = np.linspace(0, count - 1, rest - rest // 4).astype(np.int64)
            tail = count - np.geomspace(1, count, rest // 4).astype(np.int64)
            chosen = np.unique(np.concatenate([exact, even, tail]))
            chosen = chosen[chosen < count]
        promised = np.array([in_units(coverage) for coverage in sweep.promised(chosen)], dtype=np.int64)
        # Of several points that promise the same, the first is the one to use.
        first = np.flatnonzero(np.diff(promised, prepend=-1) > 0)
        return PromiseCurve(sweep.points[chosen[first]], promised[first])

    def _sweep(self) -> _Sweep:
        owner = self._stack.owners()
        rise = self._stack.rises(np.arange(len(owner)), owner)
        group = None
        if self._group is not None or (rise != rise[0]).any():
            order = np.argsort(self._stack.values)
            values, rise = self._stack.values[order], rise[order]
            group = None if self._group is None else self._group[owner[order]]
        else:  # it does not matter whose point is whose
            values = np.sort(self._stack.values)
        # Where a run of equal values ends: at that point all of them count.
        ends = np.append(np.flatnonzero(values[1:] != values[:-1]), len(values) - 1) + 1
        groups = 1 if self._group is None else int(self._group.max()) + 1
        return _Sweep(values[ends - 1], np.append(0, ends), rise, group, groups, self._promise)


@dataclass(frozen=True, eq=False)
class _Part:
    """Points from `start` to before `stop`, what is wanted between them, and the counts before the first."""

    wanted: Sequence[Fraction]
    start: int
    stop: int
    counts: Floats

    @property
    def middle(self) -> int:
        return (self.start + self.stop) // 2


@dataclass(frozen=True, eq=False)
class _Sweep:
    """All points in ascending order, each once, and by how much the counts of which group rise at each."""

    points: Floats
    ends: Integers
    """How many of the sorted values are before each point, and how many there are."""
    rise: Integers
    group: Integers | None
    groups: int
    promise: Promise

    def firsts(self, wanted: Sequence[Fraction]) -> list[int]:
        """Return the places of the first points that promise as much as wanted, by halves, for all side by side."""
        found: list[int] = []
        parts = [_Part(wanted, 0, len(self.points), np.zeros(self.groups))]
        while parts:
            reached = [part.counts + self._rises(part.start, part.middle + 1) for part in parts]
            promised = self.promise(np.stack(reached, axis=1).astype(np.int64))
            halves: list[_Part] = []
            for part, counts, coverage in zip(parts, reached, promised, strict=True):
                enough = bisect_right(part.wanted, coverage)
                halves.append(_Part(part.wanted[:enough], part.start, part.middle, part.counts))
                halves.append(_Part(part.wanted[enough:], part.middle + 1, part.stop, counts))
            found += [half.start for half in halves if half.start == half.stop and half.wanted]
            parts = [half for half in halves if half.start < half.stop and half.wanted]
        return found

    def promised(self, places: Integers) -> list[Fraction]:
        """Return what the points at these places promise: one sweep from left to right, in bounded memory."""
        if self.group is None:
            return self.promise(np.cumsum(self.rise)[None, self.ends[places + 1] - 1])
        reached, start = np.zeros(self.groups), 0
        found: list[Fraction] = []
        for block in np.array_split(places, math.ceil(len(places) * self.groups / BLOCK)):
            counts = np.empty((self.groups, len(block)), dtype=np.int64)
            for column, place in enumerate(block.tolist()):
                reached += self._rises(start, place + 1)
                counts[:, column] = reached
                start = place + 1
            found += self.promise(counts)
        return found

    def _rises(self, start: int, stop: int) -> Floats:
        """Add up, group by group, what the counts rise by at these points: whole numbers, exact below 2^53."""
        inside = slice(self.ends[start], self.ends[stop])
        if self.group is None:
            return np.array([self.rise[inside].sum()], dtype=np.float64)
        sums: Floats = np.bincount(self.group[inside], self.rise[inside], self.groups).astype(np.float64, copy=False)
        return sums


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
