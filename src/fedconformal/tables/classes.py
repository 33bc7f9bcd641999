"""Classes by their names: exact ones, or all of them by one pattern such as prob_*, and never in silence.

Labels are names of classes where classes have names, and positions from 0 where they have none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedconformal._base.arrays import Integers, as_labels
from fedconformal._base.names import abbreviate, as_name, join_names, name_key
from fedconformal.errors import InputError
from fedconformal.tables.layout import is_number
from fedconformal.tables.table import Table, absent, twice


def match_columns(names: Sequence[str] | int, wanted: Sequence[str] | int) -> tuple[list[int], str]:
    """Return the position of each wanted class among named columns, and a line if the order is another.

    Columns without names, or classes that are only counted, must be as many.

    >>> match_columns(["malignant", "benign"], ["benign", "malignant"])
    ([1, 0], 'columns reordered by name: benign, malignant')
    >>> match_columns(["benign", "other"], ["benign", "malignant"])
    Traceback (most recent call last):
    fedconformal.errors.InputError: has no column for the class malignant; the columns are benign, other
    """
    if isinstance(names, int) or isinstance(wanted, int):
        there, expected = (one if isinstance(one, int) else len(one) for one in (names, wanted))
        if there != expected:
            raise InputError(f"has {there} columns of probabilities, and there are {expected} classes")
        given = wanted if isinstance(names, int) and not isinstance(wanted, int) else ()
        return list(range(there)), f"columns without names are taken as {join_names(given)}" if given else ""
    there_names, classes = tuple(map(name_key, names)), as_class_names(wanted)
    order, said = found_columns(there_names, classes)
    used = set(order)
    unknown = [name for k, name in enumerate(there_names) if k not in used]
    if unknown:
        what = f"has the column {abbreviate(unknown[0])}, which is none of the classes {join_names(classes)}"
        raise InputError(f"{what}; leave it out if it is no class", param="drop")
    moved = f"columns reordered by name: {join_names(classes)}" if order != sorted(order) else ""
    return order, "; ".join(filter(None, [said, moved]))


def as_class_names(classes: Sequence[str]) -> tuple[str, ...]:
    """Check names of classes, each another one.

    >>> as_class_names(["benign", " malignant"])
    ('benign', 'malignant')
    """
    if isinstance(classes, str) or not len(classes):
        raise InputError(f"classes is {classes!r:.60}, expected a list of names")
    names = tuple(as_name(name, "class") for name in classes)
    same = twice(names)
    if same is not None:
        raise InputError(f"classes: {abbreviate(same)} is there twice")
    return names


def found_columns(names: Sequence[str], classes: tuple[str, ...]) -> tuple[list[int], str]:
    """Find each class by its exact name, or all of them by one pattern such as prob_*."""
    at = {name: k for k, name in enumerate(names)}
    missing = [name for name in classes if name not in at]
    if not missing:
        return [at[name] for name in classes], ""
    patterns = {(start, end) for name in names for start, found, end in [name.partition(classes[0])] if found}
    fitting = [(a, b) for a, b in patterns if all(f"{a}{name}{b}" in at for name in classes)]
    if len(missing) == len(classes) and len(fitting) == 1:
        start, end = fitting[0]
        return [at[f"{start}{name}{end}"] for name in classes], (
            f"columns {abbreviate(f'{start}*{end}')} are the classes {join_names(classes)}"
        )
    raise InputError(f"has no column for the class {abbreviate(missing[0])}; the columns are {join_names(names)}")


def positions_of(table: Table, column: int, classes: tuple[str, ...] | None, count: int) -> tuple[Integers, str]:
    """Return the position of each row's label among the classes, and what is said; name the first row that has none.

    >>> from fedconformal.tables import table_of
    >>> positions_of(table_of(["b", "a "]), 0, ("a", "b"), 2)
    (array([1, 0]), '')
    >>> positions_of(table_of([True, False]), 0, None, 2)
    (array([1, 0]), 'False is class 0 and True is class 1')
    >>> positions_of(table_of([1, 0], name="y"), 0, ("a", "b"), 2)
    Traceback (most recent call last):
    fedconformal.errors.InputError: y: row 0, column 1 holds 1, and the classes have the names a, b; write these names
    """
    if classes is None:
        return _numbered(table, column, count)
    cells = table.texts(column)
    known = {name: at for at, name in enumerate(classes)}
    found = {cell: known.get(name_key(cell)) for cell in dict.fromkeys(cells)}
    wrong = next((cell for cell, at in found.items() if at is None), None)
    if wrong is not None:
        raise table.error(f"{table.place(cells.index(wrong), column)} {_unknown(wrong, classes)}")
    return np.array([found[cell] for cell in cells], dtype=np.int64), ""


def spellings(table: Table, column: str) -> set[str]:
    """Return the labels that a column has, as names are compared; not those that are missing."""
    return {name_key(cell) for cell in set(table.texts(column)) if absent(cell) is None}


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
    there = f"holds {abbreviate(repr(cells[row]))}, and the {count} classes have no names; give the columns their names"
    raise table.error(f"{table.place(row, column)} {_lacking(cells[row]) or there}", param="classes")


def _unknown(cell: str, classes: tuple[str, ...]) -> str:
    if is_number(cell) and not any(map(is_number, classes)):
        return f"holds {abbreviate(cell)}, and the classes have the names {join_names(classes)}; write these names"
    return _lacking(cell) or f"holds {abbreviate(repr(cell))}, which is none of the classes {join_names(classes)}"


def _lacking(cell: str) -> str | None:
    missing = absent(cell)
    return None if missing is None else f"{missing}; give every row a label"
