"""The lines of all sites as one: the mean of their e-values, which sites stand out, and rows added up.

A site counts as one before its first message. That the mean ever reaches 1 / d has probability d at most if sites are
independent. e-BH names sites by what their evidence is worth now, all at one time, and never by the largest so far; it
names no site unless the mean is at least 1 / d. What the limits of the sites may fail adds up (`failures`).

d is the chance d_k that sites watch with. Where they differ, sites count in proportion to theirs, and d is the largest.
A watch over several sites divides its chance among them beforehand; then d is the sum, so that the mean is at least
1 / d as soon as one site's e-value is at least 1 / d_k: its own alarm is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.monitoring.line import Line, Said
from fedconformal.monitoring.period import ALL_SITES
from fedconformal.monitoring.sites import log_mean, standing_out


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
