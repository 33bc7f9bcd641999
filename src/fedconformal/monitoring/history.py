"""The history of a site: counts over time from its messages, and the evidence recomputed from them.

Counts of a message are those since the watch began, so a message that is missing leaves a gap in time and loses no
count. Messages that contradict each other are refused: other counts for the same moment, counts that fall, another
limit. A site also states the day on which its own watch raised the alarm, which may be within a period and gone at its
end; that day counts if the counts allow it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import abbreviate
from fedconformal.errors import InputError
from fedconformal.monitoring.messages import Period, Stream, Tally, day_of
from fedconformal.monitoring.monitor import log_e, lower_rate, verdict_of

ROUNDING = 1e-9
"""Evidence this little below enough is enough for a day that a site states: it may have added in another order."""
MOST_NEEDED = 10**9
"""Outcomes that nobody waits for."""
MOST_MESSAGES = 5000
"""Maximum number of messages of one site: 13 years of days."""

Sent = Sequence[tuple[Period, Stream]]
"""The messages of a site about all rows or a group, in order."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteHistory:
    """Counts of a site, or of a group there, at the end of some days, and their evidence against the limit."""

    site: str
    group: str
    limit: float
    false_alarm: float
    failure: float
    days: Integers
    known: Floats
    misses: Floats
    waiting: Floats
    sizes: Floats
    log_e: Floats
    """Evidence that more than the limit is missed; rows that wait count as covered."""
    alarm: int | None
    """Day since when the evidence is or was enough; None if it never was."""
    changed: tuple[int, int] | None = None
    """Days of the alarm and of the change of scores, by the site's own detector."""

    @property
    def now(self) -> float:
        """The evidence at the last day, as a logarithm."""
        return float(self.log_e[-1])

    @property
    def rows(self) -> int:
        """All rows so far, with an outcome or without."""
        return int(self.known[-1] + self.waiting[-1])

    @property
    def coverage(self) -> float | None:
        """The share of rows with an outcome that are covered; None without such rows."""
        return 1 - float(self.misses[-1] / self.known[-1]) if self.known[-1] else None

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Bound the coverage now, at all times at once."""
        low, high = self.intervals(slice(-1, None))
        return float(low[0]), float(high[0])

    @cached_property
    def state(self) -> str:
        """The verdict by this history alone."""
        alarm, known = self.alarm is not None, float(self.known[-1])
        return verdict_of(self.limit, alarm=alarm, known=known, upper=lambda: 1 - self.interval[0])

    @property
    def needed(self) -> int | None:
        """Number of outcomes that show that the limit holds, if the miss rate stays; None if none does."""
        if self.coverage is None or self.coverage <= 1 - self.limit:
            return None
        rows = int(self.known[-1])
        while lower_rate(self.coverage * rows, (1 - self.coverage) * rows, self.false_alarm) <= 1 - self.limit:
            rows = math.ceil(1.1 * rows)
            if rows > MOST_NEEDED:
                return None
        return rows

    def intervals(self, places: Integers | slice = slice(None)) -> tuple[Floats, Floats]:
        """Bound the coverage from below and above at these places, at all times at once, but with `false_alarm`."""
        misses, hits, waiting = (one[places] for one in (self.misses, self.known - self.misses, self.waiting))
        low = lower_rate(hits, misses + waiting, self.false_alarm)
        return low, 1 - lower_rate(misses, hits + waiting, self.false_alarm)


def histories_of(periods: Sequence[Period]) -> list[SiteHistory]:
    """Put all messages of one site in order; the history of all rows comes first, then those of groups.

    >>> stream = Stream(0.1, 0.05, 0.0, Tally(), Tally(known=8, misses=4))
    >>> (history,) = histories_of([Period(bytes(32), "clinic-a", 20758, 20773, (stream,))])
    >>> round(history.now, 3), history.state, day_of(history.alarm).isoformat()
    (3.018, 'alarm', '2026-11-16')
    """
    if len(periods) > MOST_MESSAGES:
        many = f"{len(periods)} messages, at most {MOST_MESSAGES} are read"
        raise InputError(f"{many}; send longer periods", where=abbreviate(periods[0].site))
    by_group: dict[str, list[tuple[Period, Stream]]] = {}
    for period in sorted(periods, key=lambda one: (one.first, one.last)):
        for stream in period.streams:
            by_group.setdefault(stream.group, []).append((period, stream))
    return [_history(sent) for _, sent in sorted(by_group.items())]


def _history(sent: Sent) -> SiteHistory:
    site, about, last = sent[0][0].site, sent[0][1], sent[-1][1]
    name = abbreviate(site) + (f", {abbreviate(about.group)}" if about.group else "")
    if len({(stream.limit, stream.false_alarm, stream.failure) for _, stream in sent}) > 1:
        limits = " and ".join(f"{limit:g}" for limit in dict.fromkeys(stream.limit for _, stream in sent))
        raise InputError(
            f"messages of two watches, with the limits {limits}; leave out those of one", where=name, code="two-watches"
        )
    counts = _counts_by_day(name, sent)
    days = sorted(counts)
    table = [msgspec.structs.astuple(counts[day]) for day in days]
    known, misses, waiting, sizes = np.array(table, dtype=np.float64).T
    evidence = log_e(misses, known - misses + waiting, about.limit)
    enough = -math.log(about.false_alarm)
    above = np.flatnonzero(evidence >= enough)
    alarms = [days[above[0]]] if len(above) else []
    for stated in sorted({stream.alarm for _, stream in sent if stream.alarm is not None}):
        place = int(np.searchsorted(days, stated))
        # Between two messages there are never more misses than at the later one, or fewer hits than at the earlier.
        hits = known[place - 1] - misses[place - 1] if place else 0.0
        if place == len(days) or log_e(misses[place], hits, about.limit) < enough - ROUNDING:
            raise InputError(f"says that its alarm is of {day_of(stated)}, which its counts rule out", where=name)
        alarms.append(stated)
    return SiteHistory(
        site=site,
        group=about.group,
        limit=about.limit,
        false_alarm=about.false_alarm,
        failure=about.failure,
        days=np.array(days, dtype=np.int64),
        known=known,
        misses=misses,
        waiting=waiting,
        sizes=sizes,
        log_e=evidence,
        alarm=min(alarms, default=None),
        changed=last.changed,
    )


def _counts_by_day(name: str, sent: Sent) -> dict[int, Tally]:
    """Return the counts at the end of each day that a message begins after or ends with; they must not disagree."""
    starts: dict[int, Tally] = {}
    ends: dict[int, Tally] = {}
    for period, stream in sent:
        for found, day, tally in ((starts, period.first - 1, stream.before), (ends, period.last, stream.after)):
            if found.setdefault(day, tally) != tally:
                raise _contradiction(name, day, found[day], tally)
    counts = ends | starts  # a message may be written before its last day is over; the next one knows all of it
    pairs = [(day, ends[day], starts[day]) for day in starts.keys() & ends.keys()]
    pairs += [(day, counts[before], counts[day]) for before, day in pairwise(sorted(counts))]
    for day, was, now in pairs:
        if not was.can_become(now):
            raise _contradiction(name, day, was, now)
    return counts


def _contradiction(name: str, day: int, one: Tally, other: Tally) -> InputError:
    counts = [f"{tally.known} known, {tally.misses:g} missed, {tally.waiting} waiting" for tally in (one, other)]
    return InputError(
        f"messages disagree about the end of {day_of(day)} ({counts[0]}, and then {counts[1]}), and counts since the "
        "start never fall; ask the site which message is right, and leave out the other",
        where=name,
        code="contradiction",
    )
