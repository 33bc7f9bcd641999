"""Text about the status of a watch and about the combination of sites."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from fedconformal._base.names import join_names, plural
from fedconformal.monitoring.change import ChangeDetector
from fedconformal.monitoring.combine import Combined, CombinedEvidence, SiteHistory
from fedconformal.monitoring.events import Counts, StreamState
from fedconformal.monitoring.messages import day_of
from fedconformal.monitoring.monitor import ALARM, EARLY, HOLDS


@dataclass(frozen=True, kw_only=True)
class Status:
    """State of a watch: streams, change detector and counts over all calls."""

    streams: list[StreamState]
    counts: Counts
    days: tuple[int, int] | None
    """First and last day with rows or outcomes, in days since 1970."""
    detector: ChangeDetector | None
    changed: int | None

    @property
    def verdict(self) -> str:
        """Alarm if any stream has an alarm, else the verdict on all rows."""
        return ALARM if any(stream.verdict == ALARM for stream in self.streams) else self.streams[0].verdict

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        raised = [stream for stream in self.streams if stream.verdict == ALARM]
        whole = self.streams[0]
        if raised:
            first = min(raised, key=lambda stream: stream.alarm_day or math.inf)
            more = f", and of {len(raised) - 1} more" if raised[1:] else ""
            return f"The promise is not kept: alarm of {first.called} since {date(first.alarm_day)}{more}."
        if whole.verdict == HOLDS:
            limit = f"the limit is {whole.limit:.4g}"
            return f"The promise holds: at most {whole.interval[1]:.4g} of the rows are missed, {limit}."
        low, high = whole.interval
        known = f"{whole.known} outcomes are known, {whole.waiting} rows wait"
        return f"It is too early to tell: {known}, and between {low:.4g} and {high:.4g} of the rows are missed."

    @property
    def scores(self) -> str:
        """State of the change detector in words; empty without a detector."""
        if self.detector is None:
            return ""
        if self.changed is None:
            return f"No change of scores detected in {self.detector.rows} rows."
        return f"Scores have changed, detected on {date(self.changed)}."

    def to_dict(self) -> dict[str, Any]:
        """Return the status for JSON."""
        change = self.detector and {"rows": self.detector.rows, "log_e_value": self.detector.log_e_value}
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "streams": list(map(_stream, self.streams)),
            "scores": change and {**change, "changed": date(self.changed) or None},
            "counts": msgspec.structs.asdict(self.counts),
        }


def _stream(stream: StreamState) -> dict[str, Any]:
    return {
        **asdict(stream),
        "verdict": stream.verdict,
        "miss_rate": stream.misses / stream.known if stream.known else None,
        "interval": list(stream.interval),
        "log_e_value": stream.log_e_value,
        "alarm_day": date(stream.alarm_day) or None,
    }


def sentence(found: Combined) -> str:
    """Return one sentence on whether the promise holds."""
    line = found.all_rows.pooled
    sites, known = plural(found.all_rows.sites, "site"), int(line.known[-1])
    if found.alarm:
        return f"alarm since {date(found.since)} {where(found)}: more rows are missed than the limit allows"
    if found.state == "in doubt":
        doubtful = found.all_rows.doubtful
        names = join_names([f"{line.site} (since {date(line.alarm)})" for line in doubtful])
        return f"in doubt: {names} raised an alarm, which is not significant among {sites}"
    if found.state == HOLDS:
        most = f"at most {1 - line.interval[0]:.1%} of rows are missed, and the limit is {line.limit:.1%}"
        return f"holds: {most} ({plural(known, 'outcome')} at {sites})"
    if not known:
        return f"too early: no row has an outcome yet at {sites}"
    low, high = (1 - end for end in line.interval[::-1])
    return f"too early: between {low:.1%} and {high:.1%} of rows are missed ({plural(known, 'outcome')} at {sites})"


def where(combined: Combined) -> str:
    """Return the sites and groups with enough evidence, in words."""
    groups = f"in the group {join_names(combined.named_groups)}" if combined.named_groups else ""
    if combined.all_rows.alarm is None:
        return groups
    named = combined.all_rows.named
    at = f"at {join_names(named)}" if named else f"over {plural(combined.all_rows.sites, 'site')} together"
    return f"{at} and {groups}" if groups else at


def chance(total: CombinedEvidence) -> str:
    """Return sentences on the false alarm probability."""
    if total.chance >= 1:
        return (
            f"The probabilities that limits of the sites fail add up to {total.failures:.3g}, so nothing is promised "
            "about false alarms: start each watch with a failure probability divided by the number of sites."
        )
    return (
        f"While the promise holds, an alarm over all sites is ever raised with probability {total.chance:.3g} at most "
        f"({total.false_alarm:.3g}, and {total.failures:.3g} for limits that may fail), if sites are independent. Of "
        f"the sites that are named, at most a share {total.chance:.3g} is named wrongly on average."
    )


def to_do(combined: Combined) -> list[str]:
    """Return the recommended next steps, the most urgent first."""
    return [*_about_evidence(combined), *_about_messages(combined)]


def _about_evidence(combined: Combined) -> Iterator[str]:
    together = combined.all_rows
    if combined.alarm:
        yield f"Do not rely on the sets {where(combined)} until the cause is found: new patients, devices, a new model?"
        if not together.named and together.alarm is not None:
            first = join_names([line.site for line in together.histories], most=3)
            yield f"No site stands out by itself. Begin at the top of the list: {first}."
        yield "Then recalibrate with new rows, not with those that raised the alarm."
    if together.doubtful and len(together.histories) > 1:
        often = math.fsum(line.false_alarm + line.failure for line in together.histories)
        names = join_names([f"{line.site} (since {date(line.alarm)})" for line in together.doubtful], most=3)
        yield f"Look at {names}, whose own watch raised an alarm. Up to {often:.2g} sites do so by chance."
    for line in [line for line in together.histories if line.changed is not None][:3]:
        yield f"Ask {line.site} what changed: it reports that its scores differ, detected on {date(line.changed)}."
    if combined.state == EARLY and together.pooled.state == HOLDS:
        others = "the others do not show yet that the promise holds: wait for more outcomes there."
        yield f"Without {together.decisive} {others}"
    elif combined.state == EARLY and not together.pooled.known[-1]:
        waiting = plural(together.pooled.rows, "row")
        yield f"Send outcomes: {waiting} wait for one. Without them it is unknown whether the promise holds."
    elif combined.state == EARLY:
        yield "Continue, and combine again when there are more outcomes."
    if combined.state == HOLDS:
        yield "Use the sets. Combine again when the next messages arrive."


def _about_messages(combined: Combined) -> Iterator[str]:
    line = combined.all_rows.pooled
    rows, waiting = line.rows, int(line.waiting[-1])
    if line.known[-1] and 2 * waiting >= rows:
        late = "have no outcome yet and count as covered, so an alarm comes late: send more outcomes."
        yield f"{waiting / rows:.0%} of the rows {late}"
    for site, reason in combined.refused[:3]:
        yield f"{site} is left out, as it {reason}."
    if combined.refused[3:]:
        yield f"{len(combined.refused)} sites are left out in all."
    if combined.silent:
        sites = join_names([f"{item.site} (since {date(int(item.days[-1]))})" for item in combined.silent])
        yield f"Ask {sites} why no message arrives."
    if combined.withheld:
        sites = join_names(sorted({item.site for item in combined.withheld}))
        yield f"Groups, classes or sites are withheld by {sites}: there are too few outcomes, not zero."


def to_dict(found: Combined) -> dict[str, Any]:
    """Return a combination for JSON; evidence as natural logarithms, days as dates."""
    return {
        "state": found.state,
        "since": date(found.since) or None,
        "predictor": found.predictor,
        "first": date(found.first),
        "last": date(found.last),
        "all_rows": _evidence(found.all_rows),
        "groups": {one.group: _evidence(one) for one in found.groups},
        "named_groups": list(found.named_groups),
        "withheld": [{"site": one.site, "days": [date(one.first), date(one.last)]} for one in found.withheld],
        "silent": [one.site for one in found.silent],
        "refused": [one._asdict() for one in found.refused],
    }


def _evidence(evidence: CombinedEvidence) -> dict[str, Any]:
    return {
        "log_e_value": evidence.now,
        "alarm_since": date(evidence.alarm) or None,
        "named_sites": list(evidence.named),
        "false_alarm": evidence.false_alarm,
        "failures": evidence.failures,
        "sites": {history.site: _history(history) for history in evidence.histories},
    }


def _history(history: SiteHistory) -> dict[str, Any]:
    counts = {name: float(getattr(history, name)[-1]) for name in ("known", "misses", "waiting", "sizes")}
    return {
        "state": history.state,
        "alarm_since": date(history.alarm) or None,
        "last": date(int(history.days[-1])),
        "limit": history.limit,
        **counts,
        "coverage": history.coverage,
        "interval": list(history.interval),
        "log_e_value": history.now,
        "scores_changed": date(history.changed) or None,
    }


def date(day: int | None) -> str:
    """Format a day as a date."""
    return "" if day is None else day_of(day).isoformat()
