"""Combination of sites: evidence over all sites, sites that stand out, and days of alarms (docs/proofs.md).

Counts of a message are cumulative, so a missing message leaves a gap in time but loses no count. Contradictory messages
of a site are refused: different counts for the same moment, decreasing counts, or another limit. All quantities that
follow from counts are recomputed. A site also states the day of its own alarm, which may be within a period without
being visible at its end; that day is accepted if the counts allow it.

A site has the e-value one before its first message. e-BH names sites by their current e-values, never by the largest so
far (Wang and Ramdas, "False discovery rate control with e-values", 2022).

d is the false alarm probability d_k of the sites. If these differ, sites are weighted in proportion to theirs, and d is
the largest. A watch over several sites divides its probability among them beforehand; then d is the sum, so that the
mean is at least 1 / d as soon as one site's e-value is at least 1 / d_k: its own alarm is a combined alarm.

The state "holds" is also required without each site in turn: no single site can cause it by the numbers that it states.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import abbreviate, name_key
from fedconformal.errors import InputError
from fedconformal.monitoring.messages import ALL_SITES, Period, Stream, Tally, day_of
from fedconformal.monitoring.monitor import ALARM, EARLY, HOLDS, log_e, lower_rate, verdict_of

ROUNDING = 1e-9
"""Tolerance of the evidence on a day stated by a site, which may have summed in another order."""
MOST_MESSAGES = 5000
"""Maximum number of messages of one site: 13 years of days."""
MOST_SIZES = 1e300
"""Maximum total size that is added up; the sum over sites is finite."""

Sent = Sequence[tuple[Period, Stream]]
"""Messages of a site about all rows or a group, in order."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SiteHistory:
    """Counts of a site, or of a group at a site, at the end of days, with the evidence against the limit."""

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
    """Evidence that the miss rate exceeds the limit; waiting rows count as covered."""
    alarm: int | None
    """First day with enough evidence; None without an alarm."""
    changed: int | None = None
    """Day of the alarm of the site's change detector."""

    @property
    def now(self) -> float:
        """Logarithm of the evidence on the last day."""
        return float(self.log_e[-1])

    @property
    def rows(self) -> int:
        """Number of rows so far, with or without an outcome."""
        return int(self.known[-1] + self.waiting[-1])

    @property
    def coverage(self) -> float | None:
        """Share of covered rows among those with an outcome; None without outcomes."""
        return 1 - float(self.misses[-1] / self.known[-1]) if self.known[-1] else None

    @cached_property
    def interval(self) -> tuple[float, float]:
        """Current confidence interval of the coverage, valid at all times at once."""
        low, high = self.intervals(slice(-1, None))
        return float(low[0]), float(high[0])

    @cached_property
    def state(self) -> str:
        """Verdict from this history alone."""
        alarm, known = self.alarm is not None, float(self.known[-1])
        return verdict_of(self.limit, alarm=alarm, known=known, upper=lambda: 1 - self.interval[0])

    def intervals(self, places: Integers | slice = slice(None)) -> tuple[Floats, Floats]:
        """Return bounds on the coverage at these indices, valid at all times at once except with `false_alarm`."""
        misses, hits, waiting = (column[places] for column in (self.misses, self.known - self.misses, self.waiting))
        low = lower_rate(hits, misses + waiting, self.false_alarm)
        return low, 1 - lower_rate(misses, hits + waiting, self.false_alarm)


def histories_of(periods: Sequence[Period]) -> list[SiteHistory]:
    """Return the histories of one site from its messages: all rows first, then groups.

    >>> stream = Stream(0.1, 0.05, 0.0, Tally(), Tally(known=8, misses=4))
    >>> (history,) = histories_of([Period(bytes(32), "clinic-a", 20758, 20773, (stream,))])
    >>> round(history.now, 3), history.state, str(day_of(history.alarm))
    (3.018, 'alarm', '2026-11-16')
    """
    if len(periods) > MOST_MESSAGES:
        many = f"{len(periods)} messages, at most {MOST_MESSAGES} are read"
        raise InputError(f"{many}; send longer periods", where=abbreviate(periods[0].site))
    by_group: dict[str, list[tuple[Period, Stream]]] = {}
    for period in sorted(periods, key=lambda p: (p.first, p.last)):
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
            raise InputError(f"states an alarm on {day_of(stated)}, which its counts rule out", where=name)
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
    """Return the counts at the end of each day before or at the end of a period; contradictions are refused."""
    starts: dict[int, Tally] = {}
    ends: dict[int, Tally] = {}
    for period, stream in sent:
        for counts_by_day, day, tally in ((starts, period.first - 1, stream.before), (ends, period.last, stream.after)):
            if counts_by_day.setdefault(day, tally) != tally:
                raise _contradiction(name, day, counts_by_day[day], tally)
    counts = ends | starts  # a message may be written before its last day is over; the next one knows all of it
    pairs = [(day, ends[day], starts[day]) for day in starts.keys() & ends.keys()]
    pairs += [(day, counts[before], counts[day]) for before, day in pairwise(sorted(counts))]
    for day, was, now in pairs:
        if not was.can_become(now):
            raise _contradiction(name, day, was, now)
    return counts


def _contradiction(name: str, day: int, one: Tally, other: Tally) -> InputError:
    counts = [f"{tally.known} known, {tally.misses:g} missed, {tally.waiting} waiting" for tally in (one, other)]
    advice = "ask the site which message is right, and leave out the other"
    if name == ALL_SITES:
        advice = "if they are of several sites, each has to name itself when its watch is started (site)"
    return InputError(
        f"messages disagree about the end of {day_of(day)} ({counts[0]}, and then {counts[1]}), and counts since the "
        f"start never fall; {advice}",
        where=name,
        code="contradiction",
    )


def standing_out(log_e_values: Mapping[str, float], *, false_share: float = 0.1) -> list[str]:
    """Return the sites with a broken promise by e-BH, with expected share of false ones at most `false_share`.

    >>> standing_out({"a": math.log(50), "b": math.log(12), "c": 0.0}, false_share=0.1)
    ['a']
    >>> standing_out({"a": math.log(50), "b": math.log(16), "c": 0.0}, false_share=0.1)
    ['a', 'b']
    """
    names = sorted(log_e_values, key=lambda name: -log_e_values[name])
    ranks = [k for k, name in enumerate(names, 1) if log_e_values[name] >= math.log(len(names) / (k * false_share))]
    return names[: max(ranks, default=0)]


@dataclass(frozen=True, eq=False, kw_only=True)
class CombinedEvidence:
    """Histories of all sites, for all rows or one group."""

    group: str
    histories: tuple[SiteHistory, ...]
    days: Integers
    log_mean: Floats
    """Logarithm of the mean of the sites' e-values on each day, weighted by their false alarm probabilities."""
    alarm: int | None
    """First day with enough evidence; None without an alarm."""
    named: tuple[str, ...]
    """Sites that currently stand out, by e-BH."""
    false_alarm: float
    """Probability of ever raising a false alarm while all limits hold."""
    failures: float
    """Sum of the probabilities that limits of the sites do not hold."""

    @classmethod
    def of(cls, group: str, histories: Sequence[SiteHistory]) -> CombinedEvidence:
        """Combine the histories of the sites."""
        chances = [history.false_alarm for history in histories]
        total, most = math.fsum(chances), max(chances)
        divided = len(histories) == 1 or (min(chances) < most and total <= 2 * most < 1)
        level = total if divided else most
        shares = {history.site: math.log(history.false_alarm) - math.log(total) for history in histories}
        days = np.unique(np.concatenate([history.days for history in histories]))
        mean = np.full(len(days), -np.inf)
        for history in histories:
            values = np.append(0.0, history.log_e)[np.searchsorted(history.days, days, side="right")]
            np.logaddexp(mean, values + shares[history.site], out=mean)
        now = {history.site: history.now + shares[history.site] + math.log(len(histories)) for history in histories}
        named = standing_out(now, false_share=level)
        alarms = [int(day) for day in days[mean >= -math.log(level)][:1]]
        alarms += [history.alarm for history in histories if divided and history.alarm is not None]
        if named and not alarms:  # which floats may have rounded down
            alarms = [int(days[-1])]
        return cls(
            group=group,
            histories=tuple(sorted(histories, key=lambda history: (-history.now, history.site))),
            days=days,
            log_mean=mean,
            alarm=min(alarms, default=None),
            named=tuple(named),
            false_alarm=level,
            failures=math.fsum(history.failure for history in histories),
        )

    @property
    def now(self) -> float:
        """Logarithm of the evidence over all sites on the last day."""
        return float(self.log_mean[-1])

    @property
    def counted(self) -> Sequence[SiteHistory]:
        """Histories in which every row counts once."""
        return [history for history in self.histories if history.site == ALL_SITES] or self.histories

    @property
    def sites(self) -> int:
        """Number of sites."""
        return sum(history.site != ALL_SITES for history in self.histories) or 1

    @cached_property
    def pooled(self) -> SiteHistory:
        """Counts of all rows, with the row-weighted mean of the limits and the mean of e-values."""
        added = np.zeros((4, len(self.days)))
        for history in self.counted:
            own = np.stack([history.known, history.misses, history.waiting, np.minimum(history.sizes, MOST_SIZES)])
            added[:, np.searchsorted(self.days, history.days)] += np.diff(own, prepend=0.0)
        known, misses, waiting, sizes = np.maximum(np.cumsum(added, axis=1), 0.0)
        rows = [history.rows or 1 for history in self.counted]
        return SiteHistory(
            site=self.group or ALL_SITES,
            group=self.group,
            limit=float(np.average([history.limit for history in self.counted], weights=rows)),
            false_alarm=self.false_alarm,
            failure=self.failures,
            days=self.days,
            known=known,
            misses=np.minimum(misses, known),
            waiting=waiting,
            sizes=sizes,
            log_e=self.log_mean,
            alarm=self.alarm,
        )

    @cached_property
    def decisive(self) -> str | None:
        """The site with most outcomes among those without which the state is not "holds"; None if there are none."""
        each = sorted(self.counted, key=lambda history: -history.known[-1])
        if len(each) == 1:
            return None
        table = [(h.known[-1], h.misses[-1], h.waiting[-1], h.rows or 1, h.limit * (h.rows or 1)) for h in each]
        columns = np.array(table).T
        known, misses, waiting, rows, limits = np.maximum(columns.sum(axis=1, keepdims=True) - columns, 0.0)
        least = min(history.false_alarm for history in each)
        low = lower_rate(np.maximum(known - misses, 0.0), misses + waiting, least)
        doubtful = np.flatnonzero((known == 0) | (1 - low >= limits / rows))
        return each[doubtful[0]].site if len(doubtful) else None

    @cached_property
    def state(self) -> str:
        """Verdict over all sites; the rows of a single site are not enough for "holds"."""
        return EARLY if self.pooled.state == HOLDS and self.decisive else self.pooled.state

    @property
    def chance(self) -> float:
        """Upper bound on the probability of ever raising a false alarm, if sites are independent."""
        return min(1.0, self.false_alarm + self.failures)

    @cached_property
    def doubtful(self) -> list[SiteHistory]:
        """Sites with an alarm of their own that do not stand out among all sites; some occur by chance."""
        named = set(self.named)
        return [history for history in self.histories if history.alarm is not None and history.site not in named]


class Refused(NamedTuple):
    """A site whose messages are left out, with the reason."""

    site: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Combined:
    """Combined messages about one predictor."""

    predictor: str
    first: int
    last: int
    all_rows: CombinedEvidence
    groups: tuple[CombinedEvidence, ...]
    named_groups: tuple[str, ...]
    withheld: tuple[Period, ...] = ()
    """Messages whose groups, classes or sites are withheld, because one of them has too few outcomes."""
    refused: tuple[Refused, ...] = ()

    @property
    def alarm(self) -> bool:
        """Whether there is enough evidence over all sites, at a site or in a group."""
        return self.all_rows.alarm is not None or bool(self.named_groups)

    @property
    def state(self) -> str:
        """State: "alarm", "in doubt", "holds" or "too early"."""
        if self.alarm:
            return ALARM
        return "in doubt" if self.all_rows.doubtful else self.all_rows.state

    @property
    def since(self) -> int | None:
        """First day with enough evidence; None without an alarm."""
        evidence = [self.all_rows, *(part for part in self.groups if part.group in self.named_groups)]
        return min((part.alarm for part in evidence if part.alarm is not None), default=None)

    @property
    def silent(self) -> list[SiteHistory]:
        """Sites without a message for longer than their longest gap so far, while others sent some."""
        return [site for site in self.all_rows.histories if self.last - site.days[-1] > np.diff(site.days).max()]


def combine(periods: Iterable[Period], *, refused: Iterable[Refused] = (), one_watch: bool = False) -> Combined:
    """Combine the messages of all sites, which must be about one predictor and consistent.

    Parameters
    ----------
    periods
        Messages in any order; repeated messages count once.
    refused
        Sites that were left out before, to be reported.
    one_watch
        Whether all messages are from one watch, whose message of "all sites" is then used for the pooled counts.

    Examples
    --------
    >>> def sent(site, misses):
    ...     stream = Stream(0.1, 0.025, 0.0, Tally(), Tally(known=300, misses=misses, sizes=400))
    ...     return Period(bytes(32), site, 20758, 20773, (stream,))
    >>> combined = combine([sent("clinic-a", 27), sent("clinic-b", 70), sent("clinic-c", 31)])
    >>> combined.state, combined.all_rows.named, day_of(combined.since).isoformat()
    ('alarm', ('clinic-b',), '2026-11-16')
    """
    by_site: dict[str, list[Period]] = {}
    for period in periods:
        by_site.setdefault(name_key(period.site), []).append(period)
    if not by_site:
        raise InputError("there is no message of any site; ask the sites for theirs")
    left_out = list(refused)
    if ALL_SITES in by_site and len(by_site) > 1 and not one_watch:
        del by_site[ALL_SITES]
        left_out.append(Refused(ALL_SITES, "is no site, but a watch over several sites; combine it by itself"))
    everything = [period for sent in by_site.values() for period in sent]
    predictor = everything[0].predictor
    for period in everything:
        check_predictor(period, predictor)
    by_group: dict[str, list[SiteHistory]] = {}
    for key in sorted(by_site):
        for history in histories_of(by_site[key]):
            by_group.setdefault(history.group, []).append(history)
    evidence = [CombinedEvidence.of(group, by_group[group]) for group in sorted(by_group)]
    level = max(item.false_alarm for item in evidence[0].histories)
    named = standing_out({item.group: item.now for item in evidence[1:]}, false_share=level) if evidence[1:] else []
    withheld = sorted({item for item in everything if item.withheld}, key=lambda item: (item.site, item.first))
    return Combined(
        predictor=predictor.hex(),
        first=min(period.first for period in everything),
        last=max(period.last for period in everything),
        all_rows=evidence[0],
        groups=tuple(sorted(evidence[1:], key=lambda item: -item.now)),
        named_groups=tuple(named),
        withheld=tuple(withheld),
        refused=tuple(left_out),
    )


def check_predictor(period: Period, predictor: bytes) -> None:
    """Refuse a message about another predictor."""
    if period.predictor != predictor:
        raise InputError(
            f"{abbreviate(period.site)}: watches the predictor {period.predictor.hex()[:12]}, and others watch "
            f"{predictor.hex()[:12]}; combine the messages of one predictor at a time"
        )
