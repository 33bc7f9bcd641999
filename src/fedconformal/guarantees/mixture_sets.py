"""Sets of mixtures, and the least value of a weighted sum over each, exactly.

In a box or a ball the worst member is found by sorting. Over a polytope it is found by the simplex method in integers
(Edmonds' integer pivoting) and certified by weak duality: for any multipliers y >= 0, min_k (a_k + (A'y)_k) - b'y is a
lower bound, worked out from A and b themselves. An error in the search could make it loose, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedconformal.errors import InputError

Whole = NDArray[np.object_]
"""Python integers, of any length."""

Number = int | Fraction


class MixtureSet(Protocol):
    """Weights of the sites that are thought possible."""

    def least(self, values: Sequence[int]) -> Fraction:
        """Return the least weighted sum of these whole values."""
        ...


class Box:
    """Every weight has a lower and an upper bound.

    >>> Box([Fraction(0)] * 3, [Fraction(1, 2)] * 3).least([9, 1, 3])
    Fraction(2, 1)
    """

    def __init__(self, lower: Sequence[Fraction], upper: Sequence[Fraction]) -> None:
        if not sum(lower) <= 1 <= sum(upper):
            raise InputError(
                f"box: the lower bounds add up to {float(sum(lower)):g} and the upper to {float(sum(upper)):g}; "
                "a mixture needs at most 1 and at least 1"
            )
        self._whole = math.lcm(*(bound.denominator for bound in (*lower, *upper)))
        self._lower = [int(bound * self._whole) for bound in lower]
        self._room = [int((high - low) * self._whole) for low, high in zip(lower, upper, strict=True)]

    def least(self, values: Sequence[int]) -> Fraction:
        """Fill up the sites with the least values first."""
        total = sum(w * v for w, v in zip(self._lower, values, strict=True))
        left = self._whole - sum(self._lower)
        for k in sorted(range(len(values)), key=values.__getitem__):
            if not left:
                break
            more = min(left, self._room[k])
            total += more * values[k]
            left -= more
        return Fraction(total, self._whole)


class Ball:
    """At most this much weight is elsewhere than in a given mixture: a ball in total variation.

    >>> Ball([Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)], Fraction(1, 4)).least([8, 0, 4])
    Fraction(2, 1)
    """

    def __init__(self, centre: Sequence[Fraction], radius: Fraction) -> None:
        self._whole = math.lcm(radius.denominator, *(weight.denominator for weight in centre))
        self._centre = [int(weight * self._whole) for weight in centre]
        self._radius = int(radius * self._whole)

    def least(self, values: Sequence[int]) -> Fraction:
        """Take weight from the largest values and give it to the least."""
        total = sum(w * v for w, v in zip(self._centre, values, strict=True))
        least, left = min(values), self._radius
        for k in sorted(range(len(values)), key=values.__getitem__, reverse=True):
            if not left:
                break
            moved = min(left, self._centre[k])
            total -= moved * (values[k] - least)
            left -= moved
        return Fraction(total, self._whole)


@dataclass(frozen=True)
class _Vertex:
    """The basic variables as affine functions of the others: (table[:, -1] - table[:, :-1] @ others) / whole."""

    table: Whole
    whole: int
    basic: tuple[int, ...]
    others: tuple[int, ...]

    def pivot(self, row: int, column: int) -> _Vertex:
        """Exchange a basic variable for another one; the division leaves no remainder."""
        table, pivot = self.table, self.table[row, column]
        new = (table * pivot - np.outer(table[:, column], table[row])) // self.whole
        new[row] = table[row]
        new[:, column] = -table[:, column]
        new[row, column] = self.whole
        basic, others = list(self.basic), list(self.others)
        basic[row], others[column] = others[column], basic[row]
        if pivot < 0:
            new, pivot = -new, -pivot
        return _Vertex(new, pivot, tuple(basic), tuple(others))


class Polytope:
    """All weights with A w <= b that are not negative and add up to one.

    >>> half = Fraction(1, 2)
    >>> region = Polytope([[1, 0, 0], [0, 1, 1]], [half, Fraction(3, 4)])  # the first at most a half, ...
    >>> region.least([1, 2, 5])
    Fraction(3, 2)
    >>> region.least([-1, -2, -5])
    Fraction(-4, 1)
    """

    def __init__(self, A: Sequence[Sequence[Number]], b: Sequence[Number]) -> None:
        rows = []
        for row, limit in zip(A, b, strict=True):
            scale = math.lcm(limit.denominator, *(entry.denominator for entry in row))
            rows.append([int(entry * scale) for entry in (*row, limit)])
        self._sites = len(A[0])
        self._rows: Whole = np.array(rows, dtype=object)
        self._vertex = self._feasible(self._corner())

    def least(self, values: Sequence[int]) -> Fraction:
        """Return the least weighted sum of these whole values; start where the last question ended."""
        costs: Whole = np.array([*values, *[0] * len(self._rows)], dtype=object)
        vertex = self._vertex
        for step in range(10**9):
            reduced = self._reduced(vertex, costs)
            falling = [j for j, cost in enumerate(reduced) if cost < 0]
            if not falling:
                break
            # The steepest; after a while Bland's rule, which cannot go round in circles.
            patient = step < 4 * len(costs)
            column = min(falling, key=lambda j: reduced[j] if patient else vertex.others[j])
            vertex = vertex.pivot(self._leaving(vertex, column), column)
        self._vertex = vertex  # replaced in one go, so that threads may share this object
        slacks = {v - self._sites: cost for v, cost in zip(vertex.others, reduced, strict=True) if v >= self._sites}
        return self._by_duality(values, slacks, vertex.whole)

    def _corner(self) -> _Vertex:
        # All weight on the first site; it may break some rows.
        table = self._rows - self._rows[:, :1]
        first: Whole = np.array([[1] * (self._sites + 1)], dtype=object)
        table = np.concatenate([first[:, 1:], table[:, 1:]])
        slacks = range(self._sites, self._sites + len(self._rows))
        return _Vertex(table, 1, (0, *slacks), tuple(range(1, self._sites)))

    def _feasible(self, vertex: _Vertex) -> _Vertex:
        # The dual simplex method without costs.
        for step in range(10**9):
            broken = [i for i, value in enumerate(vertex.table[:, -1]) if value < 0]
            if not broken:
                return vertex
            patient = step < 4 * (self._sites + len(self._rows))
            row = min(broken, key=lambda i: vertex.table[i, -1] if patient else vertex.basic[i])
            columns = [j for j, entry in enumerate(vertex.table[row, :-1]) if entry < 0]
            if not columns:
                break
            vertex = vertex.pivot(row, min(columns, key=vertex.others.__getitem__))
        raise InputError("polytope: no mixture of the sites fulfils A w <= b; loosen the bounds")

    @staticmethod
    def _reduced(vertex: _Vertex, costs: Whole) -> list[int]:
        basic = costs[list(vertex.basic)]
        weighing = np.flatnonzero(basic)
        reduced = costs[list(vertex.others)] * vertex.whole
        if len(weighing):
            reduced = reduced - basic[weighing] @ vertex.table[weighing, :-1]
        found: list[int] = reduced.tolist()
        return found

    @staticmethod
    def _leaving(vertex: _Vertex, column: int) -> int:
        entries, rest = vertex.table[:, column].tolist(), vertex.table[:, -1].tolist()
        rising = [i for i, entry in enumerate(entries) if entry > 0]
        return min(rising, key=lambda i: (Fraction(rest[i], entries[i]), vertex.basic[i]))

    def _by_duality(self, values: Sequence[int], multipliers: dict[int, int], whole: int) -> Fraction:
        positive = {i: y for i, y in multipliers.items() if y > 0}
        totals: Any = np.array(values, dtype=object) * whole
        limit = 0
        for i, y in positive.items():
            totals = totals + y * self._rows[i, :-1]
            limit += y * self._rows[i, -1]
        return Fraction(min(totals) - limit, whole)
