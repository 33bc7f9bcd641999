"""Classes by name: what a model calls its classes, and labels that are such names.

Where classes have names, a label is a name: numbers that a site chose by itself could mean anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedconformal._base.arrays import Integers, as_labels, column_of
from fedconformal._base.names import listed, name_key
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
                f"{name}: holds text, not numbers (row 0 is {str(given.flat[0])!r}); "
                "for labels that are names, give the names of the classes, or a table with named columns"
            )
        return as_labels(given, rows=rows, classes=classes, name=name)
    if given.shape == (rows, 1):
        given = given[:, 0]
    if given.shape != (rows,):
        raise InputError(f"{name}: has shape {given.shape}, expected ({rows},) as there are {rows} rows")
    kept, places = np.unique(given, return_inverse=True)
    texts = _text(kept)
    lacking = np.isin(texts, [text for text in ("", "nan") if text not in classes])[places]
    if lacking.any():
        raise InputError(f"{name}: row {int(np.argmax(lacking))} has no label")
    where = {known: place for place, known in enumerate(classes)}
    codes = np.array([where.get(text, -1) for text in texts.tolist()], dtype=np.int64)
    if (codes < 0).any():
        first = int(np.argmax((codes < 0)[places]))
        unknown = [repr(text) for text in dict.fromkeys(texts[places][first:].tolist()) if text not in where]
        verb = "are not classes" if len(unknown) > 1 else "is not a class"
        advice = "; for class indices, leave out the names of the classes" if given.dtype.kind in "iu" else ""
        raise InputError(f"{name}: row {first}: {listed(unknown)} {verb}; the classes are {listed(classes)}{advice}")
    found: Integers = codes[places]
    return found


def _text(values: NDArray[Any]) -> NDArray[np.str_]:
    """Return names as they are compared; a whole number has one name, however it is stored."""
    texts = (one if isinstance(one, str) else str(one).removesuffix(".0") for one in values.tolist())
    return np.array([name_key(text) for text in texts], dtype=np.str_)
