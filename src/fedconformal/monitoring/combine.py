"""The combination of sites: does the promise hold over all of them, which sites stand out, and since when.

Everything that counts determine is recomputed from them. A site has the e-value one before its first message. The mean
of e-values ever reaches 1 / d with probability d at most if sites are independent. e-BH names sites by their current
e-values, never by the largest so far: the k sites with the largest e-values, for the largest k of which the k-th is at
least K / (k d). Of those that it names, at most a share d is named wrongly on average, under any dependence (Wang and
Ramdas, "False discovery rate control with e-values", 2022). The failure probabilities of the limits add up.

d is the false alarm probability d_k of the sites. Where they differ, sites count in proportion to theirs, and d is the
largest. A watch over several sites divides its probability among them beforehand; then d is the sum, so that the mean
is at least 1 / d as soon as one site's e-value is at least 1 / d_k: its own alarm is one.

"Holds" is claimed only if it also holds without a site that has more outcomes than all others together: no site can
bring it about by the rows that it claims.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import abbreviate, name_key
from fedconformal.errors import InputError
from fedconformal.monitoring.history import SiteHistory, histories_of
from fedconformal.monitoring.messages import ALL_SITES, Period, day_of
from fedconformal.monitoring.monitor import ALARM, EARLY, HOLDS

LARGEST, FRACTION = 10_000.0, 256
"""Logarithms of e-values count up to this in the mean over time; and binary digits of an e-value below the point."""


def log_mean(log_e_values: Sequence[float]) -> float:
    """Return the logarithm of the mean of e-values, from their logarithms.

    >>> round(log_mean([0.0, math.log(3)]), 12) == round(math.log(2), 12), log_mean([2000.0, -2000.0]) > 1999
    (True, True)
    """
    values = np.asarray(log_e_values, dtype=np.float64)
    most = float(values.max())
    return most + math.log(float(np.exp(values - most).mean())) if math.isfinite(most) else most


def standing_out(log_e_values: Mapping[str, float], *, false_share: float = 0.1) -> list[str]:
    """Name the sites whose promise is broken, at most a share of them wrongly on average (e-BH).

    >>> standing_out({"a": math.log(50), "b": math.log(12), "c": 0.0}, false_share=0.1)
    ['a']
    >>> standing_out({"a": math.log(50), "b": math.log(16), "c": 0.0}, false_share=0.1)
    ['a', 'b']
    """
    names = sorted(log_e_values, key=lambda name: -log_e_values[name])
    enough = [k for k, name in enumerate(names, 1) if log_e_values[name] >= math.log(len(names) / (k * false_share))]
    return names[: max(enough, default=0)]


@dataclass(frozen=True, eq=False, kw_only=True)
class CombinedEvidence:
    """The histories of all sites, of all rows or of one group."""

    group: str
    histories: tuple[SiteHistory, ...]
    """The site with the most evidence first."""
    days: Integers
    log_mean: Floats
    """Logarithm of the mean of the sites' e-values on each day, weighted by their false alarm probabilities."""
    alarm: int | None
    """Day since when the mean is or was enough; None if it never was."""
    named: tuple[str, ...]
    """Sites that stand out now, by e-BH."""
    false_alarm: float
    """Probability of ever raising a false alarm while all limits hold."""
    failures: float
    """Sum of the probabilities that limits of the sites do not hold."""

    @classmethod
    def of(cls, group: str, histories: Sequence[SiteHistory]) -> CombinedEvidence:
        """Combine the histories of the sites."""
        chances = [one.false_alarm for one in histories]
        total, most = math.fsum(chances), max(chances)
        divided = len(histories) == 1 or (min(chances) < most and total <= 2 * most < 1)
        level = total if divided else most
        shares = {one.site: math.log(one.false_alarm) - math.log(total) for one in histories}
        days = np.unique(np.concatenate([one.days for one in histories]))
        mean = _mean_over_time(days, histories, shares)
        now = {one.site: one.now + shares[one.site] + math.log(len(histories)) for one in histories}
        mean[-1] = log_mean(list(now.values()))
        named = standing_out(now, false_share=level)
        alarms = [int(day) for day in days[mean >= -math.log(level)][:1]]
        alarms += [one.alarm for one in histories if divided and one.alarm is not None]
        if named and not alarms:  # which floats may have rounded down
            alarms = [int(days[-1])]
        return cls(
            group=group,
            histories=tuple(sorted(histories, key=lambda one: (-one.now, one.site))),
            days=days,
            log_mean=mean,
            alarm=min(alarms, default=None),
            named=tuple(named),
            false_alarm=level,
            failures=math.fsum(one.failure for one in histories),
        )

    @property
    def now(self) -> float:
        """The evidence over all sites at the last day, as a logarithm."""
        return float(self.log_mean[-1])

    @property
    def counted(self) -> Sequence[SiteHistory]:
        """Histories in which every row counts once."""
        return [one for one in self.histories if one.site == ALL_SITES] or self.histories

    @property
    def sites(self) -> int:
        """Number of sites."""
        return sum(one.site != ALL_SITES for one in self.histories) or 1

    @cached_property
    def pooled(self) -> SiteHistory:
        """Counts of all rows, against the mean of the limits by rows, with the mean of e-values."""
        added = np.zeros((4, len(self.days)))
        for one in self.counted:
            own = np.stack([one.known, one.misses, one.waiting, one.sizes])
            added[:, np.searchsorted(self.days, one.days)] += np.diff(own, prepend=0.0)
        known, misses, waiting, sizes = np.maximum(np.cumsum(added, axis=1), 0.0)
        rows = [one.rows or 1 for one in self.counted]
        return SiteHistory(
            site=self.group or ALL_SITES,
            group=self.group,
            limit=float(np.average([one.limit for one in self.counted], weights=rows)),
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
        """A site with more outcomes than all others together, if the others do not show that the limit holds."""
        first, *others = sorted(self.counted, key=lambda one: -one.known[-1])
        if not others or first.known[-1] <= math.fsum(one.known[-1] for one in others):
            return None
        rest = CombinedEvidence.of(self.group, others).pooled
        return None if rest.known[-1] and 1 - rest.interval[0] < rest.limit else first.site

    @cached_property
    def state(self) -> str:
        """The verdict over all sites; the rows of a single site are not enough for "holds"."""
        return EARLY if self.pooled.state == HOLDS and self.decisive else self.pooled.state

    @property
    def chance(self) -> float:
        """Upper bound on the probability of ever raising a false alarm, if sites are independent."""
        return min(1.0, self.false_alarm + self.failures)

    @cached_property
    def doubtful(self) -> list[SiteHistory]:
        """Sites whose own watch raised the alarm, and that do not stand out among all; some do so by chance."""
        named = set(self.named)
        return [one for one in self.histories if one.alarm is not None and one.site not in named]


def _mean_over_time(days: Integers, histories: Sequence[SiteHistory], shares: Mapping[str, float]) -> Floats:
    """Return the logarithm of the weighted mean of e-values at each day, in time proportional to the messages.

    Each e-value is added where it changes, as a whole number of 2^-256, so that nothing is lost by cancellation.
    """
    start, changes = 0, dict.fromkeys(days.tolist(), 0)
    for one in histories:
        values = [_fixed_point(value + shares[one.site]) for value in (0.0, *one.log_e.tolist())]
        start += values[0]
        for day, before, after in zip(one.days.tolist(), values, values[1:], strict=False):
            changes[day] += after - before
    sums = list(accumulate(changes.values(), initial=start))[1:]
    return np.array([math.log(max(value, 1)) - FRACTION * math.log(2) for value in sums])


def _fixed_point(log_value: float) -> int:
    """Return e to this power as a whole number of 2^-256."""
    bits = min(log_value, LARGEST) / math.log(2) + FRACTION
    whole = math.floor(bits)
    digits = round(2 ** (bits - whole) * 2**53)
    return digits << (whole - 53) if whole >= 53 else digits >> (53 - whole)


class Days(NamedTuple):
    """Days of a site, the first and the last."""

    site: str
    first: int
    last: int


class Refused(NamedTuple):
    """A site whose messages are left out, and why."""

    site: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Combined:
    """The combined messages of one predictor, for the page, for JSON and for the engines."""

    predictor: str
    first: int
    last: int
    all_rows: CombinedEvidence
    groups: tuple[CombinedEvidence, ...]
    named_groups: tuple[str, ...]
    gaps: tuple[Days, ...] = ()
    """Days that no message of a site covers; its counts go on behind them."""
    withheld: tuple[Days, ...] = ()
    """Periods without groups, classes or sites, as one of them has too few outcomes."""
    silent: tuple[Days, ...] = ()
    """Sites that have sent nothing for longer than usual while others have, from their last day on."""
    refused: tuple[Refused, ...] = ()

    @property
    def alarm(self) -> bool:
        """Whether there is evidence enough, over all sites, at a site or in a group."""
        return self.all_rows.alarm is not None or bool(self.named_groups)

    @property
    def state(self) -> str:
        """State: "alarm", "in doubt", "holds" or "too early"."""
        if self.alarm:
            return ALARM
        return "in doubt" if self.all_rows.doubtful else self.all_rows.state

    @property
    def since(self) -> int | None:
        """The day since when there is evidence enough."""
        evidence = [self.all_rows, *(one for one in self.groups if one.group in self.named_groups)]
        return min((one.alarm for one in evidence if one.alarm is not None), default=None)


def combine(periods: Iterable[Period], *, refused: Iterable[Refused] = (), one_watch: bool = False) -> Combined:
    """Combine the messages of all sites; they must be about one predictor and not contradict each other.

    Parameters
    ----------
    periods
        Messages in any order; one that comes twice counts once.
    refused
        Sites that were left out before, to be named.
    one_watch
        Whether all messages are of one watch, whose message of `all sites` is then trusted for the pooled counts.

    Examples
    --------
    >>> from fedconformal.monitoring.messages import Stream, Tally
    >>> def sent(site, misses):
    ...     stream = Stream(0.1, 0.025, 0.0, Tally(), Tally(known=300, misses=misses, sizes=400))
    ...     return Period(bytes(32), site, 20758, 20773, (stream,))
    >>> found = combine([sent("clinic-a", 27), sent("clinic-b", 70), sent("clinic-c", 31)])
    >>> found.state, found.all_rows.named, day_of(found.since).isoformat()
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
    predictor, last = everything[0].predictor, max(period.last for period in everything)
    for period in everything:
        check_predictor(period, predictor)
    by_group: dict[str, list[SiteHistory]] = {}
    for key in sorted(by_site):
        for history in histories_of(by_site[key]):
            by_group.setdefault(history.group, []).append(history)
    found = [CombinedEvidence.of(group, by_group[group]) for group in sorted(by_group)]
    level = max(one.false_alarm for one in found[0].histories)
    named = standing_out({one.group: one.now for one in found[1:]}, false_share=level) if found[1:] else []
    withheld = sorted({one for one in everything if one.withheld}, key=lambda one: (one.site, one.first))
    return Combined(
        predictor=predictor.hex(),
        first=min(period.first for period in everything),
        last=last,
        all_rows=found[0],
        groups=tuple(sorted(found[1:], key=lambda one: -one.now)),
        named_groups=tuple(named),
        gaps=tuple(gap for sent in by_site.values() for gap in _gaps(sent)),
        withheld=tuple(Days(one.site, one.first, one.last) for one in withheld),
        silent=tuple(one for sent in by_site.values() for one in _silent(sent, last)),
        refused=tuple(left_out),
    )


def check_predictor(period: Period, predictor: bytes) -> None:
    """Refuse a message about another predictor."""
    if period.predictor != predictor:
        raise InputError(
            f"{abbreviate(period.site)}: watches the predictor {period.predictor.hex()[:12]}, and others watch "
            f"{predictor.hex()[:12]}; combine the messages of one predictor at a time"
        )


def _gaps(sent: Sequence[Period]) -> Iterator[Days]:
    ordered = sorted(sent, key=lambda one: one.first)
    end = ordered[0].last
    for period in ordered:
        if period.first > end + 1:
            yield Days(period.site, end + 1, period.first - 1)
        end = max(end, period.last)


def _silent(sent: Sequence[Period], today: int) -> Iterator[Days]:
    """Yield a site whose last message is longer ago than its usual period, while others still sent."""
    usual = median(period.last - period.first + 1 for period in sent)
    end = max(sent, key=lambda one: one.last)
    if today - end.last > usual:
        yield Days(end.site, end.last, today)


def to_dict(found: Combined) -> dict[str, Any]:
    """Describe for JSON; evidence as natural logarithms, days as dates."""

    def days(notes: Iterable[Days]) -> list[dict[str, Any]]:
        return [{"site": one.site, "days": [_date(one.first), _date(one.last)]} for one in notes]

    return {
        "state": found.state,
        "since": _date(found.since),
        "predictor": found.predictor,
        "first": _date(found.first),
        "last": _date(found.last),
        "all_rows": _evidence(found.all_rows),
        "groups": {one.group: _evidence(one) for one in found.groups},
        "named_groups": list(found.named_groups),
        "gaps": days(found.gaps),
        "withheld": days(found.withheld),
        "silent": days(found.silent),
        "refused": [one._asdict() for one in found.refused],
    }


def _evidence(found: CombinedEvidence) -> dict[str, Any]:
    return {
        "log_e_value": found.now,
        "alarm_since": _date(found.alarm),
        "named_sites": list(found.named),
        "false_alarm": found.false_alarm,
        "failures": found.failures,
        "sites": {one.site: _history(one) for one in found.histories},
    }


def _history(history: SiteHistory) -> dict[str, Any]:
    counts = {name: float(getattr(history, name)[-1]) for name in ("known", "misses", "waiting", "sizes")}
    return {
        "state": history.state,
        "alarm_since": _date(history.alarm),
        "last": _date(int(history.days[-1])),
        "limit": history.limit,
        **counts,
        "coverage": history.coverage,
        "interval": list(history.interval),
        "log_e_value": history.now,
        "scores_changed": None if history.changed is None else list(map(_date, history.changed)),
    }


def _date(day: int | None) -> str | None:
    return None if day is None else day_of(day).isoformat()
