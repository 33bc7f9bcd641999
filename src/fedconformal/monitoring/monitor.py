"""Is the promise still kept? A watch over misses that may be read at any time, with a stated chance of a false alarm.

Each row is covered or missed. If sets miss at most `limit` of independent rows, the e-value of `beta.py` ever reaches
1 / false_alarm with probability false_alarm at most (Ville, 1939). It may be read after every row, and watching may
stop or go on as anybody likes. A calibration itself may be unlucky: `Monitor.of` watches a_b, which this calibration
exceeds with probability `failure` at most, so that false alarms ever have probability false_alarm + failure at most.
Watching alpha itself raises several times as many.

Rows whose outcome is not known yet count as covered. So nothing is claimed too early, also if labels of missed rows
come sooner than those of others: E with some misses still unknown is never above E with all of them known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Floats
from fedconformal._base.names import shown
from fedconformal.errors import InputError
from fedconformal.monitoring.beta import at_most, log_e, rates
from fedconformal.monitoring.state import MOST_ROWS, is_count, opened, sealed

if TYPE_CHECKING:
    from fedconformal.calibration.document import Document
    from fedconformal.summaries import Summary

MAGIC = b"FCW1"

LEAST = 1e-9
"""Limits and false alarms nearer to 0 or 1 are refused: E is shown to be exact up to here."""

Rows = Annotated[int, msgspec.Meta(ge=0, le=MOST_ROWS)]


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """Counts of misses and hits, and what they say of a limit on the miss rate; `update` returns the next state.

    Attributes:
        limit: how often rows may be missed while the promise holds.
        false_alarm: how often an alarm is ever raised while rows are missed at most that often.
        failure: how often a calibration is so unlucky that the limit does not hold; it adds to false alarms.
        known: rows with a known outcome.
        misses: how many of them are missed; or their losses, each divided by the bound, added up.
        waiting: rows whose outcome is not known yet.
        alarm_at: the number of known rows at which the alarm was raised; None if it was not.

    >>> watch = Monitor(limit=0.1, false_alarm=0.05).update(misses=[0, 1, 0, 0, 1, 1, 0, 1])
    >>> round(watch.e_value, 8), watch.alarm, watch.alarm_at, watch.rows
    (20.44154175, True, 8, 8)
    >>> watch.update(waiting=30).e_value < 1 < watch.e_value
    True
    """

    limit: float
    false_alarm: float = 0.025
    failure: float = 0.0
    known: Rows = 0
    misses: float = 0.0
    waiting: Rows = 0
    alarm_at: Rows | None = None

    def __post_init__(self) -> None:
        for name in ("limit", "false_alarm"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.floating) or not LEAST <= value <= 1 - LEAST:
                raise InputError(f"{name} is {shown(value)}, expected a number from {LEAST} to 1 - {LEAST}")
            object.__setattr__(self, name, float(value))
        if not 0 <= self.failure < 1:
            raise InputError(f"failure is {shown(self.failure)}, expected a number from 0 to below 1")
        counts = (self.known, self.waiting)
        if not all(is_count(n) for n in counts) or not 0 <= self.misses <= self.known or sum(counts) > MOST_ROWS:
            raise InputError(
                f"{shown(self.known)} known rows, {shown(self.misses)} misses, {shown(self.waiting)} waiting: "
                "expected counts of rows, no more misses than rows"
            )
        if self.alarm_at is not None and not (is_count(self.alarm_at) and 1 <= self.alarm_at <= self.known):
            raise InputError(f"alarm_at is {shown(self.alarm_at)}, expected one of the {self.known} known rows")
        object.__setattr__(self, "misses", float(self.misses))

    @classmethod
    def of(
        cls,
        predictor: Document,
        *,
        failure: float = 0.025,
        false_alarm: float = 0.025,
        site: str | None = None,
        summary: Summary | None = None,
    ) -> Self:
        """Watch what a predictor promises to the mixture of its sites; rows must come from them in that mixture.

        The limit is alpha, and what an unlucky calibration explains but with probability `failure`. With `site`, rows
        come from that site alone; where it is not promised coverage by itself, its limit is from its own `summary`.
        """
        from fedconformal.monitoring.limits import limits_of

        found = limits_of(predictor, failure=failure, site=site, summaries=() if summary is None else (summary,))
        if found.several and site is None:
            raise InputError(
                "this predictor gives no limit to watch: it promises coverage to several by themselves; name the site, "
                "or state a limit, Monitor(limit=...)"
            )
        return cls(limit=found.rate, failure=found.failure, false_alarm=false_alarm)

    def update(self, *, misses: ArrayLike = (), waiting: ArrayLike = 0) -> Self:
        """Add rows whose outcomes are new: 1 if missed, 0 if covered, or a loss between 0 and 1.

        `waiting` is how many rows have no outcome yet, now, and not how many more; a row waits until its outcome comes,
        however late. Give outcomes in the order in which the rows came: if those of missed rows came first, the first
        few would look bad. Or give them in the order in which they came themselves, and in `waiting` a list: how many
        rows had none after each of them. Then an alarm is as rare as stated, whatever decides when an outcome comes.

        >>> watch = Monitor(limit=0.1, false_alarm=0.05, waiting=8)
        >>> watch.update(misses=[1, 1, 1, 1, 0, 0, 0, 0], waiting=range(7, -1, -1)).alarm_at  # not at row 2
        4
        """
        new = _outcomes(misses)
        count = np.arange(1.0, len(new) + 1)
        still = np.asarray(waiting)
        if still.shape not in ((), new.shape) or not _are_counts(still):
            raise InputError(f"waiting is {shown(waiting)}, expected a number of rows, or one after each row")
        if not still.ndim and still < self.waiting - len(new):
            raise InputError(
                f"waiting is {still}, but {self.waiting} rows waited and {len(new)} outcomes came: "
                "expected that rows wait until their outcomes come"
            )
        missed = np.cumsum(np.append(self.misses, new))[1:]  # one after the other, so that batches do not matter
        known, alarm_at = self.known + count, self.alarm_at
        if alarm_at is None:  # where one number is given: of the rows that waited before, at most one ends with each
            after = still if still.ndim else np.maximum(still, self.waiting - count)
            place = self.first_alarm(missed, known, after)
            alarm_at = None if place is None else int(known[place])
        total = float(missed[-1]) if len(new) else self.misses
        rows, last = self.known + len(new), int(still.ravel()[-1]) if still.size else self.waiting
        return replace(self, known=rows, misses=total, waiting=last, alarm_at=alarm_at)

    def first_alarm(self, missed: Floats, known: NDArray[Any], waiting: Any) -> int | None:
        """Find where E is first at least 1 / false_alarm, from the counts at each place; E is worked out only there.

        While misses are at most the limit's share E is at most one: no rate above the limit fits better than the limit.
        Elsewhere the whole mixture, not truncated, bounds it from above, and takes no series.
        """
        enough = -math.log(self.false_alarm)
        hits = known - missed + waiting
        place = np.flatnonzero(missed > self.limit * (missed + hits))
        if not len(place):
            return None
        place = place[at_most(missed[place], hits[place], self.limit) >= enough]
        start, step = 0, 64
        while start < len(place):  # mostly the first candidate is it
            some = place[start : start + step]
            above = np.flatnonzero(log_e(missed[some], hits[some], self.limit) >= enough)
            if len(above):
                return int(some[above[0]])
            start, step = start + step, step * 2
        return None

    @property
    def rows(self) -> int:
        """All rows: those with a known outcome, and those that wait."""
        return self.known + self.waiting

    @property
    def log_e_value(self) -> float:
        """The evidence now that more than the limit is missed; rows that wait count as covered."""
        return float(log_e(self.misses, self.known - self.misses + self.waiting, self.limit))

    @property
    def e_value(self) -> float:
        """The same, as a number: what a stake of one has become by betting against the promise."""
        return math.exp(min(self.log_e_value, 700.0))

    @property
    def alarm(self) -> bool:
        """Whether the evidence was ever enough."""
        return self.alarm_at is not None

    @property
    def interval(self) -> tuple[float, float]:
        """Bound the miss rate from below and above, at all times at once, but with probability `false_alarm`.

        Rows that wait count as covered for the lower end and as missed for the upper one.
        """
        hits = self.known - self.misses
        low, high = rates([self.misses, hits], [hits + self.waiting, self.misses + self.waiting], self.false_alarm)
        return float(low), 1 - float(high)

    def to_bytes(self) -> bytes:
        """Write the state; to go on from it gives the same bits."""
        return sealed(MAGIC, self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a state, which may be hostile."""
        return opened(MAGIC, data, lambda content: msgspec.msgpack.decode(content, type=cls), "a monitor")


def _outcomes(misses: ArrayLike) -> Floats:
    try:
        new = np.asarray(misses, dtype=np.float64)
    except (TypeError, ValueError):
        new = np.array([np.nan])
    if new.ndim != 1 or not ((new >= 0) & (new <= 1)).all():
        raise InputError("misses: expected a list with 1 for a missed row, 0 for a covered one, or a loss in between")
    return new


def _are_counts(numbers: NDArray[Any]) -> bool:
    if not numbers.size:
        return True
    return numbers.dtype.kind in "iu" and is_count(int(numbers.min())) and is_count(int(numbers.max()))
