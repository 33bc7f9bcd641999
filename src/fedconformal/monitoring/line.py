"""What a site has sent so far, put in order: counts over time, and the evidence worked out anew from them.

Counts of a message are those since the watch began, so a message that is missing leaves a gap in time and loses no
count. Messages that contradict each other are refused: other counts for the same moment, counts that fall, another
limit. A site also says on which day its own watch raised the alarm, which may be within a period and gone at its end;
that day counts if the counts allow it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import shown
from fedconformal.errors import InputError
from fedconformal.monitoring.beta import log_e, rates
from fedconformal.monitoring.period import Period, Stream, Tally, day_of
from fedconformal.monitoring.verdict import verdict_of

ROUNDING = 1e-9
"""Evidence this little below enough is enough for a day that a site states: it may have added in another order."""


AT_ONCE = 4096
"""Moments whose evidence is worked out together: more would take much memory."""

MOST_NEEDED = 10**9
"""Rows that nobody waits for."""

MOST_MESSAGES = 5000
"""Of one site: 13 years of days."""


class Said(NamedTuple):
    """What only the site can know: since when scores differ by its own detectors, and the evidence for it."""

    change: float | None = None
    changed: tuple[int, int] | None = None
    unlabelled: float | None = None
    unlabelled_changed: tuple[int, int] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Line:
    """The counts of a site, or of a group there, at the end of some days, and what they say of the limit.

    Attributes:
        days: at the end of which the counts stand, in order.
        log_e: the evidence then that more than the limit is missed; rows that wait count as covered.
        alarm: the day since when the evidence is or was enough; None if it never was.
    """

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
    alarm: int | None
    said: Said

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
        """Whether the limit holds here, by this line alone."""
        alarm, known = self.alarm is not None, float(self.known[-1])
        return verdict_of(self.limit, alarm=alarm, known=known, most=lambda: 1 - self.interval[0])

    @property
    def needed(self) -> int | None:
        """How many outcomes show that it holds, if rows are missed as often as so far; None if none can."""
        if self.coverage is None or self.coverage <= 1 - self.limit:
            return None
        rows = int(self.known[-1])
        while rates(self.coverage * rows, (1 - self.coverage) * rows, self.false_alarm) <= 1 - self.limit:
            rows = math.ceil(1.1 * rows)
            if rows > MOST_NEEDED:
                return None
        return rows

    def intervals(self, places: Integers | slice = slice(None)) -> tuple[Floats, Floats]:
        """Bound the coverage from below and above at these places, at all times at once, but with `false_alarm`."""
        misses, hits, waiting = (one[places] for one in (self.misses, self.known - self.misses, self.waiting))
        return rates(hits, misses + waiting, self.false_alarm), 1 - rates(misses, hits + waiting, self.false_alarm)


def lines_of(periods: Sequence[Period]) -> list[Line]:
    """Put all messages of one site in order; the line of all rows comes first.

    >>> stream = Stream(0.1, 0.05, 0.0, Tally(), Tally(known=8, misses=4))
    >>> (line,) = lines_of([Period(bytes(32), "clinic-a", 20758, 20773, (stream,))])
    >>> round(line.now, 3), line.state, day_of(line.alarm).isoformat()
    (3.018, 'alarm', '2026-11-16')
    """
    (lines,) = lines_of_sites([periods])
    return lines


def lines_of_sites(sites: Iterable[Sequence[Period]]) -> Iterator[list[Line]]:
    """Put the messages of each site in order; evidence is worked out for many sites at a time, which is faster."""
    some: list[list[_Counts]] = []
    moments = 0
    for periods in sites:
        some.append(_ordered(periods))
        moments += sum(len(part.days) for part in some[-1])
        if moments >= AT_ONCE:
            yield from _worked_out(some)
            some, moments = [], 0
    yield from _worked_out(some)


class _Counts(NamedTuple):
    """The messages of a site about all rows or a group, and counts by day: known, missed, waiting, sizes."""

    name: str
    sent: Sequence[tuple[Period, Stream]]
    days: list[int]
    table: Floats

    @property
    def about(self) -> Stream:
        return self.sent[0][1]


def _ordered(periods: Sequence[Period]) -> list[_Counts]:
    if len(periods) > MOST_MESSAGES:
        many = f"{len(periods)} messages, at most {MOST_MESSAGES} are read"
        raise InputError(f"{shown(periods[0].site)}: {many}; send longer periods")
    found: dict[str, list[tuple[Period, Stream]]] = {}
    for period in sorted(periods, key=lambda one: (one.first, one.last)):
        for stream in period.streams:
            found.setdefault(stream.group, []).append((period, stream))
    parts = []
    for group, sent in sorted(found.items()):
        name = shown(sent[0][0].site) + (f", {shown(group)}" if group else "")
        _check_terms(name, sent)
        counts = _counts_by_day(name, sent)
        days = sorted(counts)
        rows = [(one.known, one.misses, one.waiting, one.sizes) for one in (counts[day] for day in days)]
        parts.append(_Counts(name, sent, days, np.array(rows, dtype=np.float64).T))
    return parts


def _worked_out(some: Sequence[list[_Counts]]) -> Iterator[list[Line]]:
    by_limit: dict[float, list[_Counts]] = {}
    for parts in some:
        for part in parts:
            by_limit.setdefault(part.about.limit, []).append(part)
    found: dict[int, Floats] = {}
    for limit, alike in by_limit.items():
        known, misses, waiting, _ = np.concatenate([part.table for part in alike], axis=1)
        evidence = log_e(misses, known - misses + waiting, limit)
        ends = np.cumsum([len(part.days) for part in alike])
        found |= {id(part): own for part, own in zip(alike, np.split(evidence, ends[:-1]), strict=True)}
    for parts in some:
        yield [_line(part, found[id(part)]) for part in parts]


def _line(part: _Counts, evidence: Floats) -> Line:
    name, sent, days, (known, misses, waiting, sizes) = part
    about, last = part.about, sent[-1][1]
    enough = -math.log(about.false_alarm)
    above = np.flatnonzero(evidence >= enough)
    alarms = [days[above[0]]] if len(above) else []
    for stated in sorted({stream.alarm for _, stream in sent if stream.alarm is not None}):
        place = int(np.searchsorted(days, stated))
        # Between two messages there are never more misses than at the later one, or fewer hits than at the earlier.
        hits = known[place - 1] - misses[place - 1] if place else 0.0
        if place == len(days) or log_e(misses[place], hits, about.limit) < enough - ROUNDING:
            raise InputError(f"says that its alarm is of {_date(stated)}, which its counts rule out", where=name)
        alarms.append(stated)
    return Line(
        site=sent[0][0].site,
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
        said=Said(last.change, last.changed, last.unlabelled, last.unlabelled_changed),
    )


def _check_terms(name: str, sent: Sequence[tuple[Period, Stream]]) -> None:
    """Refuse a watch whose limit or chances change."""
    first = sent[0][1]
    for period, stream in sent:
        if (stream.limit, stream.false_alarm, stream.failure) != (first.limit, first.false_alarm, first.failure):
            raise InputError(
                f"watches a limit of {first.limit:g} first and {stream.limit:g} from {_date(period.first)} on, "
                "or with other chances; a watch keeps them: leave out the messages of the other watch",
                where=name,
            )


def _counts_by_day(name: str, sent: Sequence[tuple[Period, Stream]]) -> dict[int, Tally]:
    """Return the counts at the end of each day that a message begins after or ends with; they must not disagree."""
    starts: dict[int, Tally] = {}
    ends: dict[int, Tally] = {}
    for period, stream in sent:
        for found, day, tally in ((starts, period.first - 1, stream.before), (ends, period.last, stream.after)):
            if found.setdefault(day, tally) != tally:
                raise InputError(
                    f"two messages disagree about the end of {_date(day)} ({_counts(found[day])}, and "
                    f"{_counts(tally)}); ask the site which one is right, and leave out the other",
                    where=name,
                )
    for day in starts.keys() & ends.keys():
        if _falls(ends[day], starts[day]):
            raise InputError(
                f"two messages disagree about the end of {_date(day)} ({_counts(ends[day])}, and then "
                f"{_counts(starts[day])}); ask the site for both anew",
                where=name,
            )
    counts = ends | starts  # a message may be written before its last day is over; the next one knows all of it
    for before, day in pairwise(sorted(counts)):
        was, now = counts[before], counts[day]
        if _falls(was, now):
            raise InputError(
                f"counts fall from {_date(before)} ({_counts(was)}) to {_date(day)} ({_counts(now)}); "
                "counts since the start cannot: ask the site for both messages anew",
                where=name,
            )
    return counts


def _falls(was: Tally, now: Tally) -> bool:
    return now.known < was.known or now.misses < was.misses or now.sizes < was.sizes


def _date(day: int) -> str:
    return day_of(day).isoformat()


def _counts(tally: Tally) -> str:
    return f"{tally.known} known, {tally.misses:g} missed, {tally.waiting} waiting"
