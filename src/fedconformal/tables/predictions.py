"""Outputs of a model from a table: probabilities of classes, or predictions of numbers.

Columns are found by their exact names. Without `classes`, every column that has no other use is a class. With
`classes`, columns are chosen and ordered by them; prob_benign is found for benign if every class has its column by the
same pattern. A regression score names its columns, such as lower and upper; `columns` gives other names for them. What
was recognised is in the one line `recognised`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Floats, Integers, Probabilities, as_labels, as_probabilities
from fedconformal._base.classes import as_class_names, find_columns, match_columns
from fedconformal._base.names import abbreviate, first_duplicate, join_names, name_key
from fedconformal.errors import InputError, SuspiciousInputWarning, prefix_errors
from fedconformal.tables.table import Table, absent
from fedconformal.tables.text import is_number

MOST_SEARCHED = 100
"""Columns among which distributions are looked for."""


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """Outputs of a model for the rows of a table, with ids, truth and other columns as text.

    `values` are (n, J) probabilities or logits, and `labels` positions of classes; `numeric` if they are predictions
    and true numbers. `classes` are the names of the columns, if they have any.
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
    """Places of rows that were left out for a missing value."""

    @property
    def truth(self) -> NDArray[Any]:
        """The truth as the library takes it: a name where classes have names."""
        labels = np.asarray(self.labels)
        return labels if self.classes is None else np.array(self.classes)[labels]

    def with_truth(self, table: Table, column: int | str, how: str = "") -> Predictions:
        """Take the true numbers, or the positions of the labels, from a column."""
        position = table.column(column) if isinstance(column, str) else column
        found: tuple[NDArray[Any], str]
        if self.numeric:
            found = table.numbers([position])[:, 0].astype(np.float64), ""
        else:
            found = positions_of(table, position, self.classes, self.values.shape[1])
        how = how or f"{'true numbers' if self.numeric else 'labels'} from {abbreviate(column)}"
        return replace(self, labels=found[0], recognised="; ".join(filter(None, [self.recognised, how, found[1]])))

    def take(self, rows: Sequence[int], skipped: tuple[str, ...]) -> Predictions:
        """Keep these rows, and note the places of the others."""
        chosen = list(rows)
        return replace(
            self,
            table=self.table.take(chosen),
            values=self.values[chosen],
            ids=None if self.ids is None else [self.ids[row] for row in chosen],
            labels=None if self.labels is None else self.labels[chosen],
            others={name: [cells[row] for row in chosen] for name, cells in self.others.items()},
            skipped=(*self.skipped, *skipped),
        )

    def matched(self, wanted: Sequence[str] | int) -> Predictions:
        """Put the columns into the order of these classes; see `match_columns`."""
        with prefix_errors(self.table.source):
            order, said = match_columns(self.classes if self.classes is not None else self.values.shape[1], wanted)
        classes = self.classes if isinstance(wanted, int) else tuple(map(name_key, wanted))
        back = np.argsort(order)
        return replace(
            self,
            values=self.values if order == sorted(order) else np.ascontiguousarray(self.values[:, order]),
            classes=classes,
            labels=self.labels if self.labels is None else back[self.labels],
            recognised="; ".join(filter(None, [self.recognised, said])),
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
    """Find the probabilities of classes in a table that may hold ids, labels and other columns.

    Parameters
    ----------
    ids, labels, drop, keep
        Columns with ids and labels, columns to leave out, and columns to return as text.
    classes
        Columns by name, in this order; names of the columns of a table without a header.
    positive
        The class of the one column of probabilities; the other class has 1 - p, rounded once.
    skip_missing
        Whether to leave out rows with a missing probability or label.

    Examples
    --------
    >>> from fedconformal.tables import table_of
    >>> scans = table_of({"id": ["a", "b"], "malignant": [0.1, 0.6], "truth": ["benign", "malignant"]}, name="scans")
    >>> found = probabilities_of(scans, ids="id", labels="truth", positive="malignant")
    >>> found.classes, found.values.tolist(), found.labels.tolist()
    (('benign', 'malignant'), [[0.9, 0.1], [0.4, 0.6]], [0, 1])
    """
    if table.head == ("0",):
        raise table.error("line 1 is 0, which could be a header or a row; write a name there, or 0.0 if it is a row")
    table = table.with_header()  # a first line of text only is no row of probabilities
    rest = _columns_left(table, [ids, labels, *drop, *keep])
    wanted = None if classes is None else as_class_names(classes)
    said: list[str] = []
    if positive is None:
        chosen, named = _class_columns(table, rest, wanted, said)
        table, skipped = _complete(table, chosen, labels, skip=skip_missing)
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
        table, skipped = _complete(table, rest[:1], labels, skip=skip_missing and len(rest) == 1)
        values, named = _two_columns(table, rest, wanted, name_key(positive), labels, said)
    found = _predictions(table, values, said, ids, keep, classes=named, skipped=skipped)
    return (
        found if labels is None else found.with_truth(table, table.column(labels), f"labels from {abbreviate(labels)}")
    )


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
    """Find the predictions of a regressor in a table that may hold ids, the true number and other columns.

    `columns` are other names for the `wanted` ones, in the same order; `skip_missing` is as in `probabilities_of`.

    >>> from fedconformal.tables import table_of
    >>> visits = table_of({"id": ["a", "b"], "lower": [1.0, 2.0], "upper": [3.0, 5.0], "y": [2.5, 1.0]}, name="visits")
    >>> found = numbers_of(visits, ("lower", "upper"), ids="id", y="y")
    >>> found.values.tolist(), found.truth.tolist(), found.ids
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
    table, skipped = _complete(table, chosen, y, skip=skip_missing)
    values = table.numbers(chosen).astype(np.float64)
    found = _predictions(table, values, said, ids, keep, classes=None, skipped=skipped, numeric=True)
    return found if y is None else found.with_truth(table, y)


def _columns_left(table: Table, used: Sequence[str | None], chosen: Sequence[str] = ()) -> list[int]:
    """Return the columns without another use; each column has at most one."""
    if not table.rows:
        raise table.error("has no rows" if table.first_line is None else "is empty but for its header")
    asked = [name for name in used if name is not None]
    aside = [table.column(name) for name in asked]
    same = first_duplicate(map(name_key, [*asked, *chosen]))
    if same is not None:
        raise table.error(f"the column {abbreviate(same)} has two uses; give each use a column of its own")
    return [j for j in table.columns if j not in aside]


def _complete(table: Table, columns: Sequence[int], truth: str | None, *, skip: bool) -> tuple[Table, tuple[str, ...]]:
    """Leave out rows with a missing value in these columns or in that of the truth, if asked to; return the places."""
    if not skip:
        return table, ()
    lacking = table.missing([*columns, *([] if truth is None else [table.column(truth)])])
    if len(lacking) == table.rows:
        raise table.error("has a missing value in every row")
    places = tuple(f"{table.place(row, lacking[row][0])} {absent(lacking[row][1])}" for row in sorted(lacking))
    return table.take([row for row in range(table.rows) if row not in lacking]) if lacking else table, places


def _predictions(
    table: Table, values: Any, said: list[str], ids: str | None, keep: Collection[str], **more: Any
) -> Predictions:
    """Put outputs together with their ids and other columns."""
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
    """Choose the columns of the classes, and name them."""
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
    """Make two columns from the one of a binary model."""
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
    title = table.place(0, column).split(", ", 1)[1]
    said.append(f"{title} is the probability of {abbreviate(positive)}, and 1 - p that of {abbreviate(negative)}")
    _say_unused(table, rest, [column], said)
    other = 1.0 - p
    return np.column_stack([other, p] if both[1] == positive else [p, other]), both


def _matrix(table: Table, columns: list[int], truth: str | None, *, sure: bool = True) -> Any:
    """Read the numbers; a column that is only here as it has no other use may be none."""
    try:
        values = table.numbers(columns)
    except InputError as error:
        if error.code == "missing" and truth is not None:  # name the rows without a truth too
            raise table.missing_error([*columns, table.column(truth)]) from None
        if sure or table.names is None or error.code != "not-a-number":
            raise
        advice = "if the column is no class, use it for ids or labels, or leave it out"
        raise table.error(f"{error.problem}; {advice}", param="drop", code=error.code) from None
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def columns_that_add_up(table: Table, columns: Sequence[int]) -> list[str] | None:
    """Return the names of columns that are distributions together, without at most one column of other shares.

    Rows with a missing value are left out.
    """
    if table.names is None or len(columns) > MOST_SEARCHED:
        return None
    shares: dict[int, Floats] = {}
    for j in columns:
        with suppress(InputError):
            lacking = table.missing([j])
            there = [row for row in range(table.rows) if row not in lacking]
            values = np.full(table.rows, np.nan)
            values[there] = table.take(there).numbers([j])[:, 0]
            if there and 0 <= np.nanmin(values) <= np.nanmax(values) <= 1:
                shares[j] = values
    for left_out in (None, *shares):
        chosen = [j for j in shares if j != left_out]
        if len(chosen) > 1:
            matrix = np.column_stack([shares[j] for j in chosen])
            with suppress(InputError), warnings.catch_warnings():
                warnings.simplefilter("ignore", SuspiciousInputWarning)
                as_probabilities(matrix[np.isfinite(matrix).all(axis=1)])
                return [table.names[j] for j in chosen]
    return None


def filled(table: Table, ids: list[str] | None, name: str | None) -> list[str] | None:
    """Refuse an id that is missing."""
    row = next((row for row, cell in enumerate(ids or ()) if absent(cell)), None)
    if ids is not None and row is not None:
        column = table.column(name) if name is not None else table.row_names
        raise table.error(f"{table.place(row, column)} {absent(ids[row])}; give every row an id")
    return ids


def positions_of(table: Table, column: int, classes: tuple[str, ...] | None, count: int) -> tuple[Integers, str]:
    """Return the position of each label among the classes, and a note; raise at the first row without one."""
    if classes is None:
        return _numbered(table, column, count)
    cells = table.texts(column)
    known = {name: at for at, name in enumerate(classes)}
    found = {cell: known.get(name_key(cell)) for cell in dict.fromkeys(cells)}
    wrong = next((cell for cell, at in found.items() if at is None), None)
    if wrong is not None:
        if absent(wrong) is not None:
            raise table.missing_error([column], "give every row a label")
        within = any(name_key(wrong) in name for name in classes)  # such as benign in prob_benign
        problem = f"{table.place(cells.index(wrong), column)} {_unknown(wrong, classes)}"
        raise table.error(problem, param="classes" if within else None)
    return np.array([found[cell] for cell in cells], dtype=np.int64), ""


def _numbered(table: Table, column: int, count: int) -> tuple[Integers, str]:
    """Read positions; of two classes without names, False is the first and True the second."""
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
    if problem is not None and all(map(is_number, cells)):
        raise problem
    row = next(row for row, cell in enumerate(cells) if not is_number(cell))
    if absent(cells[row]) is not None:
        raise table.missing_error([column], "give every row a label")
    there = f"holds {abbreviate(repr(cells[row]))}, and the {count} classes have no names; give the columns their names"
    raise table.error(f"{table.place(row, column)} {there}", param="classes")


def _unknown(cell: str, classes: tuple[str, ...]) -> str:
    if is_number(cell) and not any(map(is_number, classes)):
        return f"holds {abbreviate(cell)}, and the classes have the names {join_names(classes)}; write these names"
    return f"holds {abbreviate(repr(cell))}, which is none of the classes {join_names(classes)}"
