"""Requests and answers in JSON. Nothing that a client sends is trusted.

A body is decoded straight into the types below, so that depth, unknown fields and text in the place of a number end the
decoding. The numbers and rows of a body are limited before it is decoded.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.arrays import Booleans, Floats
from fedconformal._base.names import MAX_NAME, abbreviate
from fedconformal.errors import InputError

JSON = "application/json"
SITE = "X-Fedconformal-Site"
FORMS = ("probabilities", "logits", "features")
MOST_ROWS, MOST_NUMBERS = 10_000, 2**21
"""In one request. A number takes several times its bytes in memory while it is decoded."""

Matrix = list[list[float]]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]


class JsonRows(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body of JSON: probabilities, logits or features, one list of numbers a row, and what is said of the rows."""

    probabilities: Matrix | None = None
    logits: Matrix | None = None
    features: Matrix | None = None
    columns: list[Name] | None = None
    ids: list[Name] | None = None
    site: Name | None = None
    groups: dict[Name, list[Name | None]] | None = None


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows to answer: probabilities, logits or features.

    `columns` are the names of the classes, in the order of the numbers; `ids` are the client's, one a row; `site` and
    `groups` are kept with the ids for the monitor; a predictor by site or by group takes its threshold by them.
    """

    form: str
    matrix: Any
    columns: list[Name] | None = None
    ids: list[Name] | None = None
    site: Name | None = None
    groups: dict[Name, list[Name | None]] | None = None

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
    """The true labels of rows, by the ids that the answers gave: names where classes have names, else positions."""

    ids: list[Name]
    labels: list[Name | int]


_ROWS = msgspec.json.Decoder(JsonRows)
_OUTCOMES = msgspec.json.Decoder(LabelledIds)


def read_rows(body: bytes, header: str | None = None) -> Rows:
    """Decode rows; the header `X-Fedconformal-Site`, percent-encoded, names their site if the body does not.

    >>> read_rows(b'{"probabilities": [[0.75, 0.25]], "ids": ["scan-7"]}').matrix
    array([[0.75, 0.25]])
    """
    found: JsonRows = _decoded(_ROWS, body)
    given = [(name, held) for name in FORMS if (held := getattr(found, name)) is not None]
    if len(given) != 1:
        names = " and ".join(name for name, _ in given)
        raise InputError(f"the body has {names or 'no rows'}; give one of {', '.join(FORMS)}")
    ((form, rows),) = given
    site = found.site if header is None else unquote(header)
    if site is not None and (not 0 < len(site) <= MAX_NAME or found.site not in (None, site)):
        raise InputError(f"the header {SITE} is {abbreviate(site)!r}: no name, or not the site of the body")
    about: dict[str, Any] = {"columns": found.columns, "site": site, "groups": found.groups}
    return Rows(form=form, matrix=_matrix(rows, form), ids=found.ids, **about)


def read_outcomes(body: bytes) -> LabelledIds:
    """Read the labels of rows."""
    found: LabelledIds = _decoded(_OUTCOMES, body)
    if len(found.ids) > MOST_ROWS:
        raise InputError(f"ids: has {len(found.ids)} values; send at most {MOST_ROWS} at a time")
    if len(found.ids) != len(found.labels) or not found.ids:
        raise InputError(f"labels: has {len(found.labels)} values, and there are {len(found.ids)} ids")
    return found


def _decoded(decoder: Any, body: bytes) -> Any:
    if body.count(b",") > MOST_NUMBERS or body.count(b"[") > 2 * MOST_ROWS:  # before any of it takes memory
        raise InputError(f"the body has too many values; send at most {MOST_ROWS} rows and {MOST_NUMBERS} numbers")
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body cannot be read: {abbreviate(str(error), 160)}") from None


def _matrix(rows: Matrix, name: str) -> NDArray[np.float64]:
    try:
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(rows[0]) if rows else 0)
    except ValueError:
        row = next(row for row, one in enumerate(rows) if len(one) != len(rows[0]))
        raise InputError(f"has {len(rows[row])} numbers, row 0 has {len(rows[0])}", where=name, row=row) from None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Sets and p-values of rows, (n, J); `classes` are the names of the columns, or their numbers.

    `scores` are for a watch, and are not sent back.
    """

    ids: Sequence[str]
    classes: Sequence[str] | Sequence[int]
    sets: Booleans
    p_values: Floats
    scores: Floats
    about: dict[str, Any]

    def encoded(self) -> bytes:
        """Encode as JSON."""
        rows = {"classes": self.classes, "ids": self.ids, "sets": self.labels(), "p_values": self.p_values.tolist()}
        return msgspec.json.encode({**self.about, **rows})

    def labels(self) -> list[list[str | int]]:
        """Return the sets by the names of their labels."""
        classes: Sequence[Any] = self.classes
        return [[classes[label] for label in np.flatnonzero(row).tolist()] for row in self.sets]


def new_ids(count: int) -> list[str]:
    """Make ids for rows that came without: 96 random bits each."""
    drawn = secrets.token_hex(12 * count)
    return [drawn[start : start + 24] for start in range(0, 24 * count, 24)]
