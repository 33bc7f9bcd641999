"""The promise curve: which threshold promises how much coverage.

A step function with at most 1,024 steps, rounded down, made from the summaries at calibration. It answers
every later question (sets at any alpha, p-values, a report's slider) without anybody's scores. It asks at hundreds of
points, so all points of all summaries are sorted once and counted from left to right.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers, rising
from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import Promise

MAX_POINTS = 1024
USUAL_ALPHAS = [Fraction(i, 100) for i in range(1, 51)] + [Fraction(i, 1000) for i in (1, 2, 5, 25)]
"""The promise curve is exact at these."""

BLOCK = 2**22
"""Counts worked on at a time."""


@dataclass(frozen=True, eq=False)
class PromiseCurve:
    """At every threshold, the coverage promised by it, in whole multiples of 1e-15.

    >>> curve = PromiseCurve(np.array([0.2, 0.7]), np.array([5 * 10**14, 9 * 10**14]))
    >>> curve.threshold(Fraction(1, 10)), curve.threshold(Fraction(1, 20))
    (0.7, inf)
    >>> curve.p_values(np.array([0.1, 0.2, 0.5, 0.8]))
    array([1. , 1. , 0.5, 0.1])
    """

    thresholds: Floats
    promised: Integers

    def __post_init__(self) -> None:
        """Check that both columns rise and that coverage stays below one."""
        if not 1 <= len(self.thresholds) == len(self.promised) <= MAX_POINTS:
            raise InputError(f"the promise curve needs 1 to {MAX_POINTS} points, equally many in both columns")
        if not np.isfinite(self.thresholds).all() or not rising(self.thresholds):
            raise InputError("the promise curve's thresholds are not finite and rising")
        if self.promised[0] < 0 or self.promised[-1] >= ALPHA_UNIT or not rising(self.promised):
            raise InputError("the promise curve's coverage is not rising between 0 and 1")

    @property
    def most(self) -> Fraction:
        """The most that any threshold promises."""
        return Fraction(int(self.promised[-1]), ALPHA_UNIT)

    def to_dict(self) -> dict[str, Any]:
        """Write for JSON."""
        return {"thresholds": self.thresholds.tolist(), "promised": self.promised.tolist()}

    def threshold(self, alpha: Fraction) -> float:
        """Return the smallest threshold that promises 1 - alpha, or +inf."""
        level = math.ceil((1 - alpha) * ALPHA_UNIT)
        index = int(np.searchsorted(self.promised, level, side="left"))
        return float(self.thresholds[index]) if index < len(self.thresholds) else math.inf

    def coverage(self, threshold: float) -> Fraction:
        """Return the coverage promised by a threshold."""
        index = int(np.searchsorted(self.thresholds, threshold, side="right"))
        return Fraction(int(self.promised[index - 1]), ALPHA_UNIT) if index else Fraction(0)

    def p_values(self, scores: Floats) -> Floats:
        """Return one minus the coverage promised just below each score.

        Then {p > alpha} is {score <= threshold(alpha)}, exactly.
        """
        below = np.searchsorted(self.thresholds, scores, side="left")
        return (ALPHA_UNIT - np.append(0, self.promised)[below]) / ALPHA_UNIT


@dataclass(frozen=True, eq=False)
class ClassCurves:
    """A promise curve for every class; None for one of which no score was seen, so that it is in every set.

    >>> curve = PromiseCurve(np.array([0.2, 0.7]), np.array([5 * 10**14, 9 * 10**14]))
    >>> curves = ClassCurves([curve, None])
    >>> curves.threshold(Fraction(1, 10))
    array([0.7, inf])
    >>> curves.p_values(np.array([[0.5, 0.9, 0.9]]))
    array([[0.5, 1. , 1. ]])
    """

    of_class: Sequence[PromiseCurve | None]

    def to_dict(self) -> list[dict[str, Any] | None]:
        """Write for JSON."""
        return [None if curve is None else curve.to_dict() for curve in self.of_class]

    def threshold(self, alpha: Fraction) -> Floats:
        """Return every class's smallest threshold that promises 1 - alpha, or +inf."""
        return np.array([math.inf if curve is None else curve.threshold(alpha) for curve in self.of_class])

    def p_values(self, scores: Floats) -> Floats:
        """Return the p-values of (n, J) scores, each column by its class; one for classes that were not seen."""
        if scores.shape[1] < len(self.of_class):
            raise InputError(
                f"probabilities: have {scores.shape[1]} classes, the predictor has thresholds for {len(self.of_class)}"
            )
        found = np.ones_like(scores)
        for label, curve in enumerate(self.of_class):
            if curve is not None:
                found[:, label] = curve.p_values(scores[:, label])
        return found


def in_units(coverage: Fraction) -> int:
    """Round promised coverage down to a whole multiple of 1e-15."""
    return math.floor(coverage * ALPHA_UNIT)


@dataclass(frozen=True, eq=False)
class SortedPoints:
    """All thresholds in ascending order, each once, and by how much the counts of which group rise at each."""

    thresholds: Floats
    ends: Integers
    """How many of the sorted values are before each threshold, and how many there are."""
    rise: Integers
    group: Integers | None
    groups: int
    promise: Promise

    def curve(self, alpha: Fraction) -> PromiseCurve:
        """Choose at most 1,024 points: all, or an even spread, a fine tail, the usual alphas and this one."""
        count = len(self.thresholds)
        chosen = np.arange(count)
        if count > MAX_POINTS:
            exact = self._firsts(sorted(1 - usual for usual in {alpha, *USUAL_ALPHAS}))
            rest = MAX_POINTS - 1 - len(USUAL_ALPHAS)
            even = np.linspace(0, count - 1, rest - rest // 4).astype(np.int64)
            tail = count - np.geomspace(1, count, rest // 4).astype(np.int64)
            chosen = np.unique(np.concatenate([exact, even, tail]))
            chosen = chosen[chosen < count]
        promised = np.array([in_units(coverage) for coverage in self._promised(chosen)], dtype=np.int64)
        # Of several points that promise the same, the first is the one to use.
        first = np.flatnonzero(np.diff(promised, prepend=-1) > 0)
        return PromiseCurve(self.thresholds[chosen[first]], promised[first])

    def _firsts(self, wanted: Sequence[Fraction]) -> list[int]:
        """Return the places of the first points that promise as much as wanted, by halves, for all side by side."""
        found: list[int] = []
        # What is wanted from one point to before another, and the counts before the first of them.
        parts = [(wanted, 0, len(self.thresholds), np.zeros(self.groups))]
        while parts:
            middles = [(start + stop) // 2 for _, start, stop, _ in parts]
            reached = [part[3] + self._rises(part[1], at + 1) for part, at in zip(parts, middles, strict=True)]
            promised = self.promise(np.stack(reached, axis=1).astype(np.int64))
            halves = []
            for (some, start, stop, before), at, upto, coverage in zip(parts, middles, reached, promised, strict=True):
                enough = bisect_right(some, coverage)
                halves += [(some[:enough], start, at, before), (some[enough:], at + 1, stop, upto)]
            found += [start for some, start, stop, _ in halves if start == stop and some]
            parts = [half for half in halves if half[1] < half[2] and half[0]]
        return found

    def _promised(self, places: Integers) -> list[Fraction]:
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
