"""Has anything changed at this site? Bets against "new scores are like the calibration scores".

Each new score gets a smoothed p-value among the calibration scores and all earlier new ones. While all are
exchangeable, these p-values are independent and uniform, whatever the scores are, and `bets.py` bets against that.
Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2nd edition, 2022, chapter 8.

With top-label scores it needs no labels, so it speaks earlier; then the calibration scores are top-label scores too.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_scores
from fedconformal._base.names import shown
from fedconformal.errors import InputError
from fedconformal.monitoring.bets import Bets
from fedconformal.monitoring.state import is_count, opened, sealed

BLOCK = 32
"""New scores that are ranked among themselves at first: all pairs of them are compared."""

MAGIC = b"FCD1"

State = tuple[Annotated[int, msgspec.Meta(ge=0)], float, Annotated[int, msgspec.Meta(ge=0)], Bets, bytes]


def _compared(old: Floats, new: Floats) -> tuple[Integers, Integers]:
    """Count for each new score how many are above it, and how many equal, of the old ones and of those before it."""
    order, count = np.argsort(new, kind="stable"), np.arange(len(new))
    ordered = new[order]
    below, upto = (np.searchsorted(old, ordered, side=side) for side in ("left", "right"))
    begins = np.append(True, ordered[1:] != ordered[:-1])
    rank, above, equal = np.empty_like(count), np.empty_like(count), np.empty_like(count)
    rank[order] = count
    above[order] = len(old) - upto
    equal[order] = upto - below + count - np.maximum.accumulate(np.where(begins, count, 0))
    return above + _larger_before(rank), equal


def _larger_before(rank: Integers) -> Integers:
    """Count for each of the different numbers from 0 how many before it are larger, by blocks that double in size."""
    size = max(BLOCK, 1 << (len(rank) - 1).bit_length())
    runs = np.append(rank, np.arange(len(rank), size)).reshape(-1, BLOCK)
    found = np.empty(size, dtype=np.int64)
    found[runs] = (np.tri(BLOCK, k=-1, dtype=np.bool_) & (runs[:, None, :] > runs[:, :, None])).sum(axis=2)
    runs, width = np.sort(runs, axis=1), BLOCK
    while width < size:
        first, second = runs[::2], runs[1::2]
        pair = np.arange(len(first))[:, None]
        place = np.searchsorted((first + size * pair).ravel(), (second + size * pair).ravel())  # all at once
        found[second] += width * (pair + 1) - place.reshape(second.shape)
        width *= 2
        runs = np.sort(runs.reshape(-1, width), axis=1, kind="stable")  # which merges two runs
    return found[rank]


C = TypeVar("C", bound="ChangeDetector")


@dataclass(frozen=True, eq=False, repr=False)
class ChangeDetector:
    """The bets so far, and the scores that new ones are ranked among; `update` returns the next state.

    Attributes:
        scores: the site's calibration scores, and all new ones so far, in ascending order.
        random_state: the seed of the draws that break ties.
        every: the least mean number of rows from one false alarm to the next.

    >>> rng = np.random.default_rng(1)
    >>> watch = ChangeDetector(rng.random(500), random_state=0).update(rng.random(200))
    >>> watch, watch.update(rng.random(100) + 0.5)
    (<no change in 200 rows>, <alarm at row 204: changed since row 199>)
    """

    scores: Any
    random_state: int = 0
    every: float = 1000.0
    rows: int = 0
    bets: Bets = field(default_factory=Bets)

    def __post_init__(self) -> None:
        values = as_scores(self.scores)
        values.sort()
        object.__setattr__(self, "scores", values)
        if not is_count(self.random_state):
            raise InputError(f"random_state is {shown(self.random_state)}, expected a whole number from 0")
        if not math.isfinite(self.every) or self.every <= 1:
            raise InputError(f"every is {shown(self.every)}, expected a number of rows above 1")
        if not 0 <= self.rows < len(values):
            raise InputError(f"{self.rows} new rows, and {len(values)} scores in all: there is no calibration score")
        if not self.bets.after(self.rows):
            raise InputError(f"the bets are not those after {self.rows} rows")

    def update(self, new_scores: ArrayLike) -> Self:
        """Add the scores of new rows, in the order in which they came."""
        new = as_scores(new_scores) if np.size(new_scores) else np.empty(0)
        if not len(new):
            return self
        bets = self.bets.placed(self.p_values(new), self.rows, self.every)
        together = np.concatenate([self.scores, new])
        together.sort(kind="stable")  # which merges two runs
        found = copy(self)  # and not a new one, which would check and sort all scores again
        for name, value in {"scores": together, "rows": self.rows + len(new), "bets": bets}.items():
            object.__setattr__(found, name, value)
        return found

    def p_values(self, new: Floats) -> Floats:
        """Return the smoothed p-value of each new score among the calibration scores and all before it."""
        above, equal = _compared(self.scores, new)
        draws = np.random.Generator(np.random.PCG64(self.random_state).advance(self.rows)).random(len(new))
        ties = (equal + 1) * draws
        return (above + ties) / (len(self.scores) + np.arange(1, len(new) + 1))

    @property
    def log_e_value(self) -> float:
        """The evidence that anything has changed since the start."""
        return math.log(math.fsum(self.bets.stakes)) + self.bets.doublings * math.log(2)

    @property
    def detector(self) -> float:
        """The evidence that something has changed at some row."""
        return math.fsum(self.bets.detectors) / len(self.bets.detectors)

    @property
    def alarm_at(self) -> int | None:
        """The row at which the detector first reached `every`."""
        return self.bets.alarm_at

    @property
    def since(self) -> int | None:
        """The last row before the change, as far as the bet that noticed it can tell; None without an alarm."""
        return self.bets.since

    @property
    def begun(self) -> int:
        """The number of rows before the run of the bet that wins most now: where a change began, if there is one."""
        return self.bets.starts[max(range(len(self.bets.starts)), key=lambda bet: self.bets.detectors[bet])]

    def to_bytes(self) -> bytes:
        """Write the state, eight bytes a score; to go on from it gives the same bits."""
        return sealed(MAGIC, (self.random_state, self.every, self.rows, self.bets, self.scores.astype("<f8").tobytes()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a state, which may be hostile."""
        return opened(MAGIC, data, partial(_rebuilt, cls), "a change detector")

    def __repr__(self) -> str:
        if self.alarm_at is None:
            return f"<no change in {self.rows} rows>"
        return f"<alarm at row {self.alarm_at}: changed since row {self.since}>"


def _rebuilt(cls: type[C], content: bytes) -> C:
    seed, every, rows, bets, scores = msgspec.msgpack.decode(content, type=State)
    if len(scores) % 8:
        raise InputError(f"the scores have {len(scores)} bytes, not a multiple of 8")
    return cls(np.frombuffer(scores, dtype="<f8").astype(np.float64), seed, every, rows, bets)
