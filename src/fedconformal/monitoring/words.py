"""What the messages of all sites say, in words: does the promise hold, where not, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Iterator

from fedconformal._base.names import listed
from fedconformal.monitoring.combine import Combined
from fedconformal.monitoring.line import Line
from fedconformal.monitoring.period import day_of
from fedconformal.monitoring.together import Together
from fedconformal.monitoring.verdict import EARLY, HOLDS

MUCH = 0.5
"""Rows that wait are spoken of from this share on."""


def sentence(found: Combined) -> str:
    """Say in one sentence whether the promise holds."""
    together, line = found.all_rows, found.all_rows.pooled
    sites, known = count(together.sites, "site"), int(line.known[-1])
    if found.alarm:
        return f"alarm since {date(found.since)} {where(found)}: more rows are missed than the limit allows"
    if found.state == "in doubt":
        doubtful = found.all_rows.doubtful
        names = listed([f"{line.site} (since {date(line.alarm)})" for line in doubtful])
        return f"in doubt: the own watch of {names} raised the alarm, too weak to stand out among {sites}"
    if found.state == HOLDS:
        most = f"at most {1 - line.interval[0]:.1%} of rows are missed, and the limit is {line.limit:.1%}"
        return f"holds: {most} ({count(known, 'outcome')} at {sites})"
    if not known:
        return f"too early: no row has an outcome yet at {sites}"
    low, high = (1 - end for end in line.interval[::-1])
    return f"too early: between {low:.1%} and {high:.1%} of rows are missed ({count(known, 'outcome')} at {sites})"


def where(found: Combined) -> str:
    """Say where the evidence is enough."""
    groups = f"in the group {listed(found.named_groups)}" if found.named_groups else ""
    if found.all_rows.alarm is None:
        return groups
    named = found.all_rows.named
    at = f"at {listed(named)}" if named else f"over {count(found.all_rows.sites, 'site')} together"
    return f"{at} and {groups}" if groups else at


def chance(found: Together) -> str:
    """Say how often such an alarm is false."""
    if found.chance >= 1:
        return (
            f"The chances that limits of the sites do not hold add up to {found.failures:.3g}, so nothing is promised "
            "about false alarms: start each watch with a failure that is divided by the number of sites."
        )
    return (
        f"While the promise holds, an alarm over all sites is ever raised with probability {found.chance:.3g} at most "
        f"({found.false_alarm:.3g}, and {found.failures:.3g} for limits that may fail), if sites are independent. Of "
        f"the sites that are named, at most a share {found.chance:.3g} is named wrongly on average."
    )


def to_do(found: Combined) -> list[str]:
    """List what follows, the most urgent first."""
    return [*_about_evidence(found), *_about_messages(found)]


def _about_evidence(found: Combined) -> Iterator[str]:
    together = found.all_rows
    if found.alarm:
        yield f"Do not rely on the sets {where(found)} until the cause is found: new patients, devices, a new model?"
        if not together.named and together.alarm is not None:
            first = listed([line.site for line in together.lines], most=3)
            yield f"No site stands out by itself. Begin with those on top of the list: {first}."
        yield "Then recalibrate with new rows, not with those that raised the alarm."
    if together.doubtful and len(together.lines) > 1:
        often = math.fsum(line.false_alarm + line.failure for line in together.lines)
        names = listed([f"{line.site} (since {date(line.alarm)})" for line in together.doubtful], most=3)
        yield f"Look at {names}: the own watch raised the alarm there. Up to {often:.2g} sites do so by chance."
    changed = [line for line in together.lines if line.said.changed or line.said.unlabelled_changed]
    for line in changed[:3]:
        _, since = line.said.changed or line.said.unlabelled_changed or (0, 0)
        yield f"Ask {line.site} what changed: by its own word its scores differ since {date(since)}."
    if found.state == EARLY:
        yield from _too_early(together.pooled)
    if found.state == HOLDS:
        yield "Use the sets. Combine again when the next messages come."


def _too_early(line: Line) -> Iterator[str]:
    if not line.known[-1]:
        yield f"Send outcomes: {count(line.rows, 'row')} wait for one. Without them nobody sees if the promise holds."
    elif line.needed is None:
        yield "Go on, and look at the sites on top of the list: rows are missed as often as the limit or more, so far."
    else:
        yield f"Go on: if rows are missed as often as so far, about {line.needed:,} outcomes show that it holds."


def _about_messages(found: Combined) -> Iterator[str]:
    line = found.all_rows.pooled
    rows, waiting = line.rows, int(line.waiting[-1])
    if line.known[-1] and waiting >= MUCH * rows:
        late = "have no outcome yet and count as covered, so an alarm comes late: send more outcomes."
        yield f"{waiting / rows:.0%} of the rows {late}"
    if found.refused:
        yield f"Ask {listed([one.site for one in found.refused])} for good messages: what they sent is left out here."
    if found.silent:
        yield f"Ask {listed([f'{one.site} (since {date(one.last)})' for one in found.silent])} why no message comes."
    if found.withheld:
        sites = listed(sorted({one.site for one in found.withheld}))
        yield f"Groups, classes or sites are withheld by {sites}: too few outcomes, which is not none."
    if found.gaps:
        gaps = [f"{gap.site} ({date(gap.first)} to {date(gap.last)})" for gap in found.gaps]
        yield f"Messages are missing: {listed(gaps, most=3)}. No count is lost, but nobody sees what was when."


def date(day: int | None) -> str:
    """Write a day as a date."""
    return "" if day is None else day_of(day).isoformat()


def count(number: int, what: str) -> str:
    """Write a number of things.

    >>> count(1, "site"), count(1200, "row")
    ('1 site', '1,200 rows')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"
