"""Class names, column names and labels.

Labels of named classes are names. Named columns are matched to named classes by name, never by position. Data frames
are recognised without importing pandas, polars or Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Integers, Probabilities, as_labels, as_matrix, one_a_row
from fedconformal._base.groups import read_column
from fedconformal._base.names import abbreviate, as_name, first_duplicate, join_names, name_key
from fedconformal.errors import InputError, prefix_errors, requires_extra


def class_names(classes: ArrayLike) -> int | tuple[str, ...]:
    """Return the names of a model's classes in order; only their number if the names are 0, 1, 2, ...

    >>> class_names(["benign", "malignant"]), class_names([1, 2, 5]), class_names([0, 1, 2])
    (('benign', 'malignant'), ('1', '2', '5'), 3)
    """
    column = read_column(classes, "classes")
    if column.dtype.kind in "iuf" and np.array_equal(column, np.arange(len(column))):
        return len(column)
    return tuple(_text(column).tolist())


def as_class_indices(labels: ArrayLike, *, rows: int, classes: int | Sequence[str], name: str = "labels") -> Integers:
    """Validate one label per row, names if the classes are named, and return class indices."""
    column = read_column(labels, name)
    if isinstance(classes, int):
        if column.dtype.kind == "U" and column.size:
            raise InputError(
                f"holds text, not numbers (row 0 is {str(column.flat[0])!r}); "
                "for labels that are names, give the names of the classes, or a table with named columns",
                where=name,
            )
        return as_labels(column, rows=rows, classes=classes, name=name)
    column = one_a_row(column, rows, name)
    distinct, inverse = np.unique(column, return_inverse=True)
    texts = _text(distinct)
    missing = np.isin(texts, [text for text in ("", "nan") if text not in classes])[inverse]
    if missing.any():
        raise InputError("has no label", where=name, row=int(np.argmax(missing)))
    index = {known: k for k, known in enumerate(classes)}
    codes = np.array([index.get(text, -1) for text in texts.tolist()], dtype=np.int64)
    if (codes < 0).any():
        first = int(np.argmax((codes < 0)[inverse]))
        unknown = [repr(text) for text in dict.fromkeys(texts[inverse][first:].tolist()) if text not in index]
        verb = "are not classes" if len(unknown) > 1 else "is not a class"
        advice = "; for class indices, leave out the names of the classes" if column.dtype.kind in "iu" else ""
        raise InputError(
            f"row {first}: {join_names(unknown)} {verb}; the classes are {join_names(classes)}{advice}", where=name
        )
    return np.asarray(codes[inverse])


def names_and_values(frame: Any) -> tuple[tuple[str, ...] | None, Any]:
    """Return the column names of a table, None if it has none, and its values."""
    columns = None if isinstance(frame, np.ndarray | Sequence) else getattr(frame, "column_names", None)
    if columns is None:
        columns = getattr(frame, "columns", None)
    if columns is None:
        return None, frame
    names = list(columns)
    numbered = names == list(range(len(names)))  # default column labels of pandas
    return None if numbered else tuple(name_key(str(name)) for name in names), np.asarray(frame)


def match_columns(names: Sequence[str] | int, wanted: Sequence[str] | int) -> tuple[list[int], str]:
    """Return the position of each class among named columns, and a note if the order differs.

    Without names on either side, only the numbers of columns and classes must agree.

    >>> match_columns(["malignant", "benign"], ["benign", "malignant"])
    ([1, 0], 'columns reordered by name: benign, malignant')
    """
    if isinstance(names, int) or isinstance(wanted, int):
        count, expected = (side if isinstance(side, int) else len(side) for side in (names, wanted))
        if count != expected:
            raise InputError(f"has {count} columns of probabilities, and there are {expected} classes")
        assigned = wanted if isinstance(names, int) and not isinstance(wanted, int) else ()
        return list(range(count)), f"columns without names are taken as {join_names(assigned)}" if assigned else ""
    columns, classes = tuple(map(name_key, names)), as_class_names(wanted)
    if (same := first_duplicate(columns)) is not None:
        raise InputError(f"two columns are called {abbreviate(same)}; give each a name of its own")
    order, pattern = find_columns(columns, classes)
    used = set(order)
    unknown = [name for k, name in enumerate(columns) if k not in used]
    if unknown:
        what = f"has the column {abbreviate(unknown[0])}, which is none of the classes {join_names(classes)}"
        raise InputError(f"{what}; leave it out if it is no class", param="drop")
    moved = f"columns reordered by name: {join_names(classes)}" if order != sorted(order) else ""
    return order, "; ".join(filter(None, [pattern, moved]))


def as_class_names(classes: Sequence[str]) -> tuple[str, ...]:
    """Validate distinct class names."""
    if isinstance(classes, str) or not len(classes):
        raise InputError(f"classes is {classes!r:.60}, expected a list of names")
    names = tuple(as_name(name, "class") for name in classes)
    if (same := first_duplicate(names)) is not None:
        raise InputError(f"classes: {abbreviate(same)} is there twice")
    return names


def find_columns(names: Sequence[str], classes: tuple[str, ...]) -> tuple[list[int], str]:
    """Locate each class by its exact name, or all by one pattern such as prob_*; return the pattern as a note."""
    index = {name: k for k, name in enumerate(names)}
    missing = [name for name in classes if name not in index]
    if not missing:
        return [index[name] for name in classes], ""
    patterns = {(start, end) for name in names for start, match, end in [name.partition(classes[0])] if match}
    fitting = [(a, b) for a, b in patterns if all(f"{a}{name}{b}" in index for name in classes)]
    if len(missing) == len(classes) and len(fitting) == 1:
        start, end = fitting[0]
        return [index[f"{start}{name}{end}"] for name in classes], (
            f"columns {abbreviate(f'{start}*{end}')} are the classes {join_names(classes)}"
        )
    raise InputError(f"has no column for the class {abbreviate(missing[0])}; the columns are {join_names(names)}")


def in_order(probs: Any, classes: int | Sequence[str] | None) -> Probabilities:
    """Return probabilities with columns in class order; without names the number of columns must match."""
    names, values = (None, probs) if isinstance(probs, np.ndarray) else names_and_values(probs)
    matrix = as_matrix(values, "probabilities")
    if names is not None and classes is not None and not isinstance(classes, int):
        with prefix_errors("probabilities"):
            matrix = matrix[:, match_columns(names, classes)[0]]
    wanted = matrix.shape[1] if classes is None else classes if isinstance(classes, int) else len(classes)
    if matrix.shape[1] != wanted:
        raise InputError(
            f"have {matrix.shape[1]} columns, expected one for each of {wanted} classes; "
            "give the columns of the model that was calibrated",
            where="probabilities",
        )
    return matrix


def format_sets(sets: NDArray[np.bool_], names: Any, output: str, rows: Any) -> Any:
    """Return sets as booleans ("array"), lists of names ("labels"), or a pandas frame with a column for each class."""
    if output == "array":
        return sets
    if output not in ("labels", "frame"):
        raise InputError(f"output is {output!r:.60}, expected 'array', 'labels' or 'frame'", param="output")
    named = list(range(sets.shape[1]) if isinstance(names, int) or names is None else names)
    if output == "labels":
        return [[name for name, inside in zip(named, row, strict=True) if inside] for row in sets.tolist()]
    with requires_extra("sklearn"):
        import pandas as pd
    return pd.DataFrame(sets, columns=named, index=rows.index if hasattr(rows, "iloc") else None)


def rows_at(table: Any, index: NDArray[np.int64]) -> Any:
    """Select rows of a frame, a sparse matrix, an array or a list; a list becomes an array."""
    if hasattr(table, "iloc"):  # pandas
        return table.iloc[index]
    if hasattr(table, "column_names"):  # Arrow
        return table.take(index)
    if hasattr(table, "tocsr"):  # some scipy sparse formats have no row indexing
        return table.tocsr()[index]
    return (table if hasattr(table, "shape") else np.asarray(table))[index]


def _text(values: NDArray[Any]) -> NDArray[np.str_]:
    """Return names in normal form; a whole number has one name, whatever its dtype."""
    texts = (value if isinstance(value, str) else str(value).removesuffix(".0") for value in values.tolist())
    return np.array([name_key(text) for text in texts], dtype=np.str_)
