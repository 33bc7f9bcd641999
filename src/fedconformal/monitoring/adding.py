"""What one transaction does with rows and outcomes: sort out which count, and let them happen one after the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from fedconformal._base.arrays import Booleans, Floats, Integers
from fedconformal._base.names import shown
from fedconformal.certificates.text import ClassNames, class_called
from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.monitoring.changes import LABELLED, UNLABELLED, Changes
from fedconformal.monitoring.places import Places
from fedconformal.monitoring.rows import Kind, Outcomes, Predicted, label_scores, missed, set_sizes
from fedconformal.monitoring.streams import CLASS, Events, moved, parted

T = TypeVar("T")

DAY = 86_400
THERE = "SELECT id FROM rows WHERE id IN (SELECT value FROM json_each(?))"
ROWS = "SELECT id, time, cell, held, outcome FROM rows WHERE id IN (SELECT value FROM json_each(?))"
EARLY = "SELECT id, time, outcome FROM early WHERE id IN (SELECT value FROM json_each(?))"
MOVE = "UPDATE streams SET known = ?, misses = ?, waiting = ?, sizes = ?, alarm_at = ?, alarm_day = ? WHERE number = ?"


class Progress(Protocol):
    """Goes through items and shows how far it is; a million rows take more than a moment."""

    def __call__(self, items: Iterable[T], label: str, total: int) -> Iterable[T]:
        """Give the items, one after the other."""


def unseen(items: Iterable[T], label: str, total: int) -> Iterable[T]:  # noqa: ARG001
    """Go through items and show nothing."""
    return items


@dataclass
class Settled:
    """Outcomes that count now, in the order in which they came: of which rows, and what was kept of these."""

    ids: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    held: list[bytes] = field(default_factory=list)

    def add(self, name: str, time: float, value: float, row: tuple[float, int, bytes]) -> None:
        """Add one; it comes no sooner than its row."""
        then, cell, held = row
        self.ids.append(name)
        self.times.append(max(time, then))
        self.values.append(value)
        self.cells.append(cell)
        self.held.append(held)


def insert(
    connection: sqlite3.Connection,
    rows: Predicted,
    cells: Integers,
    held: Sequence[bytes],
    progress: Progress = unseen,
) -> None:
    """Keep rows until their outcomes come; an id that is there already is refused."""
    there = next(schema.looked_up(connection, THERE, list(rows.ids)), None)
    if there is not None:
        raise InputError(f"rows: the id {shown(there[0])} is there already; add each row once")
    values = zip(rows.ids, rows.times.tolist(), cells.tolist(), held, strict=True)
    kept = progress(values, "adding rows", len(cells))
    connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, NULL)", kept)


def settle(
    connection: sqlite3.Connection, rows: Predicted | None, outcomes: Outcomes, progress: Progress = unseen
) -> tuple[Settled, dict[str, int]]:
    """Sort out which outcomes count now, and keep those of rows that are yet to come; count the others."""
    counts = dict.fromkeys(("counted", "repeated", "conflicting", "early"), 0)
    found, new = Settled(), () if rows is None else rows.ids
    early = {name: (time, value) for name, time, value in schema.looked_up(connection, EARLY, list(new))}
    asked = [*outcomes.ids, *early]
    found_rows = progress(schema.looked_up(connection, ROWS, asked), "finding the rows of outcomes", len(asked))
    there = {name: row for name, *row in found_rows}
    lacking = [name for name in outcomes.ids if name not in there]
    known = {name: value for name, _, value in schema.looked_up(connection, EARLY, lacking)}
    for name, (time, value) in early.items():
        then, cell, held, _ = there[name]
        found.add(name, time, value, (then, cell, held))
        known[name] = value
    kept = []
    for name, time, value in zip(outcomes.ids, outcomes.times.tolist(), outcomes.values.tolist(), strict=True):
        row = there.get(name)
        before = known.get(name) if row is None or row[3] is None else row[3]
        if before is not None:
            counts["repeated" if before == value else "conflicting"] += 1
        elif row is None:
            counts["early"] += 1
            kept.append((name, time, value))
        else:
            found.add(name, time, value, (row[0], row[1], row[2] or b""))
    counts["counted"] = len(found.ids)
    connection.executemany("INSERT INTO early VALUES (?, ?, ?)", kept)
    connection.executemany("DELETE FROM early WHERE id = ?", [(name,) for name in early])
    settled = progress(zip(found.values, found.ids, strict=True), "adding outcomes", len(found.ids))
    connection.executemany("UPDATE rows SET outcome = ?, held = NULL WHERE id = ?", settled)
    return found, counts


@dataclass(frozen=True, kw_only=True)
class Happening:
    """Rows and outcomes of one transaction, and the order in which they happen.

    By their times: rows before outcomes of the same time. `days` are in that order, never before the last day so far.
    """

    rows: Predicted | None
    cells: Integers
    outcomes: Settled
    order: Integers
    days: Integers

    @classmethod
    def of(cls, rows: Predicted | None, cells: Integers, outcomes: Settled, last: int) -> Happening:
        """Put all in order."""
        times = np.concatenate([np.empty(0) if rows is None else rows.times, outcomes.times])
        kinds = np.repeat([0, 1], [len(cells), len(outcomes.ids)])
        order = np.lexsort((kinds, times))
        days = np.maximum(np.floor(times[order] / DAY).astype(np.int64), last)
        return cls(rows=rows, cells=cells, outcomes=outcomes, order=order, days=days)

    def in_order(self, of_rows: Floats | Integers, of_outcomes: Floats | Integers) -> Floats:
        """Put a number of each row and of each outcome in order."""
        found: Floats = np.concatenate([of_rows, of_outcomes])[self.order]
        return found

    def happen(
        self,
        connection: sqlite3.Connection,
        places: Places,
        changes: Changes,
        *,
        kind: Kind,
        width: int,
        labels: ClassNames,
    ) -> int:
        """Move all streams, tallies and detectors on; return how many rows have no scores to look for changes in."""
        none, values = np.zeros(len(self.cells)), np.array(self.outcomes.values)
        lost = missed(kind, self.outcomes.held, values, width)
        known = self.order >= len(self.cells)
        sizes = none if self.rows is None else self.rows.sizes
        events = Events(self.days, known, self.in_order(none, lost), self.in_order(sizes, np.zeros(len(values))))
        cells = self.in_order(self.cells, np.array(self.outcomes.cells, dtype=np.int64)).astype(np.int64)
        index = dict(parted(cells, places.streams(cells)))
        states = places.states([0, *index])
        done = [moved(states[0], events), *(moved(states[one], events.some(mine)) for one, mine in index.items())]
        classes = places.of_kind(CLASS)
        if classes:
            number = {class_called(label, labels): label for label in range(width)}
            truth = self.in_order(none - 1, values)
            own_sizes = self.in_order(none, set_sizes(self.outcomes.held, width))
            waiting = states[0].waiting + np.cumsum(np.where(known, -1, 1))
            for state in classes:
                mine = truth == number[state.name]
                lost_here, sized = (np.where(mine, column, 0.0) for column in (events.missed, own_sizes))
                done.append(moved(state, Events(self.days, mine, lost_here, sized), waiting))
        connection.executemany(MOVE, [one.state.values for one in done])
        tallies = [row for one in done for row in one.tallies]
        connection.executemany("INSERT OR REPLACE INTO tallies VALUES (?, ?, ?, ?, ?, ?)", tallies)
        return self._changes(changes, values, known, width)

    def _changes(self, changes: Changes, values: Floats, known: Booleans, width: int) -> int:
        there, unscored = changes.names(), 0
        if UNLABELLED in there and self.rows is not None:
            if self.rows.scores is None:
                unscored = len(self.cells)
            else:
                lowest = self.rows.scores.min(axis=1)
                changes.move(UNLABELLED, lowest[self.order[~known]], self.days[~known])
        if LABELLED in there and len(values):
            scores, kept = label_scores(self.outcomes.held, values, width)
            place = self.order[known] - len(self.cells)
            mine = place[kept[place]]
            changes.move(LABELLED, scores[(np.cumsum(kept) - 1)[mine]], self.days[known][kept[place]])
        return unscored
