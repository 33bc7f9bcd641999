"""Selective classification: answer only where the prediction set is small, and leave the rest to a person.

Small sets mean an easy row, so accuracy rises as the largest sets are left out. This is a heuristic: the promise of
coverage is for all rows, not for those that were kept, and a limit chosen on the rows it is judged by looks better
than it is. `SelectiveError` with `LearnThenTest` certifies one, by how sure the model is, not by sizes.
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fedconformal._base.arrays import Booleans, as_array, as_labels, as_probabilities
from fedconformal.errors import InputError


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What is left if only sets of at most `size` labels are answered."""

    size: int
    rows: int
    kept: float
    """The share of rows that are answered."""
    accuracy: float
    """How often the top label is right among these."""
    coverage: float
    """How often their set holds the truth."""


class Selective(msgspec.Struct, frozen=True, kw_only=True):
    """Every size limit that makes a difference, from the strictest to none."""

    limits: list[Limit]

    def limit_for(self, accuracy: float) -> Limit | None:
        """Return the limit that answers most rows with at least this accuracy on them; None if there is none.

        A heuristic: accuracy does not always fall as the limit grows, and nothing is promised on new rows.
        """
        return max((one for one in self.limits if one.accuracy >= accuracy), key=lambda one: one.size, default=None)


def selective_classification(sets: ArrayLike, probs: ArrayLike, labels: ArrayLike) -> Selective:
    """Tabulate accuracy and coverage after abstaining on the largest sets.

    >>> sets = [[True, False, False], [True, False, False], [True, True, False], [True, True, True]]
    >>> probs = [[0.9, 0.1, 0.0], [0.8, 0.2, 0.0], [0.5, 0.4, 0.1], [0.4, 0.3, 0.3]]
    >>> found = selective_classification(sets, probs, [0, 0, 1, 2])
    >>> [(one.size, one.kept, round(one.accuracy, 3)) for one in found.limits]
    [(1, 0.5, 1.0), (2, 0.75, 0.667), (3, 1.0, 0.5)]
    >>> found.limit_for(0.6).size
    2
    """
    member: Booleans = as_array(sets, "sets")
    matrix = as_probabilities(probs)
    if member.shape != matrix.shape or member.dtype != np.bool_ or not len(member):
        raise InputError(f"sets: expected booleans of shape {matrix.shape}, got {member.dtype} {member.shape}")
    truth = as_labels(labels, rows=len(member), classes=member.shape[1])
    sizes = np.count_nonzero(member, axis=1)
    rows = np.cumsum(np.bincount(sizes))
    hits = np.cumsum(np.bincount(sizes, matrix.argmax(axis=1) == truth))
    covered = np.cumsum(np.bincount(sizes, member[np.arange(len(member)), truth]))
    return Selective(
        limits=[
            Limit(
                size=size,
                rows=int(rows[size]),
                kept=float(rows[size] / len(member)),
                accuracy=float(hits[size] / rows[size]),
                coverage=float(covered[size] / rows[size]),
            )
            for size in np.unique(sizes).tolist()
        ]
    )
