"""Labels: names of classes where classes have names, positions from 0 where they have none."""

from __future__ import annotations

import numpy as np

from fedconformal._base.arrays import Integers, as_labels
from fedconformal._base.names import name_key, shown
from fedconformal.tables.layout import is_number
from fedconformal.tables.table import Table, absent, listed

BOOLEANS = {"false": 0, "true": 1}


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
    cells = table.texts(column)
    spelled = dict.fromkeys(cells)
    known = BOOLEANS if classes is None else {name: at for at, name in enumerate(classes)}
    found = {cell: known.get(name_key(cell).lower() if classes is None else name_key(cell)) for cell in spelled}
    if classes is None and (count != 2 or None in found.values()):
        return _numbers(table, column, cells, count), ""
    wrong = next((cell for cell, at in found.items() if at is None), None)
    if wrong is not None:
        raise table.error(f"{table.place(cells.index(wrong), column)} {_unknown(wrong, classes or ())}")
    said = "False is class 0 and True is class 1" if classes is None else ""
    return np.array([found[cell] for cell in cells], dtype=np.int64), said


def spellings(table: Table, column: str) -> set[str]:
    """Return the labels that a column has, as names are compared; not those that are missing."""
    return {name_key(cell) for cell in set(table.texts(column)) if absent(cell) is None}


def _numbers(table: Table, column: int, cells: list[str], count: int) -> Integers:
    wrong = next((row for row, cell in enumerate(cells) if not is_number(cell)), None)
    if wrong is not None:
        missing = absent(cells[wrong])
        problem = f"{missing}; give every row a label"
        if missing is None:
            there = f"holds {shown(repr(cells[wrong]))}, and the {count} classes have no names"
            problem = f"{there}; give the columns their names"
        raise table.error(f"{table.place(wrong, column)} {problem}")
    with table.in_lines():
        return as_labels(table.numbers([column])[:, 0], rows=table.rows, classes=count, name=table.source)


def _unknown(cell: str, classes: tuple[str, ...]) -> str:
    missing = absent(cell)
    if missing is not None:
        return f"{missing}; give every row a label"
    if is_number(cell) and not any(map(is_number, classes)):
        return f"holds {shown(cell)}, and the classes have the names {listed(classes)}; write these names"
    return f"holds {shown(repr(cell))}, which is none of the classes {listed(classes)}"
