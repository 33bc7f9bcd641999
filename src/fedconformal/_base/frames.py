"""Tables with named columns, recognised without importing pandas, polars or Arrow.

Columns that have names are matched by name, never by position: two columns in another order would be two classes that
changed places, and no number would show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Probabilities, as_matrix
from fedconformal._base.names import listed, name_key
from fedconformal.errors import InputError


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
        raise InputError(f"probabilities: two columns are called {double!r}")
    if found.keys() != set(wanted):
        others, missing = sorted(found.keys() - set(wanted)), [name for name in wanted if name not in found]
        problems = [f"{_columns(others)} {'are no classes' if len(others) > 1 else 'is no class'}"] if others else []
        problems += [f"there {'are' if len(missing) > 1 else 'is'} no {_columns(missing, ' for')}"] if missing else []
        raise InputError(f"probabilities: {' and '.join(problems)}; the classes are {listed(wanted)}")
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
            f"probabilities: have {matrix.shape[1]} columns, expected one for each of {wanted} classes; "
            "give the columns of the model that was calibrated"
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
    return f"column{'s' if len(names) > 1 else ''}{what} {listed([repr(name) for name in names])}"
