"""Rows that are watched: what is kept of an answer until its outcome comes, and what the outcome makes of it.

Of a set its bits are kept, and the score of each label where changes of scores are watched; of an interval its two
ends; of an answer with a loss nothing. All of it is bytes, next to an opaque id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fedconformal._base.arrays import Booleans, Floats
from fedconformal._base.names import shown
from fedconformal.errors import InputError
from fedconformal.tables.table import twice

Kind = Literal["sets", "intervals", "losses"]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows that were answered together; nothing about a row but its id, its site and groups, and its scores.

    `scores` and `sets` are (n, J), a column for each class; `time` is in seconds since 1970.
    """

    ids: Sequence[str]
    time: float
    sets: Booleans
    scores: Floats
    site: str | None = None
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Rows that were answered, in any order: their times in seconds since 1970, and what was answered.

    `sets` are (n, J) booleans, or `ends` are (n, 2) ends of intervals, or neither, where outcomes are losses. `scores`
    are those of each label, where they are known.
    """

    ids: Sequence[str]
    times: Floats
    sets: Booleans | None = None
    ends: Floats | None = None
    scores: Floats | None = None
    sites: Sequence[str | None] | None = None
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)

    @property
    def sizes(self) -> Floats:
        """How many labels are in each set, or how wide each interval is; one without an end counts as 0."""
        if self.sets is not None:
            labels: Floats = self.sets.sum(axis=1).astype(np.float64)
            return labels
        if self.ends is None:
            return np.zeros(len(self.ids))
        width = self.ends[:, 1] - self.ends[:, 0]
        found: Floats = np.where(np.isfinite(width), np.maximum(width, 0.0), 0.0)
        return found


@dataclass(frozen=True, kw_only=True)
class Outcomes:
    """What came true: positions of labels, numbers, or losses divided by their bound."""

    ids: Sequence[str]
    times: Floats
    values: Floats


LONGEST_ID = 256
LATEST = 2_932_897 * 86_400
"""The end of the year 9999, in seconds since 1970."""
NO_OUTCOMES = Outcomes(ids=(), times=np.empty(0), values=np.empty(0))


def check_ids(ids: Sequence[str], times: Floats, what: str) -> None:
    """Refuse ids that are there twice or are no ids, and times that are none."""
    if len(set(ids)) < len(ids):
        raise InputError(f"the id {shown(twice(ids))} is there twice; give each once", where=what)
    odd = next((one for one in ids if not 0 < len(one) <= LONGEST_ID or not one.isprintable()), None)
    if odd is not None:
        raise InputError(f"the id {shown(odd)!r} is empty, too long, or cannot be printed", where=what)
    if not ((times >= 0) & (times < LATEST)).all():
        raise InputError("a time is not one since 1970", where=what)


def packed(rows: Predicted, *, scored: bool) -> list[bytes]:
    """Write what is kept of each row."""
    if rows.ends is not None:
        ends = np.ascontiguousarray(rows.ends, dtype="<f8")
        return [end.tobytes() for end in ends]
    if rows.sets is None:
        return [b""] * len(rows.ids)
    bits = np.packbits(rows.sets, axis=1)
    if not scored or rows.scores is None:
        return [row.tobytes() for row in bits]
    scores = np.ascontiguousarray(rows.scores, dtype="<f8")
    return [row.tobytes() + score.tobytes() for row, score in zip(bits, scores, strict=True)]


def missed(kind: Kind, held: Sequence[bytes], values: Floats, width: int) -> Floats:
    """Return how much of each row is missed, from what was kept of it and what came true.

    >>> rows = Predicted(ids=["p", "q"], times=np.zeros(2), sets=np.array([[True, False], [True, True]]))
    >>> missed("sets", packed(rows, scored=False), np.array([1.0, 1.0]), 2)
    array([1., 0.])
    """
    if kind == "losses" or not len(held):
        return np.asarray(values, dtype=np.float64)
    if kind == "intervals":
        ends = np.frombuffer(b"".join(held), dtype="<f8").reshape(-1, 2)
        return ((values < ends[:, 0]) | (values > ends[:, 1])).astype(np.float64)
    label = values.astype(np.int64)
    size = -(-width // 8)
    bits = np.frombuffer(b"".join(one[:size] for one in held), dtype=np.uint8).reshape(-1, size)
    inside = (bits[np.arange(len(bits)), label // 8] >> (7 - label % 8)) & 1
    return (1 - inside).astype(np.float64)


def label_scores(held: Sequence[bytes], values: Floats, width: int) -> tuple[Floats, Booleans]:
    """Return the score of the true label of each row, and of which rows it was kept."""
    size = -(-width // 8)
    kept = np.array([len(one) == size + 8 * width for one in held], dtype=np.bool_)
    some = [one[size:] for one in held if len(one) == size + 8 * width]
    scores = np.frombuffer(b"".join(some), dtype="<f8").reshape(-1, width)
    return scores[np.arange(len(some)), values[kept].astype(np.int64)], kept


def set_sizes(held: Sequence[bytes], width: int) -> Floats:
    """Return how many labels are in each set that was kept."""
    size = -(-width // 8)
    bits = np.frombuffer(b"".join(one[:size] for one in held), dtype=np.uint8).reshape(-1, size)
    found: Floats = np.unpackbits(bits, axis=1).sum(axis=1).astype(np.float64)
    return found
