"""Very many summaries as columns: the counts of all of them at a threshold, without sorting them together.

Every summary's own points are in ascending order, so the points between two thresholds are one stretch of each.
A third threshold in between splits every stretch, by bisecting all of them side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from fedconformal._base.arrays import Floats, Integers


class Stackable(Protocol):
    """What has points, and lower counts that are reached at them."""

    @property
    def points(self) -> Floats:
        """The scores at which the lower count rises, in ascending order."""
        ...

    @property
    def reached(self) -> Integers:
        """The lower count at each point."""
        ...

    def bounds(self, q: Floats) -> tuple[Integers, Integers]:
        """Bound the number of scores <= q."""
        ...


class Stack:
    """The points of all summaries, one summary after the other, and the counts that are reached at them.

    >>> from fedconformal import summarize
    >>> stack = Stack([summarize([0.1, 0.2, 0.3]), summarize([0.2, 0.4])])
    >>> stack.counts(stack.everything.split(np.array([0.1, 0.25])))
    array([[1, 2],
           [0, 1]])
    """

    def __init__(self, summaries: Sequence[Stackable]) -> None:
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

    def __len__(self) -> int:
        """Return the number of summaries."""
        return len(self.ends)

    @property
    def everything(self) -> Stretch:
        """All points."""
        return Stretch(self, self.starts, self.ends)

    def counts(self, after: Integers) -> Integers:
        """Return every summary's lower count, where the first point above the threshold is at `after`."""
        counts: Integers = self._table[after + (self._shift if after.ndim == 1 else self._shift[:, None])]
        return counts

    def rises(self, place: Integers, owner: Integers) -> Integers:
        """By how much the count of the summary that owns it rises at each of these points."""
        place = place + self._shift[owner]
        return self._table[place + 1] - self._table[place]

    def owners(self) -> Integers:
        """Return which summary each point belongs to."""
        return np.repeat(np.arange(len(self)), self.ends - self.starts)


@dataclass(frozen=True, eq=False)
class Stretch:
    """The points between two thresholds: of every summary those from `first` up to before `last`."""

    stack: Stack
    first: Integers
    last: Integers

    @cached_property
    def lengths(self) -> Integers:
        """How many points of each summary."""
        return self.last - self.first

    @cached_property
    def size(self) -> int:
        """How many points in all."""
        return int(self.lengths.sum())

    def sample(self, most: int) -> tuple[Floats, Integers]:
        """Return all points, or an even choice if there are more than `most`, and how much the counts rise at each."""
        upto = np.cumsum(self.lengths)
        chosen = np.arange(min(most, self.size)) * self.size // min(most, self.size)
        owner = np.searchsorted(upto, chosen, side="right")
        place = self.last[owner] - upto[owner] + chosen
        return self.stack.values[place], self.stack.rises(place, owner)

    def split(self, thresholds: Floats) -> Integers:
        """Return where the first point above each of these thresholds is, for every summary."""
        after = np.repeat(self.first[:, None], len(thresholds), axis=1)
        open_ = np.flatnonzero(self.lengths)
        if not len(open_):
            return after
        here, last = after[open_], self.last[open_, None]
        step = 1 << (int(self.lengths.max()).bit_length() - 1)
        while step:  # forward by ever smaller steps, wherever what is stepped over is not above
            ahead = here + step
            passed = self.stack.values.take(ahead - 1, mode="clip") <= thresholds
            passed &= ahead <= last
            here += step * passed
            step //= 2
        after[open_] = here
        return after
