"""The shares of the classes at a new place, estimated or bounded from unlabelled rows (docs/proofs.md).

If X given Y is the same everywhere, the place predicts class j with probability t_j = sum_c pi_c p_cj. The sites count
p, and the unlabelled rows count t. Clopper-Pearson intervals for every p_cj and t_j (Bonferroni) give a polytope of
shares; the least and largest share of a class in it is a linear program. Calibration rows may be counted too.

References: Saerens, Latinne and Decaestecker, 2002; Lipton, Wang and Smola, "Detecting and correcting for label shift
with black box predictors", 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Floats, Integers, as_array, as_probabilities
from fedconformal._base.classes import in_order
from fedconformal.errors import InputError
from fedconformal.guarantees.pac import PAC
from fedconformal.summaries.rows import read_rows

MARGIN = 1e-9
"""What intervals and bounds are widened by for the rounding of floats, which is far less."""

PLACES = 10**6
"""The parts of one that bounds are rounded outward to."""

STEPS = 10_000
"""Of the estimate, at most."""


def confusion(probs: Any, labels: ArrayLike, *, classes: int | Sequence[str] | None = None) -> Integers:
    """Count a site's rows by class (rows) and by the most probable label (columns); sites add theirs up.

    >>> confusion([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 1, 1])
    array([[1, 0],
           [1, 1]])
    """
    matrix, truth, _ = read_rows(probs, labels, classes)
    size = matrix.shape[1]
    counts = np.bincount(truth * size + as_probabilities(matrix).argmax(axis=1), minlength=size**2)
    return counts.reshape(size, size).astype(np.int64)


def predicted(probs: Any, classes: int | Sequence[str]) -> Integers:
    """Count unlabelled rows by their most probable label, as `confusion` does."""
    with np.errstate(over="ignore"):
        matrix = as_probabilities(in_order(probs, classes).astype(np.float32))
    return np.bincount(matrix.argmax(axis=1), minlength=matrix.shape[1]).astype(np.int64)


def added(tables: Any) -> Integers:
    """Check the tables of the sites, or one for all, and add them up."""
    found = as_array(tables, "confusion")
    whole = found.dtype.kind in "iu" and found.ndim in (2, 3) and found.size and found.min() >= 0
    if not whole or found.shape[-1] != found.shape[-2]:
        raise InputError(
            "confusion: expected counts of rows by class and predicted label, as fedconformal.confusion gives them"
        )
    together: Integers = found.reshape(-1, *found.shape[-2:]).sum(axis=0)
    return together


def shares_at(
    confusion: Any, unlabelled: Any, failure: float | None, classes: Sequence[str] | None
) -> dict[str, float | tuple[float, float]]:
    """Return by class its share at the new place, or with a failure its bounds; see `Prevalence.from_unlabelled`."""
    table = added(confusion)
    if classes is not None and len(classes) != len(table):
        raise InputError(f"classes: {len(classes)} names were given for {len(table)} classes")
    counts = predicted(unlabelled, len(table) if classes is None else classes)
    if failure is None:
        found: list[Any] = estimated_shares(table, counts).tolist()
    else:
        found = list(share_bounds(table, counts, PAC(failure=failure).failure))
    return dict(zip(map(str, range(len(table))) if classes is None else classes, found, strict=True))


def estimated_shares(table: Integers, counts: Integers) -> Floats:
    """Return the shares under which the predictions at the new place are most likely; nothing bounds their error.

    >>> estimated_shares(np.array([[90, 10], [20, 80]]), np.array([550, 450])).round(2)
    array([0.5, 0.5])
    """
    if not table.sum(axis=1).all():
        raise InputError(f"confusion: class {int(np.argmin(table.sum(axis=1)))} has no rows; its share is not known")
    rates = (table + 0.5) / (table + 0.5).sum(axis=1, keepdims=True)  # no rate is zero
    shares = np.full(len(table), 1 / len(table))
    for _ in range(STEPS):
        better = shares * (rates @ (counts / (shares @ rates))) / counts.sum()
        if np.abs(better - shares).max() < MARGIN:
            break
        shares = better
    return shares


def share_bounds(table: Integers, counts: Integers, failure: float) -> list[tuple[float, float]]:
    """Return bounds on the share of every class that all hold, but with probability `failure`.

    >>> share_bounds(np.array([[90, 10], [20, 80]]), np.array([550, 450]), 0.05)
    [(0.308252, 0.685164), (0.314836, 0.691748)]
    """
    size = len(table)
    cells = (size + 1) * (1 if size == 2 else size)  # of two labels, one interval is the other's mirror image
    (least, most), (low, high) = (_intervals(part, failure / cells) for part in (table, counts[None]))
    matrix = np.concatenate([least.T, -most.T])
    return _ranges(matrix, np.concatenate([high[0], -low[0]]))


def _intervals(counts: Integers, failure: float) -> tuple[Floats, Floats]:
    """Return Clopper and Pearson's bounds for each cell of a row."""
    from scipy.special import betaincinv

    total = np.broadcast_to(counts.sum(axis=1, keepdims=True), counts.shape)
    low = np.where(counts == 0, 0.0, betaincinv(np.maximum(counts, 1), total - counts + 1, failure / 2))
    # From the other end: beside one, small chances are lost to the rounding of floats.
    high = np.where(counts == total, 1.0, 1 - betaincinv(np.maximum(total - counts, 1), counts + 1, failure / 2))
    return np.maximum(0.0, low - MARGIN), np.minimum(1.0, high + MARGIN)


def _ranges(matrix: Floats, limits: Floats) -> list[tuple[float, float]]:
    """Return the least and the largest of every share among those with matrix @ shares <= limits.

    By weak duality every y >= 0 bounds a share x_c from above, by y @ limits + the largest entry of e_c - y @ matrix.
    So the solver only has to come near; what it returns need not be feasible or best.
    """
    from scipy.optimize import linprog

    size, found = matrix.shape[1], []
    for place in range(size):
        ends = []
        for sign in (-1.0, 1.0):
            goal = sign * np.eye(size)[place]
            solved = linprog(-goal, A_ub=matrix, b_ub=limits, A_eq=np.ones((1, size)), b_eq=[1.0], method="highs")
            if solved.status == 2:
                raise InputError(
                    "unlabelled: no shares of the classes give these predictions; a class looks different at the "
                    "new place than at the sites, or the model is another one, so nothing can be promised there"
                )
            y = np.zeros(len(limits)) if solved.status else np.maximum(0.0, -solved.ineqlin.marginals)
            ends.append(float(y @ limits + (goal - y @ matrix).max() + MARGIN * (1 + y.sum())))
        low, high = np.floor(-ends[0] * PLACES) / PLACES, np.ceil(ends[1] * PLACES) / PLACES
        found.append((max(0.0, float(low)), min(1.0, float(high))))
    return found
