"""E-process of a watch: evidence that the miss rate exceeds a limit, valid at any stopping time.

If independent rows are missed with probability at most `limit`, the e-value ever reaches 1 / false_alarm with
probability at most false_alarm (Ville, 1939). It may be read after every row, and monitoring may stop at any time.

The e-value is a mixture of bets on miss rates p > a, with p distributed as Beta(1/2, 1/2) truncated to (a, 1). After S
misses and F hits

    E = B(S + 1/2, F + 1/2) I_{1-a}(F + 1/2, S + 1/2) / (2 acos(sqrt a) a^S (1 - a)^F).

Robbins, "Statistical methods related to the law of the iterated logarithm", 1970; Howard, Ramdas, McAuliffe and Sekhon,
"Time-uniform, nonparametric, nonasymptotic confidence sequences", 2021.

Rows without an outcome count as covered: E with some misses still unknown is never above E with all of them known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Floats
from fedconformal._base.names import abbreviate
from fedconformal.calibration.predictor import Predictor
from fedconformal.errors import InputError
from fedconformal.monitoring.limits import limits_of
from fedconformal.summaries import Summary

MOST_ROWS = 2**50
"""Maximum count, below which floats are exact."""
LEAST = 1e-9
"""Minimum distance of limits and false alarm probabilities from 0 and 1."""
UNDERFLOW = 1e-290
"""Value below which the incomplete beta function has lost digits."""
TINY, BELOW_ONE, STEPS = 1e-150, 1 - 2.0**-53, 100
"""Bounds of rates in logarithms, and the maximum number of Newton's steps."""

ALARM, HOLDS, EARLY = "alarm", "holds", "too early"


def log_e(misses: ArrayLike, hits: ArrayLike, limit: float) -> Floats:
    """Return ln E after these misses and hits, against a miss rate of at most `limit`.

    Where E exceeds one, the error is below 3e-9 up to a million rows and grows in proportion to the rows.

    >>> np.exp(log_e([0, 1, 4], [1, 1, 4], 0.1)).round(9)
    array([ 0.42212036,  1.65575928, 20.44154175])
    >>> float(log_e(5, 5000, 0.3).round(1))
    -8.8
    """
    from scipy import special

    s, f = np.asarray(misses, dtype=np.float64), np.asarray(hits, dtype=np.float64)
    inside = special.betainc(f + 0.5, s + 0.5, 1 - limit)
    # E is small where the incomplete beta function underflows; the integrand falls exponentially from the limit on.
    steepness = 2 * np.maximum(f * limit - s * (1 - limit), 0.5) / math.sqrt(limit * (1 - limit))
    small = -np.log(_angle(limit) * steepness)
    exact = _untruncated(s, f, limit) + np.log(np.maximum(inside, UNDERFLOW))
    return np.where(inside > UNDERFLOW, exact, small)


def _untruncated(s: Floats, f: Floats, limit: float) -> Floats:
    """Return ln E of the mixture over all rates, an upper bound of ln E without an incomplete beta function."""
    from scipy import special

    powers = s * math.log(limit) + f * math.log1p(-limit)
    log_value: Floats = special.betaln(s + 0.5, f + 0.5) - math.log(2 * _angle(limit)) - powers
    return log_value


def _angle(limit: float) -> float:
    """Return acos(sqrt(limit)), accurate for limits near one."""
    return math.atan2(math.sqrt(1 - limit), math.sqrt(limit))


def lower_rate(misses: ArrayLike, hits: ArrayLike, level: float) -> Floats:
    """Return the lower end of a confidence sequence for the miss rate, simultaneously valid except with prob. `level`.

    It is the smallest p with ln B(S + 1/2, F + 1/2) - ln pi - S ln p - F ln(1 - p) < ln(1 / level), rounded down.

    >>> lower_rate([0, 10, 100], [100, 90, 900], 0.05).round(4)
    array([0.    , 0.0291, 0.0689])
    """
    from scipy import special

    s, f = np.broadcast_arrays(np.asarray(misses, dtype=np.float64), np.asarray(hits, dtype=np.float64))
    rate = np.divide(s, s + f, out=np.zeros(s.shape), where=s + f > 0)
    least = special.betaln(s + 0.5, f + 0.5) - math.log(math.pi) + math.log(level)
    excess = special.xlogy(s, rate) + special.xlog1py(f, -np.minimum(rate, BELOW_ONE)) - least
    log_p = np.log(np.maximum(rate, TINY)) - np.minimum(excess / np.maximum(s, TINY), -math.log(TINY)) - 1
    for _ in range(STEPS):  # Newton's steps from below stay below, as the logarithm is convex in ln p
        p = np.minimum(np.exp(log_p), BELOW_ONE)
        lacking = np.maximum(least - s * log_p - special.xlog1py(f, -p), 0)
        step = lacking * (1 - p) / np.maximum(s - (s + f) * p, TINY)
        if not (log_p + step > log_p).any():
            break
        log_p = np.minimum(log_p + step, 0.0)
    return np.where(s > 0, np.minimum(np.exp(log_p), rate), 0.0)


def verdict_of(limit: float, *, alarm: bool, known: float, upper: Callable[[], float]) -> str:
    """Return the verdict on a stream from its limit, alarm, number of outcomes and upper end of the miss rate.

    - *alarm*: the evidence was at least 1 / false_alarm at some time; an alarm is permanent.
    - *holds*: the confidence sequence ends below the limit, with waiting rows counted as missed.
    - *too early*: neither.

    >>> [verdict_of(0.1, alarm=False, known=rows, upper=lambda: 2 / rows**0.5) for rows in (50, 500)]
    ['too early', 'holds']
    """
    if alarm:
        return ALARM
    return HOLDS if known and upper() < limit else EARLY


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """Counts of misses and hits, and the evidence against a limit on the miss rate.

    The miss rate of one calibration is random: `Monitor.of` uses a limit that the calibration exceeds with probability
    at most `failure`, so the probability of any false alarm is at most false_alarm + failure. `update` returns the next
    state.

    Parameters
    ----------
    limit
        Maximum miss rate of the promise.
    false_alarm
        Probability of ever raising an alarm while the miss rate is at most `limit`.
    failure
        Probability that the limit does not hold for this calibration, which adds to that of false alarms.
    known
        Rows with a known outcome.
    misses
        Number of misses among them, or the sum of their losses, each divided by the bound of the loss.
    waiting
        Rows without a known outcome.
    alarm_at
        Number of known rows at which the alarm was raised; None without an alarm.

    Examples
    --------
    >>> watch = Monitor(limit=0.1, false_alarm=0.05).update(misses=[0, 1, 0, 0, 1, 1, 0, 1])
    >>> round(watch.e_value, 8), watch.alarm, watch.alarm_at, watch.rows
    (20.44154175, True, 8, 8)
    >>> watch.update(waiting=30).e_value < 1 < watch.e_value
    True
    """

    limit: float
    false_alarm: float = 0.025
    failure: float = 0.0
    known: int = 0
    misses: float = 0.0
    waiting: int = 0
    alarm_at: int | None = None

    def __post_init__(self) -> None:
        for name in ("limit", "false_alarm"):
            value = getattr(self, name)
            if not isinstance(value, int | float | np.floating) or not LEAST <= value <= 1 - LEAST:
                raise InputError(f"{name} is {abbreviate(value)}, expected a number from {LEAST} to 1 - {LEAST}")
            object.__setattr__(self, name, float(value))
        if not 0 <= self.failure < 1:
            raise InputError(f"failure is {abbreviate(self.failure)}, expected a number from 0 to below 1")
        counts = (self.known, self.waiting)
        if not all(is_count(n) for n in counts) or not 0 <= self.misses <= self.known or sum(counts) > MOST_ROWS:
            known, misses, waiting = map(abbreviate, (self.known, self.misses, self.waiting))
            counts_text = f"{known} known rows, {misses} misses, {waiting} waiting"
            raise InputError(f"{counts_text}: expected counts of rows, no more misses than rows")
        if self.alarm_at is not None and not (is_count(self.alarm_at) and 1 <= self.alarm_at <= self.known):
            raise InputError(f"alarm_at is {abbreviate(self.alarm_at)}, expected one of the {self.known} known rows")
        object.__setattr__(self, "misses", float(self.misses))

    @classmethod
    def of(
        cls,
        predictor: Predictor,
        *,
        failure: float = 0.025,
        false_alarm: float = 0.025,
        site: str | None = None,
        summary: Summary | None = None,
    ) -> Self:
        """Return the monitor of a predictor; rows must come from its sites in the promised mixture.

        The limit is alpha plus a margin for the randomness of one calibration, exceeded with probability `failure`.
        With `site`, all rows come from that site; a site without a promise of its own gets a limit from its `summary`.
        """
        limits = limits_of(predictor, failure=failure, site=site, summaries=() if summary is None else (summary,))
        if len(limits.sites) > 1:
            raise InputError(
                "this predictor gives no limit to watch: it promises coverage to several separately; name the site, "
                "or state a limit, Monitor(limit=...)"
            )
        return cls(limit=limits.rate, failure=limits.failure, false_alarm=false_alarm)

    def update(self, *, misses: ArrayLike = (), waiting: ArrayLike = 0) -> Self:
        """Return the state with new outcomes.

        Parameters
        ----------
        misses
            1 for a missed row, 0 for a covered row, or a loss between 0 and 1, in the order of the rows.
        waiting
            Current number of rows without an outcome, not the increase. Or outcomes are in the order of their arrival,
            and this is the number after each: the false alarm rate then holds for any times of arrival.

        Examples
        --------
        >>> watch = Monitor(limit=0.1, false_alarm=0.05, waiting=8)
        >>> watch.update(misses=[1, 1, 1, 1, 0, 0, 0, 0], waiting=range(7, -1, -1)).alarm_at  # not at row 2
        4
        """
        new = _outcomes(misses)
        count = np.arange(1.0, len(new) + 1)
        still = np.asarray(waiting)
        counts = not still.size or (still.dtype.kind in "iu" and still.min() >= 0 and still.max() <= MOST_ROWS)
        if still.shape not in ((), new.shape) or not counts:
            raise InputError(f"waiting is {abbreviate(waiting)}, expected a number of rows, or one after each row")
        if not still.ndim and still < self.waiting - len(new):
            raise InputError(
                f"waiting is {still}, but {self.waiting} rows waited and {len(new)} outcomes came: "
                "expected that rows wait until their outcomes come"
            )
        missed = np.cumsum(np.append(self.misses, new))[1:]  # sequential, so that batches do not affect the result
        known, alarm_at = self.known + count, self.alarm_at
        if alarm_at is None:  # given a single number, at most one of the waiting rows ends with each
            after = still if still.ndim else np.maximum(still, self.waiting - count)
            place = self.first_alarm(missed, known, after)
            alarm_at = None if place is None else int(known[place])
        total = float(missed[-1]) if len(new) else self.misses
        rows, last = self.known + len(new), int(still.ravel()[-1]) if still.size else self.waiting
        return replace(self, known=rows, misses=total, waiting=last, alarm_at=alarm_at)

    def first_alarm(self, missed: Floats, known: NDArray[Any], waiting: Any) -> int | None:
        """Return the first index at which E is at least 1 / false_alarm, first bounded by the untruncated mixture."""
        enough = -math.log(self.false_alarm)
        hits = known - missed + waiting
        places = np.flatnonzero(missed > self.limit * (missed + hits))
        places = places[_untruncated(missed[places], hits[places], self.limit) >= enough]
        places = places[log_e(missed[places], hits[places], self.limit) >= enough]
        return int(places[0]) if len(places) else None

    @property
    def rows(self) -> int:
        """Number of all rows, with or without a known outcome."""
        return self.known + self.waiting

    @property
    def log_e_value(self) -> float:
        """Current evidence that the miss rate exceeds the limit; waiting rows count as covered."""
        return float(log_e(self.misses, self.known - self.misses + self.waiting, self.limit))

    @property
    def e_value(self) -> float:
        """The e-value: current wealth of a bet against the promise with an initial stake of one."""
        return math.exp(min(self.log_e_value, 700.0))

    @property
    def alarm(self) -> bool:
        """Whether the evidence ever reached 1 / false_alarm."""
        return self.alarm_at is not None

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence sequence for the miss rate: valid at all times at once except with probability `false_alarm`.

        Waiting rows count as covered for the lower end and as missed for the upper end.
        """
        hits = self.known - self.misses
        counts = [self.misses, hits], [hits + self.waiting, self.misses + self.waiting]
        low, high = lower_rate(*counts, self.false_alarm)
        return float(low), 1 - float(high)


def is_count(number: Any) -> bool:
    """Return whether a value is a valid number of rows."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and 0 <= int(number) <= MOST_ROWS


def _outcomes(misses: ArrayLike) -> Floats:
    try:
        new = np.asarray(misses, dtype=np.float64)
    except (TypeError, ValueError):
        new = np.array([np.nan])
    if new.ndim != 1 or not ((new >= 0) & (new <= 1)).all():
        raise InputError("misses: expected a list with 1 for a missed row, 0 for a covered one, or a loss in between")
    return new
