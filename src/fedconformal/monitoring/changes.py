"""The detectors of changes in a watch's file: their scores are appended, so that a row costs a row and not all of them.

`labelled` looks at the score of the true label, once it is known; `unlabelled` at the lowest score of a row, that of
its top label, before anything is known. Both were given the scores of the site's calibration rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.errors import InputError
from fedconformal.monitoring.bets import Bets
from fedconformal.monitoring.change import ChangeDetector

LABELLED, UNLABELLED = "labelled", "unlabelled"


class Changes:
    """The detectors of one file; what was read stays in memory as long as nobody else moves them on."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._held: dict[str, ChangeDetector] = {}

    def begin(self, scores: Mapping[str, Floats]) -> None:
        """Give detectors their calibration scores."""
        for name, some in scores.items():
            detector = ChangeDetector(some)
            self._append(name, -1, 0, detector.scores)
            self._connection.execute(
                "INSERT INTO detectors VALUES (?, 0, ?, NULL, NULL)", (name, msgspec.msgpack.encode(detector.bets))
            )

    def names(self) -> list[str]:
        """Say which there are."""
        return [name for (name,) in self._connection.execute("SELECT name FROM detectors ORDER BY name")]

    def read(self, name: str) -> ChangeDetector:
        """Return a detector as it is now."""
        rows, bets = self._connection.execute("SELECT rows, bets FROM detectors WHERE name = ?", (name,)).fetchone()
        held = self._held.get(name)
        if held is None or held.rows != rows:
            found = self._connection.execute("SELECT scores FROM scores WHERE detector = ? ORDER BY first", (name,))
            scores = np.frombuffer(b"".join(part for (part,) in found), dtype="<f8")
            try:
                state = msgspec.msgpack.decode(bets, type=Bets)
            except (msgspec.DecodeError, ValueError):
                raise InputError("the state of a change detector cannot be read; the file is damaged") from None
            held = self._held[name] = ChangeDetector(scores, rows=rows, bets=state)
        return held

    def move(self, name: str, scores: Floats, days: Integers) -> None:
        """Add the scores of new rows, in their order, each with its day."""
        if not len(scores):
            return
        before = self.read(name)
        after = before.update(scores)
        starts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], len(scores)], strict=True):
            day = int(days[start])
            self._append(name, before.rows + start, day, scores[start:end])
        alarm, since = None, None
        if after.alarm_at is not None and before.alarm_at is None:
            alarm, since = self._day(name, after.alarm_at - 1), self._day(name, after.since or 0)
        self._connection.execute(
            "UPDATE detectors SET rows = ?, bets = ?, alarm_day = coalesce(alarm_day, ?), "
            "since_day = coalesce(since_day, ?) WHERE name = ?",
            (after.rows, msgspec.msgpack.encode(after.bets), alarm, since, name),
        )
        self._connection.execute(
            "INSERT OR REPLACE INTO evidence VALUES (?, ?, ?)", (name, int(days[-1]), after.log_e_value)
        )
        self._held[name] = after

    def forget(self) -> None:
        """Read anew what a transaction that failed had moved."""
        self._held.clear()

    def at(self, name: str, last: int) -> tuple[float | None, tuple[int, int] | None]:
        """Return the evidence at the end of a day, and the days of the alarm and of the change if it was raised."""
        query = "SELECT log_e FROM evidence WHERE detector = ? AND day <= ? ORDER BY day DESC LIMIT 1"
        value = self._connection.execute(query, (name, last)).fetchone()
        days = self._connection.execute("SELECT alarm_day, since_day FROM detectors WHERE name = ?", (name,)).fetchone()
        raised = days is not None and days[0] is not None and days[0] <= last
        return None if value is None else value[0], (days[0], days[1]) if raised else None

    def _append(self, name: str, first: int, day: int, scores: Floats) -> None:
        data = np.ascontiguousarray(scores, dtype="<f8").tobytes()
        self._connection.execute("INSERT INTO scores VALUES (?, ?, ?, ?)", (name, first, day, data))

    def _day(self, name: str, row: int) -> int:
        query = "SELECT day FROM scores WHERE detector = ? AND first BETWEEN 0 AND ? ORDER BY first DESC LIMIT 1"
        (day,) = self._connection.execute(query, (name, row)).fetchone()
        return int(day)


def calibration_scores(scores: Floats, labels: Integers | None) -> dict[str, Floats]:
    """Return what detectors begin with: from the scores of all labels of calibration rows, and the true labels."""
    found = {UNLABELLED: scores.min(axis=1)}
    return found if labels is None else {**found, LABELLED: scores[np.arange(len(scores)), labels]}
