"""Which streams a row is in, besides that of all rows: its site's, its groups'.

Rows keep the number of a cell, which is a combination of streams: a few that very many rows share.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

import numpy as np

from fedconformal._base.arrays import Integers
from fedconformal._base.groups import ALL, members
from fedconformal._base.names import as_name, name_key, shown
from fedconformal.errors import InputError
from fedconformal.monitoring import schema
from fedconformal.monitoring.period import MOST_STREAMS
from fedconformal.monitoring.rows import Predicted
from fedconformal.monitoring.streams import GROUP, SITE, State

MOST_SITES = 100_000
ALL_STREAMS = "SELECT * FROM streams ORDER BY number"
SOME_STREAMS = "SELECT * FROM streams WHERE number IN (SELECT value FROM json_each(?))"
OF_KIND = "SELECT * FROM streams WHERE kind = ? ORDER BY number"


class Places:
    """The streams and cells of one file; new sites and groups get a stream without a limit, which only counts."""

    def __init__(self, connection: sqlite3.Connection, site: str | None, false_alarm: float) -> None:
        self._connection, self._site, self._false_alarm = connection, site, false_alarm
        self._cells: dict[tuple[int, ...], int] = {}

    def forget(self) -> None:
        """Read anew what a transaction that failed had added."""
        self._cells.clear()

    def cells(self, rows: Predicted) -> Integers:
        """Return the cell of each row."""
        columns: list[Integers] = []
        sites = [None if site is None else name_key(site) for site in rows.sites or ()]
        if self._site is not None:
            other = next((site for site in sites if site not in (None, self._site)), None)
            if other is not None:
                raise InputError(f"a row is of site {shown(other)}, and the watch is over site {self._site} alone")
        elif sites:
            numbers = self._numbers(SITE, {site for site in sites if site is not None}, MOST_SITES)
            columns.append(np.array([-1 if site is None else numbers[site] for site in sites]))
        if rows.groups:
            found = {name: index for name, index in members(rows.groups, rows=len(rows.ids)).items() if name != ALL}
            numbers = self._numbers(GROUP, found, MOST_STREAMS - 1)
            for name, index in found.items():
                inside = np.full(len(rows.ids), -1)
                inside[index] = numbers[name]
                columns.append(inside)
        if not columns:
            return np.full(len(rows.ids), self._cell(()))
        kinds, places = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        cells = [self._cell(tuple(one for one in kind if one >= 0)) for kind in kinds.tolist()]
        return np.array(cells, dtype=np.int64)[places.ravel()]

    def streams(self, cells: Integers) -> dict[int, tuple[int, ...]]:
        """Return the streams of each cell that is there."""
        query = "SELECT number, streams FROM cells WHERE number IN (SELECT value FROM json_each(?))"
        found = schema.looked_up(self._connection, query, np.unique(cells).tolist())
        return {number: tuple(json.loads(text)) for number, text in found}

    def states(self, numbers: list[int]) -> dict[int, State]:
        """Return streams by their numbers."""
        return {row[0]: State(*row) for row in schema.looked_up(self._connection, SOME_STREAMS, numbers)}

    def of_kind(self, kind: str) -> list[State]:
        """Return the streams of one kind."""
        return [State(*row) for row in self._connection.execute(OF_KIND, (kind,))]

    def _numbers(self, kind: str, names: Iterable[str], most: int) -> dict[str, int]:
        there = {state.name: state.number for state in self.of_kind(kind)}
        new = sorted({as_name(name, kind) for name in names} - there.keys())
        if new:
            if len(there) + len(new) > most:
                raise InputError(f"there are more than {most} {kind}s; {shown(new[0])} is one too many")
            (first,) = self._connection.execute("SELECT max(number) + 1 FROM streams").fetchone()
            added = [(first + k, kind, name, None, self._false_alarm, 0.0) for k, name in enumerate(new)]
            self._connection.executemany(schema.NEW_STREAM, added)
            there |= {name: number for number, _, name, *_ in added}
        return there

    def _cell(self, streams: tuple[int, ...]) -> int:
        number = self._cells.get(streams)
        if number is None:
            text = json.dumps(streams)
            self._connection.execute("INSERT OR IGNORE INTO cells (streams) VALUES (?)", (text,))
            (found,) = self._connection.execute("SELECT number FROM cells WHERE streams = ?", (text,)).fetchone()
            number = self._cells[streams] = int(found)
        return number
