"""Loss curves: sums of a site's losses at each threshold of a grid, in fixed point, rounded up.

A loss is in [0, B] and non-increasing in the threshold. Sums suffice to bound its mean: sum_i (1 - L_i(t)/B) is a count
of rows, some of them fractional (Angelopoulos et al., "Conformal risk control", 2022, for one site). Sums are multiples
of B / 2^20 and never too small:

- every loss is split, exactly, into a multiple of 2^-30 of a power of two above B, and a remainder;
- the multiples add up without error, as they stay below 2^62;
- a float sum s' of n remainders >= 0, in any order, has s <= s' / (1 - u)^(n - 1) <= s' (1 + n 2^-52), u = 2^-53
  (Higham, "Accuracy and stability of numerical algorithms", 2002, section 4.2; n u is below 1/2 as n <= 2^32);
- both are added in exact fractions and rounded up once.

Multiples of 2^-30, such as 0 and 1, are exact; other losses cost one unit, a millionth of a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_array, rising
from fedconformal._base.names import abbreviate, as_name
from fedconformal.errors import InputError
from fedconformal.summaries import format as wire
from fedconformal.summaries.provenance import Provenance, as_bound, grid_bytes
from fedconformal.summaries.summary import Content, Summary, provenance_of

UNIT = 2**20
"""Units of a row with the largest loss."""
FINE = 30
"""Losses are split at this number of bits below a power of two above the bound."""
BLOCK = 2**14
"""Losses per block, which fits the cache."""
NO_SCORES = "loss curves have no scores; calibrate them with risk="


class _Named:
    """Defines the name in a base class, so that it is not registered as a kind of scores."""

    name, counted = "losses", "rows"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LossSummary(_Named, Summary):
    """Sums of the losses of one site, or of several pooled sites, at every threshold of a grid.

    `summarize` with `loss` and `LossSummary.of_losses` create it.

    Examples
    --------
    >>> site = LossSummary.of_losses([[1, 0.5, 0], [1, 1, 0.25]], thresholds=[1, 2, 3], site="clinic-a")
    >>> site, site.mean_losses
    (<losses summary of 2 rows from site 'clinic-a'>, array([1.   , 0.75 , 0.125]))
    """

    units: Integers
    """Sum of the losses at each threshold, in units of bound / 2^20."""
    gap: int = 1
    """Upper bound on the rounding of the sums, in units: the number of times that they were rounded up."""

    @classmethod
    def of_losses(
        cls,
        losses: ArrayLike,
        *,
        thresholds: ArrayLike,
        bound: float = 1,
        site: str | None = None,
        loss: Any = None,
        rising: bool = False,
        skipped: int = 0,
        **provenance: Any,
    ) -> Self:
        """Summarise precomputed losses; `fedconformal.summarize` computes them with `loss`.

        Parameters
        ----------
        losses
            Array of shape (n, G), one column per threshold, with values from 0 to `bound`.
        thresholds, bound
            The grid and the largest loss, fixed beforehand and the same at all sites.
        site
            Name of the site.
        loss
            The loss, or its name and parameters.
        rising
            Whether losses may rise along the grid, which few guarantees support.
        skipped
            Number of rows omitted because of a missing value.
        provenance
            Other fields of `Provenance`: model, calibration, expires, estimated, trained.

        Examples
        --------
        >>> LossSummary.of_losses([[1, 0], [0.5, 0.25]], thresholds=[0.1, 0.2]).mean_losses
        array([0.75 , 0.125])
        """
        origin = provenance_of(
            loss=getattr(loss, "described", loss),
            bound=as_bound(bound),
            grid=grid_bytes(thresholds),
            rising=rising or not getattr(loss, "monotone", True),
            **provenance,
        )
        sites = () if site is None else (as_name(site, "site"),)
        rows, units = added_up(losses, origin)
        return cls(units=units, sizes=(rows,), sites=sites, provenance=origin, skipped=skipped)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n > wire.MAX_SIZE:
            raise InputError(f"loss curves of {self.n} rows are too many for one message; send one summary per site")

    @property
    def bound(self) -> float:
        """Largest loss of a row."""
        return as_bound(self.provenance.bound)

    @cached_property
    def grid(self) -> Floats:
        """The thresholds."""
        return grid_of(self.provenance)

    @property
    def mean_losses(self) -> Floats:
        """Mean loss at each threshold, up to the rounding of the sums."""
        return self.units.astype(np.float64) * (self.bound / UNIT / self.n)

    @property
    def points(self) -> Floats:
        raise InputError(NO_SCORES, param="risk")

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        raise InputError(NO_SCORES, param="risk")

    @classmethod
    def merge(cls, parts: Sequence[Self], **about: Any) -> Self:
        units: Integers = np.sum([part.units for part in parts], axis=0)
        return cls(units=units, gap=sum(part.gap for part in parts), **about)

    def content(self) -> Content:
        """Encode only the thresholds at which sums change, if these are fewer than half."""
        places = np.flatnonzero(np.diff(self.units, prepend=self.n * UNIT))
        arrays = [places, self.units[places]] if 2 * len(places) < len(self.units) else [self.units]
        return Content(arrays, numbers=(self.gap,))

    @classmethod
    def from_content(cls, content: Content, **about: Any) -> Self:
        """Validate that there is one sum per threshold, within the bound and non-increasing unless `rising`."""
        points, most = len(grid_of(about["provenance"])), sum(about["sizes"]) * UNIT
        content.expect(arrays=2 if len(content.arrays) == 2 else 1, numbers=1)
        gap, sums = content.numbers[0], content.counts(-1, "sums")
        if type(gap) is not int or not 1 <= gap <= wire.MAX_SIZE:
            raise InputError(f"the summary's sums were rounded {abbreviate(gap)} times, expected 1 to {wire.MAX_SIZE}")
        places = content.counts(0, "places") if len(content.arrays) == 2 else np.arange(points)
        if len(places) != len(sums) or not rising(places) or (len(places) and places[-1] >= points):
            raise InputError(f"the summary has {len(sums)} sums for {points} thresholds")
        sums = np.append(most, sums)[np.searchsorted(places, np.arange(points), side="right")]
        if sums.max() > most:
            raise InputError("the summary's losses exceed their bound")
        if not about["provenance"].rising and not (sums[1:] <= sums[:-1]).all():
            raise InputError("the summary's losses rise along the grid")
        return cls(units=sums, gap=gap, **about)


def grid_of(provenance: Provenance) -> Floats:
    """Return the thresholds of loss curves."""
    return np.frombuffer(provenance.grid or b"", dtype="<f8").astype(np.float64, copy=False)


def added_up(losses: ArrayLike, provenance: Provenance) -> tuple[int, Integers]:
    """Validate losses, and return the number of rows and the sums in units, rounded up."""
    grid, bound = grid_of(provenance), as_bound(provenance.bound)
    array = as_array(losses, "losses")
    if array.ndim != 2 or array.shape[1] != len(grid) or not len(array):
        problem = f"have shape {array.shape}, expected a row or more, and a column for each of {len(grid)} thresholds"
        raise InputError(problem, where="losses")
    exponent = math.frexp(bound)[1]  # the bound is below 2^exponent
    scale = math.ldexp(1.0, FINE - exponent)
    whole, rest = np.zeros(array.shape[1], dtype=np.int64), np.zeros(array.shape[1])
    step = max(1, BLOCK // array.shape[1])
    parts, wholes = np.empty((2, min(step, len(array)), array.shape[1]))
    for start in range(0, len(array), step):
        block = np.ascontiguousarray(array[start : start + step], dtype=np.float64)
        check_losses(block, bound, start, grid, rising=provenance.rising)
        part, floor = parts[: len(block)], wholes[: len(block)]
        np.floor(np.multiply(block, scale, out=part), out=floor)
        part -= floor
        whole += floor.sum(axis=0).astype(np.int64)
        rest += part.sum(axis=0)
    rows = len(array)
    factor = Fraction(UNIT) * Fraction(2) ** (exponent - FINE) / Fraction(bound)
    margin = 1 + Fraction(rows, 2**52)
    # A sum of losses is at most n B. Sums of non-increasing losses are non-increasing, so a bound holds further on.
    bounds = [
        min(rows * UNIT, math.ceil((multiple + Fraction(remainder) * margin) * factor))
        for multiple, remainder in zip(whole.tolist(), rest.tolist(), strict=True)
    ]
    units = np.array(bounds, dtype=np.int64)
    return rows, units if provenance.rising else np.minimum.accumulate(units)


def check_losses(block: Floats, bound: float, start: int, grid: Floats, *, rising: bool) -> None:
    """Refuse losses that are not finite, out of bounds, or rise unless `rising`; `start` numbers the first row."""
    if rising:
        sound = block.min() >= 0 and block.max() <= bound
    else:  # the first loss of a row is the largest; comparisons with NaN are false
        sound = block[:, 0].max() <= bound and block[:, -1].min() >= 0 and (block[:, 1:] <= block[:, :-1]).all()
    if sound:
        return
    outside = ~((block >= 0) & (block <= bound))
    row, column = np.argwhere(outside if outside.any() else np.diff(block, prepend=bound) > 0)[0].tolist()
    at = f"{block[row, column]:g} at threshold {grid[column]:g}"
    if outside.any():
        problem = f"is {at}, expected a finite loss from 0 to the bound {bound:g}"
    else:
        problem = f"rises from {block[row, column - 1]:g} to {at}; they must fall along the grid"
    raise InputError(problem, where="losses", row=start + row)
