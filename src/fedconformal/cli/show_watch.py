"""What the files of a watch hold: the messages of periods, and the watch itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedconformal._base.names import plural
from fedconformal.monitoring.messages import LENGTH, MAGIC, day_of, read_periods
from fedconformal.monitoring.store import Watch

SQLITE = b"SQLite format 3\0"


def is_periods(data: bytes) -> bool:
    """Whether this is a file of messages of periods."""
    return data[LENGTH : LENGTH + len(MAGIC)] == MAGIC


def describe_periods(data: bytes) -> tuple[str, dict[str, Any], list[str]]:
    """Say what a site sends of a period, and what that shows."""
    periods = read_periods(data)
    last = periods[-1]
    whole = last.streams[0]
    holds = {
        "messages": len(periods),
        "sites": sorted({period.site for period in periods}),
        "from": str(day_of(min(period.first for period in periods))),
        "to": str(day_of(max(period.last for period in periods))),
        "predictor": last.predictor.hex(),
        "limit on misses": whole.limit,
        "outcomes known at the end": whole.after.known,
        "missed": whole.after.misses,
        "rows that wait": whole.after.waiting,
        "groups": "withheld: too few outcomes" if last.withheld else [stream.group for stream in last.streams[1:]],
    }
    learns = (
        "Anyone with this file learns how many rows the site answered and how many were missed, and the mean size of "
        "sets, of all rows and of each group, period by period; and since when its scores differ, if they do. Nothing "
        "about a row."
    )
    stated = {name: value for name, value in holds.items() if value != []}
    return f"what a site sends of {plural(len(periods), 'period')} of a watch", stated, [learns]


def describe_watch(file: Path) -> tuple[str, dict[str, Any], list[str]]:
    """Say what the file of a watch holds."""
    with Watch.open(file) as watch:
        status, settings, days = watch.status(), watch.settings, watch.days()
    holds = {
        "state": status.sentence,
        "predictor": settings.predictor,
        "site": settings.site,
        "days": None if days is None else f"{day_of(days[0])} to {day_of(days[1])}",
        **{name.replace("_", " "): number for name, number in status.counts.items() if number},
    }
    learns = (
        "Anyone with this file learns the id, time, site and groups of every row that is kept, its set until its label "
        "comes, and then its label. Keep it where it is; a site sends what monitor summarize writes."
    )
    return "a watch over a predictor", {name: value for name, value in holds.items() if value is not None}, [learns]
