"""Sets of mixtures whose worst member is found by sorting: move weight to the least values, as far as allowed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from fedconformal.errors import InputError


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
        """Keep the bounds over one denominator; refuse bounds that no mixture fulfils."""
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
        """Keep the weights over one denominator."""
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
