"""Requests and answers in JSON; requests are untrusted.

A body is decoded directly into the types below: unknown fields, excessive nesting and text in place of a number are
decoding errors. The numbers and rows of a body are limited before decoding.
"""

from __future__ import annotations

import secrets
import time
from typing import Annotated, TypeVar

import msgspec
import numpy as np

from fedconformal._base.arrays import Floats
from fedconformal._base.names import MAX_NAME, abbreviate
from fedconformal.errors import InputError

JSON = "application/json"
MOST_ROWS, MOST_NUMBERS = 10_000, 2**21
"""Limits of one request. A number takes several times its bytes in memory during decoding."""

Matrix = list[list[float]]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
T = TypeVar("T", bound=msgspec.Struct)


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """Class names in the order of the numbers, ids of the rows, their site, and group columns."""

    columns: list[Name] | None = None
    ids: list[Name] | None = None
    site: Name | None = None
    groups: dict[Name, list[Name | None]] | None = None


class JsonRows(Columns, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body of POST /predict: probabilities, logits or features, one list of numbers per row."""

    probabilities: Matrix | None = None
    logits: Matrix | None = None
    features: Matrix | None = None


class Rows(Columns, frozen=True, kw_only=True):
    """Requested rows, as a matrix of probabilities, logits or features."""

    form: str
    matrix: Floats

    def __len__(self) -> int:
        return len(self.matrix)

    def __post_init__(self) -> None:
        count = len(self.matrix)
        if not 0 < count <= MOST_ROWS:
            raise InputError(f"{self.form}: has {count or 'no'} rows; send at least one, at most {MOST_ROWS}")
        for name, column in [("ids", self.ids), *(self.groups or {}).items()]:
            if column is not None and len(column) != count:
                raise InputError(f"has {len(column)} values, and there are {count} rows", where=abbreviate(name))
        if self.ids is not None and len(set(self.ids)) < count:
            raise InputError("ids: two rows have the same id; give each its own")
        if not "".join([*(self.ids or ()), self.site or ""]).isprintable():
            raise InputError("ids: an id holds characters that cannot be printed")


class LabelledIds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body of POST /outcomes: ids of the answers, and true labels as class names or indices."""

    ids: list[Name]
    labels: list[Name | int]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to POST /predict: the sets and p-values of rows, and the terms of the certificate."""

    predictor: str
    status: str
    alpha: float
    sentence: str
    warnings: list[str]
    full_sets: int
    classes: list[str] | list[int]
    ids: list[str]
    sets: list[list[str | int]]
    p_values: list[list[float]]


def read_rows(body: bytes) -> Rows:
    """Decode rows.

    >>> read_rows(b'{"probabilities": [[0.75, 0.25]], "ids": ["scan-7"]}').matrix
    array([[0.75, 0.25]])
    """
    fields = _decoded(body, JsonRows)
    forms = {"probabilities": fields.probabilities, "logits": fields.logits, "features": fields.features}
    present = [(form, rows) for form, rows in forms.items() if rows is not None]
    if len(present) != 1:
        names = " and ".join(form for form, _ in present)
        raise InputError(f"the body has {names or 'no rows'}; give one of {', '.join(forms)}")
    ((form, rows),) = present
    about = {name: getattr(fields, name) for name in Columns.__struct_fields__}
    return Rows(form=form, matrix=_matrix(rows, form), **about)


def read_outcomes(body: bytes) -> LabelledIds:
    """Decode the labels of rows."""
    labelled = _decoded(body, LabelledIds)
    if len(labelled.ids) > MOST_ROWS:
        raise InputError(f"ids: has {len(labelled.ids)} values; send at most {MOST_ROWS} at a time")
    if len(labelled.ids) != len(labelled.labels) or not labelled.ids:
        raise InputError(f"labels: has {len(labelled.labels)} values, and there are {len(labelled.ids)} ids")
    return labelled


def _decoded(body: bytes, kind: type[T]) -> T:
    if body.count(b",") > MOST_NUMBERS or body.count(b"[") > 2 * MOST_ROWS:  # before any of it takes memory
        raise InputError(f"the body has too many values; send at most {MOST_ROWS} rows and {MOST_NUMBERS} numbers")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        known = f"; the fields are {', '.join(kind.__struct_fields__)}" if "unknown field" in f"{error}" else ""
        raise InputError(f"the body cannot be read: {abbreviate(str(error), 160)}{known}") from None


def _matrix(rows: Matrix, name: str) -> Floats:
    try:
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(rows[0]) if rows else 0)
    except ValueError:
        row = next(row for row, one in enumerate(rows) if len(one) != len(rows[0]))
        raise InputError(f"has {len(rows[row])} numbers, row 0 has {len(rows[0])}", where=name, row=row) from None


def new_ids(count: int) -> list[str]:
    """Return ids for rows without: the time, so that a store appends them, and 80 random bits each."""
    now, drawn = f"{time.time_ns() // 10**6:012x}", secrets.token_hex(10 * count)
    return [now + drawn[start : start + 20] for start in range(0, 20 * count, 20)]
