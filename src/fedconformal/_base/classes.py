"""Classes by name: what a model calls its classes, columns that have such names, and labels that are such names.

Where classes have names, a label is a name: numbers that a site chose by itself could mean anything. Columns that have
names are matched by name, never by position: two columns in another order would be two classes that changed places, and
no number would show it. Tables are recognised without importing pandas, polars or Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Integers, Probabilities, as_labels, as_matrix, column_of, one_a_row
from fedconformal._base.names import join_names, name_key
from fedconformal.errors import InputError


def class_names(classes: ArrayLike) -> int | tuple[str, ...]:
    """Return what a model's classes are called, in order; only their number where they are called 0, 1, 2, ...

    >>> class_names(["benign", "malignant"]), class_names([1, 2, 5]), class_names([0, 1, 2])
    (('benign', 'malignant'), ('1', '2', '5'), 3)
    """
    given = column_of(classes, "classes")
    if given.dtype.kind in "iuf" and np.array_equal(given, np.arange(len(given))):
        return len(given)
    return tuple(_text(given).tolist())


def as_class_indices(labels: ArrayLike, *, rows: int, classes: int | Sequence[str], name: str = "labels") -> Integers:
    """Check for one label a row, a name where classes have names, and return the positions of their classes.

    >>> as_class_indices(["malignant", "benign"], rows=2, classes=["benign", "malignant"])
    array([1, 0])
    """
    given = column_of(labels, name)
    if isinstance(classes, int):
        if given.dtype.kind == "U" and given.size:
            raise InputError(
                f"holds text, not numbers (row 0 is {str(given.flat[0])!r}); "
                "for labels that are names, give the names of the classes, or a table with named columns",
                where=name,
            )
        return as_labels(given, rows=rows, classes=classes, name=name)
    given = one_a_row(given, rows, name)
    kept, places = np.unique(given, return_inverse=True)
    texts = _text(kept)
    lacking = np.isin(texts, [text for text in ("", "nan") if text not in classes])[places]
    if lacking.any():
        raise InputError("has no label", where=name, row=int(np.argmax(lacking)))
    where = {known: place for place, known in enumerate(classes)}
    codes = np.array([where.get(text, -1) for text in texts.tolist()], dtype=np.int64)
    if (codes < 0).any():
        first = int(np.argmax((codes < 0)[places]))
        unknown = [repr(text) for text in dict.fromkeys(texts[places][first:].tolist()) if text not in where]
        verb = "are not classes" if len(unknown) > 1 else "is not a class"
        advice = "; for class indices, leave out the names of the classes" if given.dtype.kind in "iu" else ""
        raise InputError(
            f"row {first}: {join_names(unknown)} {verb}; the classes are {join_names(classes)}{advice}", where=name
        )
    found: Integers = codes[places]
    return found


def table_of(frame: Any) -> tuple[tuple[str, ...] | None, Any]:
    """Return the names of a table's columns, None if it has none, and its values.

    >>> table_of([[0.2, 0.8]])
    (None, [[0.2, 0.8]])
    """
    columns = None if isinstance(frame, np.ndarray | Sequence) else getattr(frame, "column_names", None)
    if columns is None:
        columns = getattr(frame, "columns", None)
    if columns is None:
        return None, frame
    names = list(columns)
    numbered = names == list(range(len(names)))  # what pandas calls columns without names
    return None if numbered else tuple(name_key(str(name)) for name in names), np.asarray(frame)


def match_columns(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return where each wanted column is; others, missing ones and doubles are refused by name.

    >>> match_columns(["malignant", "benign"], ["benign", "malignant"])
    [1, 0]
    """
    found = {name_key(name): place for place, name in enumerate(names)}
    if len(found) < len(names):
        double = next(key for place, name in enumerate(names) if found[key := name_key(name)] != place)
        raise InputError(f"two columns are called {double!r}", where="probabilities")
    if found.keys() != set(wanted):
        others, missing = sorted(found.keys() - set(wanted)), [name for name in wanted if name not in found]
        problems = [f"{_columns(others)} {'are no classes' if len(others) > 1 else 'is no class'}"] if others else []
        problems += [f"there {'are' if len(missing) > 1 else 'is'} no {_columns(missing, ' for')}"] if missing else []
        raise InputError(f"{' and '.join(problems)}; the classes are {join_names(wanted)}", where="probabilities")
    return [found[name] for name in wanted]


def in_order(probs: Any, classes: int | Sequence[str] | None) -> Probabilities:
    """Return probabilities with the columns in the order of the classes; without names their number must be right.

    >>> in_order([[0.2, 0.8]], ["benign", "malignant"])
    array([[0.2, 0.8]])
    """
    names, values = (None, probs) if isinstance(probs, np.ndarray) else table_of(probs)
    matrix = as_matrix(values, "probabilities")
    if names is not None and classes is not None and not isinstance(classes, int):
        matrix = matrix[:, match_columns(names, classes)]
    wanted = matrix.shape[1] if classes is None else classes if isinstance(classes, int) else len(classes)
    if matrix.shape[1] != wanted:
        raise InputError(
            f"have {matrix.shape[1]} columns, expected one for each of {wanted} classes; "
            "give the columns of the model that was calibrated",
            where="probabilities",
        )
    return matrix


def rows_at(table: Any, index: NDArray[np.int64]) -> Any:
    """Return some rows of a table, an array or a list, in the kind of table it is.

    >>> rows_at(["a", "b", "c"], np.array([2, 0])).tolist()
    ['c', 'a']
    """
    if hasattr(table, "iloc"):  # pandas
        return table.iloc[index]
    if hasattr(table, "column_names"):  # Arrow
        return table.take(index)
    if hasattr(table, "tocsr"):  # not every kind of scipy's sparse matrices has rows
        return table.tocsr()[index]
    return (table if hasattr(table, "shape") else np.asarray(table))[index]


def _columns(names: Sequence[str], what: str = "") -> str:
    return f"column{'s' if len(names) > 1 else ''}{what} {join_names([repr(name) for name in names])}"


def _text(values: NDArray[Any]) -> NDArray[np.str_]:
    """Return names as they are compared; a whole number has one name, however it is stored."""
    texts = (one if isinstance(one, str) else str(one).removesuffix(".0") for one in values.tolist())
    return np.array([name_key(text) for text in texts], dtype=np.str_)
