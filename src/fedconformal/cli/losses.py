"""What the commands do with scores and their truth: losses on a grid of thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedconformal import tables
from fedconformal._base.files import read_array, read_npz
from fedconformal.errors import InputError, prefix_errors
from fedconformal.losses import Loss

ONE = ("scores", "probs", "truth", "labels", "masks")
"""What the array of an .npz is called, if it holds all rows; else each array is an image."""


def read_rows(path: Path, like: Any = None) -> Any:
    """Read scores or their truth: an array, a table, or the images of an .npz, in the order of those of `like`."""
    if path.suffix.lower() == ".npz":
        held = read_npz(path)
        if len(held) > 1 and not set(held) & set(ONE):
            names = list(like) if isinstance(like, dict) else sorted(held)
            if set(names) != set(held):
                odd = min(set(names) ^ set(held))
                raise InputError(f"{path}: the images of scores and truth have different names, such as {odd!r}")
            return {name: held[name] for name in names}
    if path.suffix.lower() in (".npy", ".npz"):
        return read_array(path, *ONE)
    found = tables.read_table(path)
    values = found.numbers(found.columns)
    return values[:, 0] if len(found.columns) == 1 else values


def evaluated(loss: Loss, scores: Path, truth: Path | None, grid: Any) -> Any:
    """Return the losses of the rows in two files, at every threshold."""
    if truth is None:
        raise InputError(f"--loss {loss.name} needs SCORES and TRUTH; give both files")
    rows = read_rows(scores)
    known = read_rows(truth, rows)
    if isinstance(rows, dict) != isinstance(known, dict):
        raise InputError(
            f"{truth}: holds {len(known)} arrays in another form than {scores}; give both in the same form"
        )
    with prefix_errors(f"{scores}, {truth}"):
        return loss.evaluate(listed_rows(rows), listed_rows(known), thresholds=grid)


def listed_rows(rows: Any) -> Any:
    """Return images as a list, and an array as it is."""
    return list(rows.values()) if isinstance(rows, dict) else rows
