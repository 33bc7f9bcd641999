"""The promise curve: which threshold promises how much coverage.

A step function with at most 1,024 steps, rounded down, made from the summaries at calibration; `public_grid` leaves few
of them. It answers every later question (sets at any alpha, p-values, a report's slider).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats, Integers, rising, shares_of
from fedconformal._base.groups import ALL
from fedconformal.errors import InputError

MAX_POINTS = 1024
USUAL_ALPHAS = [Fraction(i, 100) for i in range(1, 51)] + [Fraction(i, 1000) for i in (1, 2, 5, 25)]
"""The promise curve is exact at these."""


class CurveFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A promise curve as it is in a file."""

    thresholds: list[float]
    promised: list[Annotated[int, msgspec.Meta(ge=0, lt=ALPHA_UNIT)]]

    def built(self) -> PromiseCurve:
        """Check it."""
        return PromiseCurve(np.array(self.thresholds), np.array(self.promised, dtype=np.int64))


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
        found: Floats = self._p_values[np.searchsorted(self.thresholds, scores, side="left")]
        return found

    @cached_property
    def _p_values(self) -> Floats:
        """The p-value between each two thresholds; a server asks for them with every row."""
        return (ALPHA_UNIT - np.append(0, self.promised)) / ALPHA_UNIT


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
                f"have {scores.shape[1]} classes, the predictor has thresholds for {len(self.of_class)}",
                where="probabilities",
            )
        found = np.ones_like(scores)
        for label, curve in enumerate(self.of_class):
            if curve is not None:
                found[:, label] = curve.p_values(scores[:, label])
        return found


@dataclass(frozen=True, eq=False)
class GroupCurves:
    """A promise curve for every group, or curves by class for each; a row is promised the most of its groups.

    >>> curves = [PromiseCurve(np.array([q]), np.array([9 * 10**14])) for q in (0.2, 0.7)]
    >>> curves = GroupCurves(dict(zip(["all rows", "sex=F"], curves, strict=True)))
    >>> curves.threshold(Fraction(1, 10))
    array([0.2, 0.7])
    >>> curves.p_values(np.array([[0.5], [0.5]]), {"all rows": np.array([0, 1]), "sex=F": np.array([1])})
    array([[0.1],
           [1. ]])
    """

    of_group: Mapping[str, PromiseCurve | ClassCurves]

    def to_dict(self) -> list[Any]:
        """Write for JSON, in the order of the groups in the certificate."""
        return [curve.to_dict() for curve in self.of_group.values()]

    def threshold(self, alpha: Fraction) -> Floats:
        """Return every group's smallest threshold that promises 1 - alpha, or +inf; or a row of these for each."""
        return np.array([curve.threshold(alpha) for curve in self.of_group.values()])

    def p_values(self, scores: Floats, members: Mapping[str, Integers]) -> Floats:
        """Return the p-values of (n, J) scores: the largest over the groups of a row, as its threshold is the largest.

        `members` says which rows are in each group; every row is in one at least.
        """
        found = np.zeros_like(scores)
        for group, mine in members.items():
            found[mine] = np.maximum(found[mine], self.of_group[group].p_values(scores[mine]))
        return found


@dataclass(frozen=True, eq=False)
class EndCurves:
    """A promise curve for each end of an interval; the lower one is of the scores times -1.

    >>> curve = PromiseCurve(np.array([0.2, 0.7]), np.array([5 * 10**14, 9 * 10**14]))
    >>> EndCurves(lower=curve, upper=curve, share=Fraction(1, 2)).threshold(Fraction(1, 5))
    (-0.7, 0.7)
    """

    lower: PromiseCurve
    upper: PromiseCurve
    share: Fraction
    """Of alpha, for the lower end."""

    def to_dict(self) -> dict[str, Any]:
        """Write for JSON."""
        return {"curve": self.upper.to_dict(), "lower": self.lower.to_dict()}

    def threshold(self, alpha: Fraction) -> tuple[float, float]:
        """Return both thresholds, whose ends together promise 1 - alpha."""
        missed = shares_of(alpha, self.share)
        return 0.0 - self.lower.threshold(missed[0]), self.upper.threshold(missed[1])


class SiteFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The promise curve of a site as it is in a file, or the curves of both ends of its intervals."""

    curve: CurveFields
    lower: CurveFields | None = None

    def built(self, share: Fraction | None) -> PromiseCurve | EndCurves:
        """Check it; `share` of alpha is the lower end's, where there are two."""
        if (share is None) != (self.lower is None):
            raise InputError("the predictor is malformed: its promise curves are not those of the score's ends")
        upper = self.curve.built()
        return upper if self.lower is None or share is None else EndCurves(self.lower.built(), upper, share)


def fields_of(curve: AnyCurve, sites: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write a curve for a file, and those of the sites in the order of the certificate."""
    found = curve.to_dict() if isinstance(curve, EndCurves) else {"curve": curve.to_dict()}
    return found if sites is None else {**found, "sites": [fields_of(own) for own in sites.values()]}


SetCurve = PromiseCurve | ClassCurves | GroupCurves
"""What a predictor of sets can have."""

AnyCurve = SetCurve | EndCurves
"""What a calibration can give."""


def read_curve(found: CurveFields | Sequence[Any], groups: Sequence[str] | None = None) -> SetCurve:
    """Rebuild what `to_dict` wrote; with the names of the groups, if it is by group."""
    if groups is not None:
        curves = [None if one is None else read_curve(one) for one in found] if isinstance(found, Sequence) else []
        by_name = dict(zip(groups, curves, strict=False))
        if len(by_name) == len(curves) == len(groups) and ALL in by_name:
            of_group = {name: one for name, one in by_name.items() if isinstance(one, PromiseCurve | ClassCurves)}
            widths = {len(one.of_class) if isinstance(one, ClassCurves) else 0 for one in of_group.values()}
            if len(of_group) == len(groups) and len(widths) == 1:
                return GroupCurves(of_group)
        raise InputError("the promise curves are not one for each group, all rows among them, or differ in classes")
    if isinstance(found, CurveFields):
        return found.built()
    if not all(one is None or isinstance(one, CurveFields) for one in found):
        raise InputError("the promise curves are by group, and the certificate is not")
    return ClassCurves([None if one is None else one.built() for one in found])


def in_units(coverage: Fraction) -> int:
    """Round promised coverage down to a whole multiple of 1e-15."""
    return coverage.numerator * ALPHA_UNIT // coverage.denominator
