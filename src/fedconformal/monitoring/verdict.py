"""What counts say of a limit: an alarm, that it holds, or that it is too early to tell.

- *alarm*: the evidence was once enough, 1 / false_alarm. It stays, whatever comes later.
- *holds*: the interval of the miss rate, which is right at all times at once, ends below the limit. Rows that wait
  count as missed for that end.
- *too early*: neither.
- *no limit*: rows are counted, and nothing is claimed, as no limit is known that would be right here.
"""

from __future__ import annotations

from collections.abc import Callable

ALARM, HOLDS, EARLY, NO_LIMIT = "alarm", "holds", "too early", "no limit"


def verdict_of(limit: float | None, *, alarm: bool, known: float, most: Callable[[], float]) -> str:
    """Judge a watch by its limit, whether it raised the alarm, its outcomes, and the upper end of the miss rate.

    That end takes longest, so it is worked out where it decides.

    >>> [verdict_of(0.1, alarm=False, known=rows, most=lambda: 2 / rows**0.5) for rows in (50, 500)]
    ['too early', 'holds']
    """
    if limit is None:
        return NO_LIMIT
    if alarm:
        return ALARM
    return HOLDS if known and most() < limit else EARLY
