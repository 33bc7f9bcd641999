"""From the days of a watch to the messages that a site sends of a period."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from fedconformal.errors import InputError
from fedconformal.monitoring.changes import LABELLED, UNLABELLED
from fedconformal.monitoring.period import MOST_STREAMS, Period, Stream, Tally, day_of
from fedconformal.monitoring.streams import CLASS, SITE, WHOLE, State

if TYPE_CHECKING:
    from fedconformal.monitoring.store import Watch

ALL_SITES = "all sites"
"""What rows of all sites together are called where a message names a site."""


def days(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Return the first day and the last day on which anything came."""
    first, last = connection.execute("SELECT min(day), max(day) FROM tallies WHERE stream = 0").fetchone()
    return None if first is None else (first, last)


def periods(watch: Watch, connection: sqlite3.Connection, first: int | None, last: int | None) -> list[Period]:
    """Return what is sent of a period, by default of all days: one message of all rows and groups, one of each site.

    Only streams with a limit are in it.
    """
    there = days(connection)
    if there is None:
        raise InputError(f"{watch.path}: nothing was added so far, so there is nothing to send")
    first, last = there[0] if first is None else first, there[1] if last is None else last
    if last < first:
        raise InputError(f"the period ends on {day_of(last)}, before it begins on {day_of(first)}")
    states = [state for state in watch.states() if state.limit is not None]
    before, after = _tallies(connection, first - 1), _tallies(connection, last)
    found: list[tuple[str, list[Stream]]] = [(watch.settings.site or ALL_SITES, [])]
    for state in states:
        stream = _stream(watch, state, before, after, last)
        if state.kind == SITE:
            if state.number in after:
                found.append((state.name, [stream]))
        else:
            found[0][1].append(stream)
    if len(found[0][1]) > MOST_STREAMS:
        raise InputError(f"there are more than {MOST_STREAMS} groups, which is more than a message holds")
    digest = bytes.fromhex(watch.settings.predictor)
    return [Period(digest, site, first, last, tuple(streams)) for site, streams in found]


def _tallies(connection: sqlite3.Connection, day: int) -> dict[int, Tally]:
    """Return the counts of each stream at the end of a day."""
    query = (
        "SELECT stream, known, misses, waiting, sizes FROM tallies AS t WHERE day = "
        "(SELECT max(day) FROM tallies WHERE stream = t.stream AND day <= ?)"
    )
    return {stream: Tally(*row) for stream, *row in connection.execute(query, (day,))}


def _stream(watch: Watch, state: State, before: dict[int, Tally], after: dict[int, Tally], last: int) -> Stream:
    name = "" if state.kind in (WHOLE, SITE) else f"class={state.name}" if state.kind == CLASS else state.name
    raised = state.alarm_day if state.alarm_day is not None and state.alarm_day <= last else None
    changes = {}
    if state.kind == WHOLE:
        for detector, value, when in (
            (LABELLED, "change", "changed"),
            (UNLABELLED, "unlabelled", "unlabelled_changed"),
        ):
            changes[value], changes[when] = watch.changes.at(detector, last)
    return Stream(
        limit=state.limit or 0.0,
        false_alarm=state.false_alarm,
        failure=state.failure,
        before=before.get(state.number, Tally()),
        after=after.get(state.number, Tally()),
        group=name,
        alarm=raised,
        **changes,  # type: ignore[arg-type]
    )
