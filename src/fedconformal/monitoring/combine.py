"""What the coordinator knows from the messages of all sites: does the promise hold, which sites, since when.

Nothing that can be worked out from counts is taken from a message. `together.py` says how sites count together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from fedconformal._base.names import name_key, shown
from fedconformal.errors import InputError
from fedconformal.monitoring.line import Line, lines_of_sites
from fedconformal.monitoring.period import Period, day_of
from fedconformal.monitoring.sites import standing_out
from fedconformal.monitoring.together import Together
from fedconformal.monitoring.verdict import ALARM


class Gap(NamedTuple):
    """Days of a site of which no message speaks; its counts go on behind them."""

    site: str
    first: int
    last: int


class Withheld(NamedTuple):
    """A period of a site whose groups, classes or sites it did not send, as one of them has too few outcomes."""

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
class Combined:
    """All that the messages of one predictor say, for the page, for JSON and for the engines."""

    predictor: str
    first: int
    last: int
    all_rows: Together
    groups: tuple[Together, ...]
    named_groups: tuple[str, ...]
    gaps: tuple[Gap, ...]
    withheld: tuple[Withheld, ...]
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
            return ALARM
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
        raise InputError("there is no message of any site; ask the sites for theirs")
    predictor = next(iter(by_site.values()))[0].predictor
    for sent in by_site.values():
        for period in sent:
            check_predictor(period, predictor)
    groups: dict[str, list[Line]] = {}
    for done, lines in enumerate(lines_of_sites(by_site[key] for key in sorted(by_site)), 1):
        for line in lines:
            groups.setdefault(line.group, []).append(line)
        if moved is not None:
            moved(done, len(by_site))
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
        withheld=tuple(
            Withheld(one.site, one.first, one.last)
            for sent in by_site.values()
            for one in sorted(set(sent), key=lambda one: one.first)
            if one.withheld
        ),
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
    usual = median(period.last - period.first + 1 for period in sent)
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
        "withheld": [{"site": one.site, "first": _date(one.first), "last": _date(one.last)} for one in found.withheld],
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
