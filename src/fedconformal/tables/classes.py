"""Classes by their names: exact ones, or all of them by one pattern such as prob_*, and never in silence."""

from __future__ import annotations

from collections.abc import Sequence

from fedconformal._base.names import as_name, name_key, shown
from fedconformal.errors import InputError
from fedconformal.tables.table import listed, twice


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
        return list(range(there)), f"columns without names are taken as {listed(given)}" if given else ""
    there_names, classes = tuple(map(name_key, names)), as_class_names(wanted)
    order, said = found_columns(there_names, classes)
    used = set(order)
    unknown = [name for k, name in enumerate(there_names) if k not in used]
    if unknown:
        what = f"has the column {shown(unknown[0])}, which is none of the classes {listed(classes)}"
        raise InputError(f"{what}; leave it out if it is no class")
    moved = f"columns reordered by name: {listed(classes)}" if order != sorted(order) else ""
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
        raise InputError(f"classes: {shown(same)} is there twice")
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
            f"columns {shown(f'{start}*{end}')} are the classes {listed(classes)}"
        )
    raise InputError(f"has no column for the class {shown(missing[0])}; the columns are {listed(names)}")
