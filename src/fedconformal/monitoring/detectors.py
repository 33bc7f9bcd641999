"""The detectors of changes in a watch's file: their scores are appended, so that a row costs a row and not all of them.

`labelled` looks at the score of the true label, once it is known; `unlabelled` at the lowest score of a row, that of
its top label, before anything is known. Both were given the scores of the site's calibration rows.

The alarm is raised at the end of a day at which the e-process is at least 1 / false_alarm: while nothing changes, that
ever happens with probability false_alarm at most. An alarm of the detector itself comes again and again, every 1,000
rows on average, so it is not used; the run of the bet that wins most says since when.
"""

from __future__ import annotations

import math
import secrets
import sqlite3
from collections.abc import Mapping

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats, Integers
from fedconformal.errors import InputError
from fedconformal.monitoring.change import Bets, ChangeDetector

LABELLED, UNLABELLED = "labelled", "unlabelled"


class Detectors:
    """The detectors of one file; what was read stays in memory as long as nobody else moves them on."""

    def __init__(self, connection: sqlite3.Connection, false_alarm: float = 0.025) -> None:
        self._connection, self._enough = connection, -math.log(false_alarm)
        self._held: dict[str, ChangeDetector] = {}

    def begin(self, scores: Mapping[str, Floats]) -> None:
        """Give detectors their calibration scores."""
        for name, some in scores.items():
            detector = ChangeDetector(some, random_state=secrets.randbits(48))  # or watches would break ties alike
            self._append(name, -1, 0, detector.scores)
            self._connection.execute(
                "INSERT INTO detectors VALUES (?, ?, 0, ?, NULL, NULL)",
                (name, detector.random_state, msgspec.msgpack.encode(detector.bets)),
            )

    def names(self) -> list[str]:
        """Say which there are."""
        return [name for (name,) in self._connection.execute("SELECT name FROM detectors ORDER BY name")]

    def read(self, name: str) -> ChangeDetector:
        """Return a detector as it is now."""
        query = "SELECT seed, rows, bets FROM detectors WHERE name = ?"
        seed, rows, bets = self._connection.execute(query, (name,)).fetchone()
        held = self._held.get(name)
        if held is None or held.rows != rows:
            found = self._connection.execute("SELECT scores FROM scores WHERE detector = ? ORDER BY first", (name,))
            scores = np.frombuffer(b"".join(part for (part,) in found), dtype="<f8")
            try:
                state = msgspec.msgpack.decode(bets, type=Bets)
            except (msgspec.DecodeError, ValueError):
                raise InputError("the state of a change detector cannot be read; the file is damaged") from None
            held = self._held[name] = ChangeDetector(scores, random_state=seed, rows=rows, bets=state)
        return held

    def update(self, name: str, scores: Floats, days: Integers) -> None:
        """Add the scores of new rows, in their order, each with its day."""
        if not len(scores):
            return
        detector = self.read(name)
        starts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist()]
        for start, end in zip(starts, [*starts[1:], len(scores)], strict=True):
            day, some = int(days[start]), scores[start:end]
            self._append(name, detector.rows, day, some)
            detector = detector.update(some)
            noticed = since = None
            if detector.log_e_value >= self._enough:
                noticed, since = day, self._day(name, detector.begun)
            self._connection.execute(
                "UPDATE detectors SET rows = ?, bets = ?, alarm_day = coalesce(alarm_day, ?), "
                "since_day = coalesce(since_day, ?) WHERE name = ?",
                (detector.rows, msgspec.msgpack.encode(detector.bets), noticed, since, name),
            )
            self._connection.execute(
                "INSERT OR REPLACE INTO evidence VALUES (?, ?, ?)", (name, day, detector.log_e_value)
            )
        self._held[name] = detector

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
