"""From the days of a watch to the messages that a site sends of a period."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from fedconformal.errors import InputError
from fedconformal.monitoring.changes import LABELLED, UNLABELLED, Changes
from fedconformal.monitoring.period import ALL_SITES, MOST_STREAMS, Period, Stream, Tally, day_of
from fedconformal.monitoring.streams import CLASS, SITE, WHOLE, State

Tallies = dict[int, Tally]


class Span(NamedTuple):
    """A period: its first day, its last day, and the first day that groups, classes and sites count from.

    The last is before the period if these were withheld since then; None if they are withheld now. All of them go
    together: the rows of one that is missing would be those of all rows without the others.
    """

    first: int
    last: int
    since: int | None


def days(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Return the first day and the last day on which anything came."""
    first, last = connection.execute("SELECT min(day), max(day) FROM tallies WHERE stream = 0").fetchone()
    return None if first is None else (first, last)


def periods(
    connection: sqlite3.Connection,
    states: Sequence[State],
    changes: Changes,
    predictor: str,
    site: str | None,
    span: Span,
) -> list[Period]:
    """Return what is sent of a period: one message of all rows, groups and classes, and one of each site.

    Only streams with a limit are in it.
    """
    first, last, since = span
    if last < first:
        raise InputError(f"the period ends on {day_of(last)}, before it begins on {day_of(first)}")
    before, after = _tallies(connection, first - 1), _tallies(connection, last)
    before_parts = before if since is None or since == first else _tallies(connection, since - 1)
    together: list[Stream] = []
    found, withheld = [(site or ALL_SITES, together)], False
    for state in states:
        if state.limit is None or (state.kind == SITE and state.number not in after):
            continue
        if state.kind != WHOLE and since is None:
            withheld = True
            continue
        stream = _stream(state, changes, before if state.kind == WHOLE else before_parts, after, last)
        if state.kind != SITE:
            together.append(stream)
        else:
            found.append((state.name, [stream]))
    if len(together) > MOST_STREAMS:
        raise InputError(f"there are more than {MOST_STREAMS} groups, which is more than a message holds")
    digest = bytes.fromhex(predictor)
    return [Period(digest, name, first, last, tuple(streams), withheld) for name, streams in found]


def has_small_parts(found: Sequence[Period], least: int) -> bool:
    """Whether a group, a class or a site has new outcomes and fewer than `least`, or all rows but its own have."""
    whole, *parts = (stream.new for one in found for stream in one.streams)
    return any(0 < few < least for new in parts for few in (new, whole - new))


def _tallies(connection: sqlite3.Connection, day: int) -> Tallies:
    """Return the counts of each stream at the end of a day."""
    query = (
        "SELECT stream, known, misses, waiting, sizes FROM tallies AS t WHERE day = "
        "(SELECT max(day) FROM tallies WHERE stream = t.stream AND day <= ?)"
    )
    return {stream: Tally(*row) for stream, *row in connection.execute(query, (day,))}


def _stream(state: State, changes: Changes, before: Tallies, after: Tallies, last: int) -> Stream:
    name = {WHOLE: "", SITE: "", CLASS: f"class={state.name}"}.get(state.kind, state.name)
    whole = state.kind == WHOLE
    change, changed = changes.at(LABELLED, last) if whole else (None, None)
    unlabelled, unlabelled_changed = changes.at(UNLABELLED, last) if whole else (None, None)
    return Stream(
        limit=state.limit or 0.0,
        false_alarm=state.false_alarm,
        failure=state.failure,
        before=before.get(state.number, Tally()),
        after=after.get(state.number, Tally()),
        group=name,
        alarm=state.alarm_day if state.alarm_day is not None and state.alarm_day <= last else None,
        change=change,
        changed=changed,
        unlabelled=unlabelled,
        unlabelled_changed=unlabelled_changed,
    )
