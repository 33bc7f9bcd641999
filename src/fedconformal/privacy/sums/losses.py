"""Loss curves through sums: the same search, over the thresholds of a public grid in place of cells of scores.

The kept part of all rows, sum_i (1 - L_i(t)/B) in units of a row, rises along the grid as losses fall; its increments
are a histogram of rows that count in part. Losses that may rise have no such search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedconformal._base.arrays import ALPHA_UNIT, Floats
from fedconformal._base.float_bits import Keys
from fedconformal.calibration.curve import as_limit
from fedconformal.calibration.risk import may_rise
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee
from fedconformal.guarantees.guarantee import Counts, check_unit, whole_type
from fedconformal.guarantees.pac import LearnThenTest
from fedconformal.privacy.sums.messages import Invite, Losses
from fedconformal.privacy.sums.radix import LEAST, Counted, Rounds, Search, SumTarget, summable
from fedconformal.summaries import Provenance
from fedconformal.summaries.losses import UNIT, LossSummary, grid_of


@dataclass(frozen=True)
class LossRounds(Rounds):
    """The rounds of a search over a grid of thresholds; a row weighs as many units as make one."""

    grid: bytes = b""

    @cached_property
    def thresholds(self) -> Floats:
        """The thresholds of the grid."""
        return np.frombuffer(self.grid, dtype="<f8")

    @property
    def bits(self) -> int:
        """How many bits tell all thresholds apart."""
        return bits_of(self.grid)

    @property
    def exact(self) -> bool:
        """Whether the search goes on to a single threshold, however few rows change there."""
        return self.least is None and sum(self.widths) == self.bits

    def histogram(self, search: Search, keys: Keys) -> Counted:
        """Add up what the rows of a site keep more in each part of the thresholds that start with the digits found.

        >>> grid = np.arange(4.0).tobytes()
        >>> rounds = LossRounds((1, 1), SumTarget(target=UNIT, most=2 * UNIT, unit=UNIT), grid=grid)
        >>> rounds.histogram(Search(1, 1), np.array([5, 0, 2, 7], dtype=np.uint64))
        array([2, 7], dtype=uint32)
        """
        width = self.widths[search.number]
        digits = np.arange(len(keys)) >> self.bits - sum(self.widths[: search.number + 1])
        inside = digits >> width == search.digits
        found: Counted = np.zeros(1 << width, dtype=np.uint64)
        part = digits[inside] & (1 << width) - 1 | (1 << min(search.joined, width)) - 1
        np.add.at(found, part, keys[inside])
        return found.astype(self.dtype)

    def _edge(self, number: int, digits: int) -> float:
        """Return the last threshold of a part of the grid."""
        last = (digits + 1 << self.bits - sum(self.widths[:number])) - 1
        return float(self.thresholds[min(last, len(self.thresholds) - 1)])


def bits_of(grid: bytes) -> int:
    """Return how many bits tell the thresholds of a grid apart.

    >>> [bits_of(bytes(8 * points)) for points in (1, 2, 8, 9)]
    [1, 1, 3, 4]
    """
    return max(1, (len(grid) // 8 - 1).bit_length())


def steps_of(grid: bytes, *, exact: bool = False) -> tuple[tuple[int, ...], int | None]:
    """Return in how many parts each round splits the grid, in bits, and of how few rows no part is split further.

    >>> steps_of(bytes(8 * 1000))
    ((3, 3, 3, 1), 50)
    """
    whole, rest = divmod(bits_of(grid), 3)
    return (3,) * whole + (rest,) * (rest > 0), None if exact else LEAST


def limit_of(terms: Losses) -> Fraction:
    """Return the limit of an invitation, which may be hostile."""
    Provenance(bound=terms.bound, grid=terms.grid)
    return as_limit(terms.limit, terms.bound)


def loss_rounds(invite: Invite, guarantee: Guarantee, sizes: Counts) -> LossRounds:
    """Return the rounds of a session for loss curves."""
    terms = invite.losses
    if terms is None:
        raise InputError("the session is not for losses")
    limit, rows = limit_of(terms), sum(sizes)
    target = kept_needed(guarantee, sizes, limit / Fraction(terms.bound)) if rows else 1
    wanted = SumTarget(target=target, most=max(1, rows * UNIT), unit=UNIT)
    return LossRounds(tuple(invite.widths), wanted, invite.least, grid=terms.grid)


def kept_needed(guarantee: Guarantee, sizes: Counts, share: Fraction) -> int:
    """Return how many units of all rows have to be kept so that at most this share is promised to be lost.

    One more than there are if even all are not enough.

    >>> from fedconformal import Mixture
    >>> kept_needed(Mixture(), [10, 20], Fraction(1, 2)) / UNIT  # half of 30 rows and two that lose all
    16.0
    """
    check_losses(guarantee)
    _, promise = guarantee.grouped(sizes, UNIT)
    low, high = -1, sum(sizes) * UNIT + 1
    while high - low > 1:
        middle = (low + high) // 2
        (promised,) = promise(np.array([[middle]], dtype=whole_type(high)))
        low, high = (low, middle) if 1 - promised <= share else (middle, high)
    return high


def check_losses(guarantee: Guarantee) -> None:
    """Refuse guarantees that one sum of losses does not serve."""
    summable(guarantee)
    if isinstance(guarantee, LearnThenTest):
        raise InputError("learn-then-test needs the losses at every threshold, and sums show a few; use pac")
    check_unit(guarantee)


def check_terms(provenance: Provenance, terms: Losses | None, label: str) -> None:
    """Refuse scores where losses are asked for, losses where scores are, and losses of another kind."""
    if (terms is None) != (provenance.grid is None):
        has, asked = ("scores", "losses") if terms is not None else ("losses", "scores")
        raise InputError(f"{label} has {has}, and the session is for {asked}")
    if terms is None:
        return
    expected = Provenance(loss=provenance.loss, bound=terms.bound, grid=terms.grid)
    mine = Provenance(loss=provenance.loss, bound=provenance.bound, grid=provenance.grid)
    if difference := expected.difference(mine):
        raise InputError(f"the session and {label} do not go together: {difference}")
    if may_rise(provenance):
        raise InputError(f"{label} has losses that may rise along the grid, and a search needs losses that fall")


def kept_more(summary: LossSummary) -> Any:
    """Return what a site's rows keep more at each threshold than at the one before, in units."""
    if may_rise(summary.provenance):
        raise InputError(f"{summary} has losses that may rise along the grid, and a search needs some that fall")
    return np.diff(summary.n * UNIT - summary.units, prepend=0).astype("<u8")


def promised_risks(provenance: Provenance, threshold: float, limit: Fraction) -> tuple[Floats, tuple[int, ...]]:
    """Return the grid and what is known to be promised at each threshold: the limit from the one that was found on."""
    grid, bound = grid_of(provenance), Fraction(provenance.bound or 0)
    return grid, tuple(math.ceil((limit if t >= threshold else bound) * ALPHA_UNIT) for t in grid.tolist())
