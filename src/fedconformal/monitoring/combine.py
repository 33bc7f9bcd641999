"""What the coordinator knows from the messages of all sites: does the promise hold, which sites, since when.

Nothing that can be worked out from counts is taken from a message. Over sites the mean of e-values is watched, in which
a site counts as one before its first message; that it ever reaches 1 / d has probability d at most if sites are
independent. e-BH names sites by what their evidence is worth now, all at one time, and never by the largest so far; it
names no site unless the mean is at least 1 / d. What the limits of the sites may fail adds up (`failures`).

d is the chance d_k that sites watch with. Where they differ, sites count in proportion to theirs, and d is the largest.
A watch over several sites divides its chance among them beforehand; then d is the sum, so that the mean is at least
1 / d as soon as one site's e-value is at least 1 / d_k: its own alarm is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal._base.names import name_key, shown
from fedconformal.errors import InputError
from fedconformal.monitoring.line import Line, Said, lines_of
from fedconformal.monitoring.period import Period, day_of
from fedconformal.monitoring.sites import log_mean, standing_out

ALL_SITES = "all sites"
"""What a watch over several sites calls itself, beside messages of each of them: its rows are theirs."""


class Gap(NamedTuple):
    """Days of a site of which no message speaks; its counts go on behind them."""

    site: str
    first: int
    last: int


class Silent(NamedTuple):
    """A site that has sent nothing for longer than it usually does, while others have; and its last day."""

    site: str
    last: int


class Refused(NamedTuple):
    """A site whose messages are not in this, and why."""

    site: str
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Together:
    """The lines of all sites, of all rows or of one group.

    Attributes:
        lines: the site with the most evidence first.
        days: at the end of which `log_mean` stands.
        log_mean: the logarithm of the mean of the sites' e-values, by the chances that they watch with.
        alarm: the day since when the mean is or was enough; None if it never was.
        named: sites that stand out now, by e-BH.
        failures: the chances that limits of the sites do not hold, added up.
    """

    group: str
    lines: tuple[Line, ...]
    days: Integers
    log_mean: Floats
    alarm: int | None
    named: tuple[str, ...]
    false_alarm: float
    failures: float

    @classmethod
    def of(cls, group: str, lines: Sequence[Line]) -> Together:
        """Put the lines of the sites together."""
        chances = [line.false_alarm for line in lines]
        total, most = math.fsum(chances), max(chances)
        divided = len(lines) == 1 or (min(chances) < most and total <= 2 * most < 1)
        level = total if divided else most
        shares = {line.site: math.log(line.false_alarm) - math.log(total) for line in lines}
        days = np.unique(np.concatenate([line.days for line in lines]))
        mean = np.full(len(days), -math.inf)
        for line in lines:
            place = np.searchsorted(line.days, days, side="right")
            mean = np.logaddexp(mean, np.append(0.0, line.log_e)[place] + shares[line.site])
        now = {line.site: line.now + shares[line.site] + math.log(len(lines)) for line in lines}
        mean[-1] = log_mean(list(now.values()))
        named = standing_out(now, false_share=level)
        alarms = [int(day) for day in days[mean >= -math.log(level)][:1]]
        alarms += [line.alarm for line in lines if divided and line.alarm is not None]
        if named and not alarms:  # which floats may have rounded down
            alarms = [int(days[-1])]
        return cls(
            group=group,
            lines=tuple(sorted(lines, key=lambda line: (-line.now, line.site))),
            days=days,
            log_mean=mean,
            alarm=min(alarms, default=None),
            named=tuple(named),
            false_alarm=level,
            failures=math.fsum(line.failure for line in lines),
        )

    @property
    def now(self) -> float:
        """The evidence over all sites at the last day, as a logarithm."""
        return float(self.log_mean[-1])

    @property
    def counted(self) -> Sequence[Line]:
        """Lines in which every row counts once."""
        return [line for line in self.lines if line.site == ALL_SITES] or self.lines

    @property
    def sites(self) -> int:
        """How many sites there are."""
        return sum(line.site != ALL_SITES for line in self.lines) or 1

    @cached_property
    def pooled(self) -> Line:
        """The counts of all rows added up, against the mean of the limits by rows, with the mean of e-values."""
        counts = np.zeros((4, len(self.days)))
        for line in self.counted:
            place = np.searchsorted(line.days, self.days, side="right")
            own = np.stack([line.known, line.misses, line.waiting, line.sizes])
            counts += np.concatenate([np.zeros((4, 1)), own], axis=1)[:, place]
        known, misses, waiting, sizes = counts
        rows = [line.rows or 1 for line in self.counted]
        return Line(
            site=self.group or ALL_SITES,
            group=self.group,
            limit=float(np.average([line.limit for line in self.counted], weights=rows)),
            false_alarm=self.false_alarm,
            failure=self.failures,
            days=self.days,
            known=known,
            misses=misses,
            waiting=waiting,
            sizes=sizes,
            log_e=self.log_mean,
            alarm=self.alarm,
            said=Said(),
        )

    @property
    def chance(self) -> float:
        """The chance of ever raising a false alarm, at most, if sites are independent: d and all failures."""
        return min(1.0, self.false_alarm + self.failures)

    @property
    def doubtful(self) -> list[Line]:
        """Sites whose own watch raised the alarm, and that do not stand out among all; some do so by chance."""
        return [line for line in self.lines if line.alarm is not None and line.site not in self.named]


@dataclass(frozen=True, eq=False, kw_only=True)
class Combined:
    """All that the messages of one predictor say, for the page, for JSON and for the engines."""

    predictor: str
    first: int
    last: int
    all_rows: Together
    groups: tuple[Together, ...]
    named_groups: tuple[str, ...]
    gaps: tuple[Gap, ...]
    silent: tuple[Silent, ...]
    refused: tuple[Refused, ...]

    @property
    def alarm(self) -> bool:
        """Whether there is evidence enough, over all sites, at a site or in a group."""
        return self.all_rows.alarm is not None or bool(self.named_groups)

    @property
    def state(self) -> str:
        """One of alarm, in doubt, holds, too early."""
        if self.alarm:
            return "alarm"
        return "in doubt" if self.all_rows.doubtful else self.all_rows.pooled.state

    @property
    def since(self) -> int | None:
        """The day since when there is evidence enough."""
        together = [self.all_rows, *(one for one in self.groups if one.group in self.named_groups)]
        return min((one.alarm for one in together if one.alarm is not None), default=None)


def combine(
    periods: Iterable[Period],
    *,
    refused: Iterable[Refused] = (),
    moved: Callable[[int, int], object] | None = None,
) -> Combined:
    """Put the messages of all sites together; they must be about one predictor and not contradict each other.

    Args:
        periods: in any order; a message that comes twice counts once.
        refused: sites that were left out before, to be named.
        moved: is called with how many sites are done, of how many.

    >>> from fedconformal.monitoring.period import Stream, Tally
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
        raise InputError("there is no message of any site; each site makes one with monitor summarize")
    predictor = next(iter(by_site.values()))[0].predictor
    groups: dict[str, list[Line]] = {}
    for done, (_, sent) in enumerate(sorted(by_site.items())):
        for other in sent:
            check_predictor(other, predictor)
        for line in lines_of(sent):
            groups.setdefault(line.group, []).append(line)
        if moved is not None:
            moved(done + 1, len(by_site))
    found = [Together.of(group, groups[group]) for group in sorted(groups)]
    level = max(line.false_alarm for line in found[0].lines)
    named = standing_out({one.group: one.now for one in found[1:]}, false_share=level) if found[1:] else []
    last = max(period.last for sent in by_site.values() for period in sent)
    return Combined(
        predictor=predictor.hex(),
        first=min(period.first for sent in by_site.values() for period in sent),
        last=last,
        all_rows=found[0],
        groups=tuple(sorted(found[1:], key=lambda one: -one.now)),
        named_groups=tuple(named),
        gaps=tuple(gap for sent in by_site.values() for gap in _gaps(sent)),
        silent=tuple(one for sent in by_site.values() for one in _silent(sent, last)),
        refused=tuple(refused),
    )


def check_predictor(period: Period, predictor: bytes) -> None:
    """Refuse a message about another predictor."""
    if period.predictor != predictor:
        raise InputError(
            f"{shown(period.site)}: watches the predictor {period.predictor.hex()[:12]}, and others watch "
            f"{predictor.hex()[:12]}; combine the messages of one predictor at a time"
        )


def _gaps(sent: Sequence[Period]) -> Iterator[Gap]:
    ordered = sorted(sent, key=lambda one: one.first)
    end = ordered[0].last
    for period in ordered:
        if period.first > end + 1:
            yield Gap(period.site, end + 1, period.first - 1)
        end = max(end, period.last)


def _silent(sent: Sequence[Period], today: int) -> Iterator[Silent]:
    """Tell whether more than a usual period has passed since a site's last message, when others still sent."""
    usual = float(np.median([period.last - period.first + 1 for period in sent]))
    end = max(sent, key=lambda one: one.last)
    if today - end.last > usual:
        yield Silent(end.site, end.last)


def to_dict(found: Combined) -> dict[str, Any]:
    """Describe for JSON; evidence as natural logarithms, days as dates."""
    return {
        "state": found.state,
        "since": _date(found.since),
        "predictor": found.predictor,
        "first": _date(found.first),
        "last": _date(found.last),
        "all_rows": _together(found.all_rows),
        "groups": {one.group: _together(one) for one in found.groups},
        "named_groups": list(found.named_groups),
        "gaps": [{"site": gap.site, "first": _date(gap.first), "last": _date(gap.last)} for gap in found.gaps],
        "silent": [{"site": one.site, "last": _date(one.last)} for one in found.silent],
        "refused": [one._asdict() for one in found.refused],
    }


def _together(found: Together) -> dict[str, Any]:
    return {
        "log_e_value": found.now,
        "alarm_since": _date(found.alarm),
        "named_sites": list(found.named),
        "false_alarm": found.false_alarm,
        "failures": found.failures,
        "sites": {line.site: _plain(line) for line in found.lines},
    }


def _plain(line: Line) -> dict[str, Any]:
    said = {key: value for key, value in line.said._asdict().items() if value is not None}
    for key in said.keys() & {"changed", "unlabelled_changed"}:
        said[key] = {"alarm": _date(said[key][0]), "since": _date(said[key][1])}
    return {
        "state": line.state,
        "alarm_since": _date(line.alarm),
        "last": _date(int(line.days[-1])),
        "limit": line.limit,
        "known": int(line.known[-1]),
        "misses": float(line.misses[-1]),
        "waiting": int(line.waiting[-1]),
        "sizes": float(line.sizes[-1]),
        "coverage": line.coverage,
        "interval": list(line.interval),
        "log_e_value": line.now,
        "site_says": said,
    }


def _date(day: int | None) -> str | None:
    return None if day is None else day_of(day).isoformat()
