"""Model outputs from a table: class probabilities or numeric predictions.

Columns are located by exact name. Without `classes`, every column without another use is a class. With `classes`,
columns are selected and ordered by them; prob_benign matches benign if the same pattern matches a column for every
class. `recognised` describes the result.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, Integers, Probabilities, as_labels, as_matrix, as_probabilities
from fedconformal._base.classes import as_class_names, find_columns, match_columns
from fedconformal._base.names import abbreviate, first_duplicate, join_names, name_key
from fedconformal.errors import InputError, SuspiciousInputWarning, prefix_errors
from fedconformal.tables.table import Table, absent
from fedconformal.tables.text import spells_number

MOST_SEARCHED = 100
"""Maximum number of columns in the search for distributions."""


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Model outputs for the rows of a table, with ids, truth and other columns as text.

    `values` are (n, J) probabilities or logits and `labels` class indices; if `numeric`, predictions and true numbers.
    `classes` are the names of the columns, if any.
    """

    table: Table
    values: Probabilities
    classes: tuple[str, ...] | None
    recognised: str
    id_column: str | None = None
    ids: list[str] | None = None
    labels: NDArray[Any] | None = None
    others: dict[str, list[str]] = field(default_factory=dict)
    numeric: bool = False
    skipped: tuple[str, ...] = ()
    """Locations of the rows that were dropped because of a missing value."""

    @property
    def truth(self) -> NDArray[Any]:
        """The truth as input of the library: names if the classes are named."""
        labels = np.asarray(self.labels)
        return labels if self.classes is None else np.array(self.classes)[labels]

    def with_truth(self, table: Table, column: int | str, how: str = "") -> Predictions:
        """Add the true numbers, or the class indices of the labels, from a column."""
        position, note = table.column(column) if isinstance(column, str) else column, ""
        truth: NDArray[Any]
        if self.numeric:
            truth = table.numbers([position])[:, 0].astype(np.float64)
        else:
            truth, note = positions_of(table, position, self.classes, self.values.shape[1])
        how = how or f"{'true numbers' if self.numeric else 'labels'} from {abbreviate(column)}"
        return replace(self, labels=truth, recognised="; ".join(filter(None, [self.recognised, how, note])))

    def take(self, rows: Sequence[int], skipped: tuple[str, ...]) -> Predictions:
        """Return a subset of the rows; `skipped` are the locations of the others."""
        index = list(rows)
        return replace(
            self,
            table=self.table.take(index),
            values=self.values[index],
            ids=None if self.ids is None else [self.ids[row] for row in index],
            labels=None if self.labels is None else self.labels[index],
            others={name: [cells[row] for row in index] for name, cells in self.others.items()},
            skipped=(*self.skipped, *skipped),
        )

    def matched(self, wanted: Sequence[str] | int) -> Predictions:
        """Reorder the columns to the order of these classes; see `match_columns`."""
        with prefix_errors(self.table.source):
            order, note = match_columns(self.classes if self.classes is not None else self.values.shape[1], wanted)
        classes = self.classes if isinstance(wanted, int) else tuple(map(name_key, wanted))
        inverse = np.argsort(order)
        return replace(
            self,
            values=self.values if order == sorted(order) else np.ascontiguousarray(self.values[:, order]),
            classes=classes,
            labels=self.labels if self.labels is None else inverse[self.labels],
            recognised="; ".join(filter(None, [self.recognised, note])),
        )


def probabilities_of(
    table: Table,
    *,
    ids: str | None = None,
    labels: str | None = None,
    classes: Sequence[str] | None = None,
    drop: Collection[str] = (),
    keep: Collection[str] = (),
    positive: str | None = None,
    skip_missing: bool = False,
) -> Predictions:
    """Extract class probabilities from a table that may hold ids, labels and other columns.

    Parameters
    ----------
    ids, labels, drop, keep
        Columns with ids and labels, columns to ignore, and columns to return as text.
    classes
        Class names in order: names of columns, or names for the columns of a table without a header.
    positive
        The class of a single probability column; the other class has probability 1 - p, with p rounded to float32.
    skip_missing
        Whether to drop rows with a missing probability or label.

    Examples
    --------
    >>> from fedconformal.tables import table_of
    >>> scans = table_of({"id": ["a", "b"], "malignant": [0.25, 0.5], "truth": ["benign", "malignant"]}, name="scans")
    >>> rows = probabilities_of(scans, ids="id", labels="truth", positive="malignant")
    >>> rows.classes, rows.values.tolist(), rows.labels.tolist()
    (('benign', 'malignant'), [[0.75, 0.25], [0.5, 0.5]], [0, 1])
    """
    if table.head == ("0",):
        raise table.error("line 1 is 0, which could be a header or a row; write a name there, or 0.0 if it is a row")
    table = table.with_header()  # a first line of text cannot be a row of probabilities
    rest = _columns_left(table, [ids, labels, *drop, *keep])
    wanted = None if classes is None else as_class_names(classes)
    said: list[str] = []
    if positive is None:
        chosen, named = _class_columns(table, rest, wanted, said)
        table, skipped = _complete(table, chosen, labels, named, skip=skip_missing)
        values = _matrix(table, chosen, labels, sure=wanted is not None)
        if len(chosen) == 1:
            whole = (values == np.round(values)).all()  # then they may be labels
            if not whole and not 0 <= values.min() <= values.max() <= 1:
                raise table.error(
                    "has one column of numbers that are no probabilities; if a regressor predicts them, take a score "
                    "of numbers (docs/tables.md)",
                    param="score",
                )
            raise table.error("has one column of probabilities; say which class is the positive one", param="positive")
    else:
        table, skipped = _complete(table, rest[:1], labels, wanted, skip=skip_missing and len(rest) == 1)
        values, named = _two_columns(table, rest, wanted, name_key(positive), labels, said)
    found = _predictions(table, values, said, ids, keep, classes=named, skipped=skipped)
    return found if labels is None else found.with_truth(table, labels)


def numbers_of(
    table: Table,
    wanted: Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    ids: str | None = None,
    y: str | None = None,
    drop: Collection[str] = (),
    keep: Collection[str] = (),
    skip_missing: bool = False,
) -> Predictions:
    """Extract numeric predictions from a table that may hold ids, the true numbers and other columns.

    `columns` are the names of the `wanted` columns in this table; `skip_missing` is as in `probabilities_of`.

    >>> from fedconformal.tables import table_of
    >>> visits = table_of({"id": ["a", "b"], "lower": [1.0, 2.0], "upper": [3.0, 5.0], "y": [2.5, 1.0]}, name="visits")
    >>> rows = numbers_of(visits, ("lower", "upper"), ids="id", y="y")
    >>> rows.values.tolist(), rows.truth.tolist(), rows.ids
    ([[1.0, 3.0], [2.0, 5.0]], [2.5, 1.0], ['a', 'b'])
    """
    named, needs = wanted if columns is None else columns, " and ".join(wanted)
    if len(named) != len(wanted):
        raise table.error(f"{len(named)} columns are named, {join_names(named)}; the score needs {needs}")
    if table.head is not None and (columns is not None or {*map(name_key, named)} & {*table.head}):
        table = table.with_header()
    rest = _columns_left(table, [ids, y, *drop, *keep], named if table.names is not None else ())
    said = [f"{needs} in this order"]
    if table.names is None:
        if columns is not None or len(rest) != len(wanted):
            problem = f"has {len(rest)} columns without names, and the score needs {needs}"
            raise table.error(f"{problem}; write their names above")
        chosen = rest
    else:
        if missing := [name for name in named if name_key(name) not in table.names]:
            there = join_names([table.names[j] for j in rest])
            raise table.error(
                f"has no column {abbreviate(missing[0])}; there are {there}; name the columns of {needs}",
                param="predictions",
            )
        chosen = [table.column(name) for name in named]
        said = [f"{needs} from {join_names(named)}"]
    _say_unused(table, rest, chosen, said)
    table, skipped = _complete(table, chosen, y, None, skip=skip_missing)
    values = as_matrix(table.numbers(chosen), "predictions")
    found = _predictions(table, values, said, ids, keep, classes=None, skipped=skipped, numeric=True)
    return found if y is None else found.with_truth(table, y)


def _columns_left(table: Table, used: Sequence[str | None], chosen: Sequence[str] = ()) -> list[int]:
    """Return the columns without another use; refuse columns with two uses."""
    if not table.rows:
        raise table.error("has no rows" if table.first_line is None else "is empty but for its header")
    asked = [name for name in used if name is not None]
    aside = [table.column(name) for name in asked]
    same = first_duplicate(map(name_key, [*asked, *chosen]))
    if same is not None:
        raise table.error(f"the column {abbreviate(same)} has two uses; give each use a column of its own")
    return [j for j in table.columns if j not in aside]


def _complete(
    table: Table, columns: Sequence[int], truth: str | None, classes: tuple[str, ...] | None, *, skip: bool
) -> tuple[Table, tuple[str, ...]]:
    """If `skip`, drop rows with a missing value in these columns or the truth, and return their locations."""
    if not skip:
        return table, ()
    missing = table.missing([] if truth is None else [table.column(truth)], classes) | table.missing(columns)
    if len(missing) == table.rows:
        raise table.error("has a missing value in every row")
    places = tuple(f"{table.place(row, missing[row][0])} {absent(missing[row][1])}" for row in sorted(missing))
    return table.take([row for row in range(table.rows) if row not in missing]) if missing else table, places


def _predictions(
    table: Table, values: Any, said: list[str], ids: str | None, keep: Collection[str], **more: Any
) -> Predictions:
    """Combine outputs with ids and other columns."""
    names = None
    if ids is not None:
        names = table.texts(ids)
        said.append(f"ids from {abbreviate(ids)}")
    elif table.row_names is not None and not table.counted:
        names = table.texts(table.row_names)
        said.append("row names are ids")
    return Predictions(
        table=table,
        values=values,
        recognised="; ".join([table.recognised, *said]),
        id_column=None if ids is None else name_key(ids),
        ids=filled(table, names, ids),
        others={name_key(name): table.texts(name) for name in keep},
        **more,
    )


def _class_columns(
    table: Table, rest: list[int], wanted: tuple[str, ...] | None, said: list[str]
) -> tuple[list[int], tuple[str, ...] | None]:
    """Select the columns of the classes, and return the class names."""
    if not rest:
        raise table.error("has no column of probabilities left")
    names = [table.names[j] for j in rest] if table.names is not None else None
    if names is None or names == [str(k) for k in range(len(names))]:
        if wanted is not None and len(wanted) != len(rest):
            raise table.error(f"has {len(rest)} columns without names, and there are {len(wanted)} classes")
        said.append(
            f"{len(rest)} classes without names" if wanted is None else f"classes {join_names(wanted)}, in this order"
        )
        return rest, wanted
    with prefix_errors(table.source):
        named = as_class_names(names) if wanted is None else wanted
        order, pattern = find_columns(names, named)
    said.append(pattern or f"classes {join_names(named)}")
    chosen = [rest[k] for k in order]
    _say_unused(table, rest, chosen, said)
    return chosen, named


def _say_unused(table: Table, rest: Sequence[int], chosen: Sequence[int], said: list[str]) -> None:
    if table.names is not None and (unused := [table.names[j] for j in rest if j not in chosen]):
        said.append(f"not used: {join_names(unused)}")


def _two_columns(
    table: Table, rest: list[int], wanted: tuple[str, ...] | None, positive: str, labels: str | None, said: list[str]
) -> tuple[Probabilities, tuple[str, ...]]:
    """Expand the single probability column of a binary model to two columns."""
    named = [j for j in rest if table.names is not None and table.names[j] == positive]
    if len(rest) != 1 and (
        len(named) != 1 or wanted is None or set(wanted) & {(table.names or ())[j] for j in rest} != {positive}
    ):
        raise table.error(
            f"a positive class needs one column of probabilities, and there are {len(rest)}; leave the others out",
            param="drop",
        )
    column = rest[0] if len(rest) == 1 else named[0]
    both = wanted
    if both is None:
        there = {name_key(cell) for cell in table.texts(labels) if not absent(cell)} if labels is not None else set()
        if len(there - {positive}) != 1:
            raise table.error(
                f"the class beside {abbreviate(positive)} has no name; give the names of both classes", param="classes"
            )
        both = (*(there - {positive}), positive)
    if len(both) != 2 or positive not in both:
        raise table.error(f"the classes {join_names(both)} are not {abbreviate(positive)} and one other")
    p = _matrix(table, [column], labels)[:, 0].astype(np.float64)
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        row = int(np.argmax(outside))
        raise table.error(f"{table.place(row, column)} is {p[row]:g}, expected a probability from 0 to 1")
    negative = next(name for name in both if name != positive)
    given = f"{table.title(column)} is the probability of {abbreviate(positive)}"
    said.append(f"{given}, and 1 - p that of {abbreviate(negative)}")
    _say_unused(table, rest, [column], said)
    other = 1.0 - p.astype(np.float32)  # rounded first: the precision of the file does not matter
    return np.column_stack([other, p] if both[1] == positive else [p, other]), both


def _matrix(table: Table, columns: list[int], truth: str | None, *, sure: bool = True) -> Any:
    """Read the numbers; unless `sure`, a column may have been selected only for lack of another use."""
    try:
        values = table.numbers(columns)
    except InputError as error:
        if error.code == "missing" and truth is not None:  # name the rows without a truth too
            raise table.missing_error([*columns, table.column(truth)]) from None
        if sure or table.names is None or error.code != "not-a-number":
            raise
        advice = "if the column is no class, use it for ids or labels, or leave it out"
        raise table.error(f"{error.problem}; {advice}", param="drop", code=error.code) from None
    return as_matrix(values, "probabilities")


def columns_that_add_up(table: Table, columns: Sequence[int]) -> list[str] | None:
    """Return columns whose rows, if complete, are distributions, omitting at most one other column of shares."""
    if table.names is None or len(columns) > MOST_SEARCHED:
        return None
    shares: dict[int, Floats] = {}
    for j in columns:
        with suppress(InputError):
            missing = table.missing([j])
            present = [row for row in range(table.rows) if row not in missing]
            values = np.full(table.rows, np.nan)
            values[present] = table.take(present).numbers([j])[:, 0]
            if present and 0 <= np.nanmin(values) <= np.nanmax(values) <= 1:
                shares[j] = values
    for omitted in (None, *shares):
        chosen = [j for j in shares if j != omitted]
        if len(chosen) > 1:
            matrix = np.column_stack([shares[j] for j in chosen])
            with suppress(InputError), warnings.catch_warnings():
                warnings.simplefilter("ignore", SuspiciousInputWarning)
                as_probabilities(matrix[np.isfinite(matrix).all(axis=1)])
                return [table.names[j] for j in chosen]
    return None


def filled(table: Table, ids: list[str] | None, name: str | None) -> list[str] | None:
    """Refuse missing ids."""
    row = next((row for row, cell in enumerate(ids or ()) if absent(cell)), None)
    if ids is not None and row is not None:
        column = table.column(name) if name is not None else table.row_names
        raise table.error(f"{table.place(row, column)} {absent(ids[row])}; give every row an id")
    return ids


def positions_of(table: Table, column: int, classes: tuple[str, ...] | None, count: int) -> tuple[Integers, str]:
    """Return class indices of the labels, and a note; raise at the first invalid label."""
    if classes is None:
        return _numbered(table, column, count)
    cells = table.texts(column)
    index = {name: k for k, name in enumerate(classes)}
    code = {cell: index.get(name_key(cell)) for cell in dict.fromkeys(cells)}
    wrong = next((cell for cell, k in code.items() if k is None), None)
    if wrong is not None:
        if absent(wrong) is not None:
            raise table.missing_error([column], "give every row a label", classes)
        within = any(name_key(wrong) in name for name in classes)  # such as benign in prob_benign
        problem = f"{table.place(cells.index(wrong), column)} {_unknown(wrong, classes)}"
        raise table.error(problem, param="classes" if within else None)
    return np.array([code[cell] for cell in cells], dtype=np.int64), ""


def _numbered(table: Table, column: int, count: int) -> tuple[Integers, str]:
    """Read class indices; of two classes without names, False is class 0 and True is class 1."""
    problem, values = None, np.empty(0, dtype=np.bool_)
    try:
        values = table.numbers([column])[:, 0]
    except InputError as error:
        problem = error
    if problem is None and values.dtype.kind != "b":
        with table.in_lines():
            return as_labels(values, rows=table.rows, classes=count, name=table.source), ""
    cells = table.texts(column)
    spelled = [name_key(cell).lower() for cell in cells]
    if count == 2 and set(spelled) <= {"false", "true"}:
        return np.array([cell == "true" for cell in spelled], dtype=np.int64), "False is class 0 and True is class 1"
    if problem is not None and all(map(spells_number, cells)):
        raise problem
    row = next(row for row, cell in enumerate(cells) if not spells_number(cell))
    if absent(cells[row]) is not None:
        raise table.missing_error([column], "give every row a label")
    held = f"holds {abbreviate(repr(cells[row]))}, and the {count} classes have no names; give the columns their names"
    raise table.error(f"{table.place(row, column)} {held}", param="classes")


def _unknown(cell: str, classes: tuple[str, ...]) -> str:
    if spells_number(cell) and not any(map(spells_number, classes)):
        return f"holds {abbreviate(cell)}, and the classes have the names {join_names(classes)}; write these names"
    return f"holds {abbreviate(repr(cell))}, which is none of the classes {join_names(classes)}"
