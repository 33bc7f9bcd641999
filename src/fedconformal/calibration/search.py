"""The smallest threshold that promises enough, among the points of all summaries.

The summaries bound counts, the guarantee turns counts into coverage, and the search knows neither. For the promise
curve all points are sorted once. For one threshold it asks at two points that the threshold is probably between, and
keeps only what is between these, until few are left to sort.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.calibration.curve import MAX_POINTS, USUAL_ALPHAS, PromiseCurve, in_units
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import Promise
from fedconformal.summaries import Summary
from fedconformal.summaries.batch import SummaryBatch

SAMPLE = 1024
"""How many points are looked at to choose where to ask."""

FEW = 2**14
"""Up to this many points are sorted instead of narrowed down further."""

BLOCK = 2**22
"""Counts worked on at a time."""

MAX_STEP = 100
"""Points that rise by no more than this are sorted step by step."""


class Search:
    """The thresholds there are to choose from, and what each promises.

    >>> from fedconformal import Mixture, Summary
    >>> search = Search([Summary.of_scores([0.1, 0.2, 0.3]), Summary.of_scores([0.2, 0.4])], Mixture(), [3, 2])
    >>> search.smallest(Fraction(3, 5)), search.smallest(Fraction(2, 5)), search.smallest(Fraction(1, 7))
    (0.2, 0.3, inf)
    """

    def __init__(
        self,
        summaries: Sequence[Summary],
        guarantee: Guarantee,
        sizes: Sequence[int],
        strata: Sequence[int] | None = None,
    ) -> None:
        """Take one summary a size; or several, where `strata` says which of the sizes each summary is a part of."""
        # The sizes are not kept: a pooled message may claim a million sites, and there is a search for every group.
        self._stack = SummaryBatch.of(summaries)
        self._group, self._promise = guarantee.grouped(sizes)
        if strata is not None:
            self._group = None if self._group is None else self._group[np.asarray(strata)]

    @cached_property
    def points(self) -> Points:
        """The points of all summaries."""
        (values, rise), sizes = self._stack.points(), list(map(sum, self._stack.sizes))
        if self._group is None:
            return Points(values, rise, None, np.array([float(sum(sizes))]), self._promise)
        group = np.repeat(self._group, self._stack.lengths())
        upto = np.bincount(self._group, sizes).astype(np.float64, copy=False)
        return Points(values, rise, group, upto, self._promise)

    def smallest(self, alpha: Fraction) -> float:
        """Find the first point that promises 1 - alpha; +inf if none does."""
        wanted = 1 - alpha
        if len(self._stack) == 1:  # in order already
            points, bounds = self._stack[0].points, self._stack[0].bounds
            place = bisect_left(
                range(len(points)), wanted, key=lambda i: self._promise(bounds(points[i : i + 1])[0][None])[0]
            )
            return float(points[place]) if place < len(points) else math.inf
        if self.points.promised([self.points.upto])[0] < wanted:
            return math.inf
        found = self.points.narrowed(wanted).in_order()
        return float(found.thresholds[found.firsts([wanted])[0]])

    def curve(self, alpha: Fraction, usual: Sequence[Fraction] = USUAL_ALPHAS) -> PromiseCurve:
        """Sort all points, and choose those of the promise curve; it is exact at this alpha and the usual ones."""
        return self.points.in_order().curve(alpha, usual)


@dataclass(frozen=True, eq=False)
class Points:
    """Points of the summaries, by how much which group's count rises at each, and the counts once all are counted.

    Counts are whole numbers in floats, which are exact below 2^53.
    """

    values: Floats
    rise: Integers
    group: Integers | None
    upto: Floats
    promise: Promise

    def rises(self, inside: slice | Integers) -> Floats:
        """Add up, group by group, what the counts rise by at these points."""
        if self.group is None:
            return np.array([self.rise[inside].sum()], dtype=np.float64)
        sums: Floats = np.bincount(self.group[inside], self.rise[inside], len(self.upto)).astype(np.float64, copy=False)
        return sums

    def promised(self, counts: Sequence[Floats]) -> list[Fraction]:
        """Return what each of these counts promises."""
        return self.promise(np.stack(counts, axis=1).astype(np.int64))

    def at(self, places: Integers, upto: Floats) -> Points:
        """Take some of the points, up to which the counts are `upto`."""
        group = None if self.group is None else self.group[places]
        return Points(self.values[places], self.rise[places], group, upto, self.promise)

    def narrowed(self, wanted: Fraction) -> Points:
        """Keep points among which is the first one that promises as much as wanted, if the last one does."""
        points, low, high = self, Fraction(0), self.promised([self.upto])[0]
        while (before := len(points.values)) > FEW:
            first, second = points._guesses(float((wanted - low) / (high - low)))
            after, between = points.values > second, points.values > first
            between &= ~after
            at_second = points.upto - points.rises(np.flatnonzero(after))
            at_first = at_second - points.rises(np.flatnonzero(between))
            promised = points.promised([at_first, at_second])
            if promised[0] >= wanted:
                inside, upto, high = ~(after | between), at_first, promised[0]
            elif promised[1] >= wanted:
                inside, upto, (low, high) = between, at_second, promised
            else:
                inside, upto, low = after, points.upto, promised[1]
            points = points.at(np.flatnonzero(inside), upto)
            if 2 * len(points.values) > before:  # they are tied, or the guess is no good
                break
        return points

    def _guesses(self, level: float) -> tuple[float, float]:
        """Choose two points that the wanted one is probably between.

        As if coverage grew with the count of all scores, which is true where they weigh alike, or not far off.
        """
        chosen = np.arange(SAMPLE) * len(self.values) // SAMPLE
        chosen = chosen[np.argsort(self.values[chosen])]
        share = np.cumsum(self.rise[chosen])
        middle, reach = np.searchsorted(share, level * share[-1]), 1 + 2 * math.sqrt(SAMPLE * level * (1 - level))
        around = np.clip([middle - reach, middle + reach], 0, SAMPLE - 1).astype(np.int64)
        first, second = self.values[chosen[around]].tolist()
        return first, second

    def in_order(self) -> SortedPoints:
        """Sort them; with their rises only where there is no other way, since that is slow."""
        alike = self.group is None and bool((self.rise == self.rise[0]).all())
        steps = self.group is None and not alike and len(self.values) > FEW and self.rise.max() <= MAX_STEP
        if alike or steps:  # it does not matter whose point is whose
            points = replace(self, values=np.sort(self.values))
        else:
            points = self.at(np.argsort(self.values), self.upto)
        values = points.values
        # Where a run of equal values ends: at that point all of them count.
        last = np.flatnonzero(np.append(values[1:] != values[:-1], True))
        ends = np.zeros(len(last) + 1, dtype=np.int64)
        np.add(last, 1, out=ends[1:])
        found = SortedPoints(points, values[last], ends)
        if not steps:
            return found
        rise = self.rise.astype(np.uint8)
        by_step = np.split(self.values[np.argsort(rise, kind="stable")], np.cumsum(np.bincount(rise))[:-1])
        runs = {step: np.sort(run) for step, run in enumerate(by_step) if len(run)}
        return SortedSteps(found.points, found.thresholds, found.ends, runs)


@dataclass(frozen=True, eq=False)
class SortedPoints:
    """All points in ascending order, and the thresholds among them, each once."""

    points: Points
    thresholds: Floats
    ends: Integers
    """How many of the points are before each threshold, and how many there are."""

    def curve(self, alpha: Fraction, usual: Sequence[Fraction]) -> PromiseCurve:
        """Choose at most 1,024 points: all, or an even spread, a fine tail, the usual alphas and this one."""
        count = len(self.thresholds)
        chosen = np.arange(count)
        if count > MAX_POINTS:
            exact = self.firsts(sorted(1 - one for one in {alpha, *usual}))
            rest = MAX_POINTS - 1 - len(usual)
            even = np.linspace(0, count - 1, rest - rest // 4).astype(np.int64)
            tail = count - np.geomspace(1, count, rest // 4).astype(np.int64)
            chosen = np.unique(np.concatenate([exact, even, tail]))
            chosen = chosen[chosen < count]
        promised = np.array([in_units(coverage) for coverage in self._promised(chosen)], dtype=np.int64)
        # Of several points that promise the same, the first is the one to use.
        first = np.flatnonzero(np.diff(promised, prepend=-1) > 0)
        return PromiseCurve(self.thresholds[chosen[first]], promised[first])

    def firsts(self, wanted: Sequence[Fraction]) -> list[int]:
        """Return the places of the first points that promise as much as wanted, by halves, for all side by side."""
        found: list[int] = []
        before = self.points.upto - self.points.rises(slice(None))
        # What is wanted from one point to before another, and the counts before the first of them.
        parts = [(wanted, 0, len(self.thresholds), before)]
        while parts:
            middles = [(start + stop) // 2 for _, start, stop, _ in parts]
            reached = [part[3] + self._rises(part[1], at + 1) for part, at in zip(parts, middles, strict=True)]
            promised = self.points.promised(reached)
            halves = []
            for (some, start, stop, before), at, upto, coverage in zip(parts, middles, reached, promised, strict=True):
                enough = bisect_right(some, coverage)
                halves += [(some[:enough], start, at, before), (some[enough:], at + 1, stop, upto)]
            found += [start for some, start, stop, _ in halves if start == stop and some]
            parts = [half for half in halves if half[1] < half[2] and half[0]]
        return found

    def _promised(self, places: Integers) -> list[Fraction]:
        """Return what the points at these places promise: one sweep from left to right, in bounded memory."""
        points, groups = self.points, len(self.points.upto)
        if points.group is None:
            return points.promise(np.cumsum(points.rise)[None, self.ends[places + 1] - 1])
        reached, start = np.zeros(groups), 0
        found: list[Fraction] = []
        for block in np.array_split(places, math.ceil(len(places) * groups / BLOCK)):
            counts = np.empty((groups, len(block)), dtype=np.int64)
            for column, place in enumerate(block.tolist()):
                reached += self._rises(start, place + 1)
                counts[:, column] = reached
                start = place + 1
            found += points.promise(counts)
        return found

    def _rises(self, start: int, stop: int) -> Floats:
        return self.points.rises(slice(self.ends[start], self.ends[stop]))


@dataclass(frozen=True, eq=False)
class SortedSteps(SortedPoints):
    """Points that rise by few different steps, those of each step in order by themselves.

    To sort numbers takes a third of the time that it takes to sort them with their rises.
    """

    runs: Mapping[int, Floats]

    def _reached(self, places: Sequence[int] | Integers) -> Integers:
        """Add up the rises at the thresholds of these places and before; before the first there is none."""
        at = np.asarray(places)
        q = self.thresholds[np.maximum(at, 0)]
        counts = sum(step * np.searchsorted(run, q, side="right") for step, run in self.runs.items())
        return np.where(at < 0, 0, counts)

    def _promised(self, places: Integers) -> list[Fraction]:
        return self.points.promise(self._reached(places)[None])

    def _rises(self, start: int, stop: int) -> Floats:
        before, upto = self._reached([start - 1, stop - 1]).tolist()
        return np.array([upto - before], dtype=np.float64)
