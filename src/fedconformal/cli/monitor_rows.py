"""Readers of the files of monitor add."""

from __future__ import annotations

import contextlib
import math
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from fedconformal._base.arrays import Booleans, Floats, as_alpha
from fedconformal._base.classes import find_columns
from fedconformal._base.names import abbreviate, name_key
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger
from fedconformal.cli.options import refuse
from fedconformal.cli.predict import make_answers
from fedconformal.cli.rows import Columns, column_in, file_in
from fedconformal.errors import InputError
from fedconformal.monitoring.events import DAY, NO_OUTCOMES, Outcomes, Predicted
from fedconformal.monitoring.store import Watch
from fedconformal.tables import Predictions, Table
from fedconformal.tables.predictions import filled, positions_of
from fedconformal.tables.table import absent

IDS = ("id", "row")
"""Default columns of ids; `predict` writes row for rows without ids."""
TIME, SITE, SETS, ENDS = "time", "site", "labels", ("lower", "upper")

NewRows = Annotated[
    Path | None,
    typer.Option("--watch", metavar="WATCH", help="Refuse rows that it has counted (.db); needs --id."),
]


def check_new(watch: Path | None, rows: Predictions) -> None:
    """Refuse rows that a watch has counted, because a predictor calibrated on them has no guarantee."""
    if watch is None:
        return
    if rows.ids is None:
        raise InputError("--watch compares ids; name their column with --id")
    with Watch.open(watch) as held:
        known = set(held.counted(rows.ids))
        purged = held.status().counts.purged
    if purged:
        logger.warning("%s: %d rows were purged, and cannot be compared with these any more", watch, purged)
    if known:
        row = next(k for k, name in enumerate(rows.ids) if name in known)
        others = f", and {len(known) - 1} more" if len(known) > 1 else ""
        raise rows.table.error(
            f"{rows.table.place(row)}, {abbreviate(rows.ids[row])}, was counted by {watch}{others}, "
            "so it is not new; leave such rows out, or summarise without --watch and calibrate with --rows watched"
        )


@dataclass(frozen=True)
class WatchReader:
    """Reader of the files of a watch; `time` and `site` name columns in addition to those of the table."""

    watch: Watch
    columns: Columns
    time: str = TIME
    site: str = SITE

    @property
    def label(self) -> str:
        """Column of outcomes."""
        return self.columns.labels or ("label" if self.watch.predictor.certificate.risk is None else "loss")

    def holds(self, path: Path) -> tuple[bool, bool]:
        """Return whether a file holds answered rows, and whether it holds outcomes."""
        names, classes = self._open(path).with_header().names or (), self.watch.predictor.certificate.class_names
        outcomes = name_key(self.label) in names
        if self.watch.settings.kind == "losses" or not outcomes:
            return not outcomes, outcomes
        answers = self.columns.predictions is not None or not {SETS, *ENDS}.isdisjoint(names)
        if classes is not None and not answers:
            with contextlib.suppress(InputError):  # no column for a class
                find_columns(names, tuple(map(str, range(classes) if isinstance(classes, int) else classes)))
                answers = True
        return answers, outcomes

    def read_predicted(self, path: Path) -> Predicted:
        """Read answered rows: their sets or intervals, or probabilities from which sets are computed."""
        table, rule, kind = _require_header(self._open(path)), self.watch.predictor, self.watch.settings.kind
        named, by = table.names or (), self.columns.group_columns(rule)
        time = _present(table, self.time, TIME)
        site = self.site if file_in(self.site) else _present(table, self.site, SITE)
        columns = replace(self.columns, ids=self._id_column(table), labels=None, groups=",".join(by) or None)
        ends = sets = scores = None
        if kind == "intervals":
            rows = columns.keeping(*by, time, column_in(site)).read_numbers(path, ENDS)
            ends = _checked_ends(rows)
        elif kind == "losses" or SETS in named:
            rows = _without_outputs(table, columns.keeping(*by, time, column_in(site)))
            sets = _sets(table, rule) if kind == "sets" else None
        else:
            label = self.label if name_key(self.label) in named else None
            found = columns.read_for(rule, path, beside=[time, site, label])
            sets, rows = make_answers(rule, found, as_alpha(rule.certificate.alpha)).values, found.table
            scores = rule.score.evaluate_all(rows.values.astype(np.float32)).min(axis=1)
        sites = () if site is None else columns.values_of(rows, site, "sites").tolist()
        return Predicted(
            ids=rows.ids or [],
            times=_times_of(rows.table, time),
            sites=None if site is None else [None if absent(cell) else cell for cell in sites],
            groups={name: rows.table.texts(name) for name in by},
            ends=ends,
            sets=sets,
            scores=scores,
        )

    def read_outcomes(self, path: Path, *, some: bool = False) -> Outcomes:
        """Read outcomes: one class, number or loss per row; with `some`, rows without an outcome are skipped."""
        table, rule = _require_header(self.columns.open(path, "labels")), self.watch.predictor
        if self.columns.labels is None and self.label not in (table.names or ()):
            raise table.error(f"has no column {self.label}; name the column of outcomes with --labels")
        ids, risk, column = self._id_column(table), rule.certificate.risk, table.column(self.label)
        named = rule.certificate.class_names if self.watch.settings.kind == "sets" else None
        classes = tuple(named) if isinstance(named, list) else None
        if (some or self.columns.skip_missing) and (missing := table.missing([column], classes)):
            table = table.take([row for row in range(table.rows) if row not in missing])
        if not table.rows:
            return NO_OUTCOMES
        if self.watch.settings.kind == "sets":
            count = named if isinstance(named, int) else self.watch.width or 2
            values = positions_of(table, column, classes, count)[0].astype(np.float64)
        else:
            values = table.numbers([column])[:, 0].astype(np.float64)
            most = None if risk is None else risk.bound
            wrong = ~np.isfinite(values) if most is None else ~((values >= 0) & (values <= most))
            if wrong.any():
                expected = "a finite number" if most is None else f"a loss from 0 to {most:g}"
                place = table.place(int(wrong.argmax()), column)
                raise table.error(f"{place} is {values[wrong][0]:g}, expected {expected}")
            values = values if most is None else values / most
        times = _times_of(table, _present(table, self.time, TIME))
        return Outcomes(ids=filled(table, table.texts(ids), ids) or [], times=times, values=values)

    def _open(self, path: Path) -> Table:
        return self.columns.open(path, self.columns.content)

    def _id_column(self, table: Table) -> str:
        column = self.columns.ids or next((name for name in IDS if name in (table.names or ())), None)
        if column is None:
            raise table.error("has no column id; name the column of ids with --id")
        return column


def _present(table: Table, name: str, usual: str) -> str | None:
    """Return the name of a required column; the default name is optional."""
    if name == usual and usual not in (table.names or ()):
        return None
    table.column(name)
    return name


def _require_header(table: Table) -> Table:
    table = table.with_header()
    if table.names is None:
        raise table.error("has no header; write the names of the columns above, such as id, time, label")
    if not table.rows:
        raise table.error("has no rows")
    return table


def _checked_ends(rows: Predictions) -> Floats:
    ends = rows.values.astype(np.float64)
    wrong = ~(ends[:, 0] <= ends[:, 1])
    if wrong.any():
        raise rows.table.error(f"{rows.table.place(int(wrong.argmax()))} has no interval from lower to upper")
    return ends


def _without_outputs(table: Table, columns: Columns) -> Predictions:
    """Return the rows of a table that has no outputs of a model."""
    given = {"from": columns.content != "probs", "classes": columns.classes, "positive": columns.positive}
    refuse("is for outputs of a model, and this file has none; leave it out", **given, predictions=columns.predictions)
    return Predictions(
        table=table,
        values=np.empty((table.rows, 0)),
        classes=None,
        recognised=table.recognised,
        id_column=None if columns.ids is None else name_key(columns.ids),
        ids=None if columns.ids is None else filled(table, table.texts(columns.ids), columns.ids),
        others={name_key(name): table.texts(name) for name in columns.keep},
    )


def _sets(table: Table, rule: Predictor) -> Booleans:
    """Parse sets in the format of `predict`: names separated by semicolons, or numbers by spaces."""
    named, cells, column = rule.certificate.class_names, table.texts(SETS), table.column(SETS)
    if named is None:
        raise table.error("holds sets, and the predictor does not know its classes; give probabilities")
    number = {name_key(name): k for k, name in enumerate(named)} if isinstance(named, list) else {}
    count = named if isinstance(named, int) else len(named)
    number = number or {str(k): k for k in range(count)}
    part: Callable[[str], list[str]] = (lambda cell: cell.split(";")) if isinstance(named, list) else str.split
    sets, members = np.zeros((len(cells), count), dtype=np.bool_), dict[str, list[int]]()
    for row, cell in enumerate(cells):
        if cell not in members:
            names = [name_key(name) for name in part(cell)] if cell else []
            odd = next((name for name in names if name not in number), None)
            if odd is not None:
                raise table.error(
                    f"{table.place(row, column)} holds {abbreviate(odd)!r}, which is no class of the predictor"
                )
            members[cell] = [number[name] for name in names]
        sets[row, members[cell]] = True
    return sets


def _times_of(table: Table, name: str | None) -> Floats:
    """Parse dates, by default in UTC, as seconds since 1970; without a column, return the current time."""
    now = clock.time()
    if name is None:
        return np.full(table.rows, now)
    cells, column = table.texts(name), table.column(name)
    known = {cell: seconds(cell) for cell in dict.fromkeys(cells)}
    times = np.array([known[cell] for cell in cells])
    for wrong, why in (
        (~(times >= 0), "which is no time such as 2026-11-30 or 2026-11-30T08:15"),
        (times > now + DAY, "which is yet to come"),
    ):
        if wrong.any():
            row = int(wrong.argmax())
            raise table.error(f"{table.place(row, column)} holds {abbreviate(cells[row])!r}, {why}")
    return times


def seconds(cell: str) -> float:
    """Return a date as seconds since 1970; NaN if it is invalid.

    >>> seconds("2026-11-16"), seconds("2026-11-16T01:00+01:00"), seconds("soon")
    (1794787200.0, 1794787200.0, nan)
    """
    try:
        when = datetime.fromisoformat(cell)
        return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return math.nan
