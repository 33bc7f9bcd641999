"""What a client sends: JSON or Arrow, with one kind of numbers for each row. Anything else is refused by name.

Neither is trusted. JSON is read straight into the types below, so that depth, unknown fields and text in the place of
a number end the reading. Arrow is checked before it is used: its columns, its offsets, and that nothing is compressed,
as a small body could unpack to any size.
"""

from __future__ import annotations

import json
import struct
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedconformal._base.names import MAX_NAME, listed, shown
from fedconformal.errors import InputError

JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
FORMS = ("probabilities", "logits", "features")
RECORD_BATCH, SCHEMA = 3, 1
"""Kinds of Arrow messages."""

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

    def __post_init__(self) -> None:
        count = len(self.matrix)
        if not count:
            raise InputError(f"{self.form}: has no rows")
        for name, column in [("ids", self.ids), *(self.groups or {}).items()]:
            if column is not None and len(column) != count:
                raise InputError(f"has {len(column)} values, and there are {count} rows", where=shown(name))
        if self.ids is not None and len(set(self.ids)) < count:
            raise InputError("ids: two rows have the same id; give each its own")
        if not "".join([*(self.ids or ()), self.site or ""]).isprintable():
            raise InputError("ids: an id holds characters that cannot be printed")


class Outcomes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The true labels of rows, by the ids that the answers gave: names where classes have names, else positions."""

    ids: list[Name]
    labels: list[Name | int]


_ROWS = msgspec.json.Decoder(JsonRows)
_OUTCOMES = msgspec.json.Decoder(Outcomes)


def read_rows(body: bytes, content: str) -> Rows:
    """Read a body of either kind.

    >>> read_rows(b'{"probabilities": [[0.75, 0.25]], "ids": ["scan-7"]}', JSON).matrix
    array([[0.75, 0.25]])
    """
    if content == ARROW:
        return _of_arrow(body)
    found: JsonRows = _decoded(_ROWS, body)
    given = [(name, held) for name in FORMS if (held := getattr(found, name)) is not None]
    if len(given) != 1:
        names = " and ".join(name for name, _ in given)
        raise InputError(f"the body has {names or 'no rows'}; give one of {', '.join(FORMS)}")
    ((form, rows),) = given
    about: dict[str, Any] = {"columns": found.columns, "site": found.site, "groups": found.groups}
    return Rows(form=form, matrix=_matrix(rows, form), ids=found.ids, **about)


def read_outcomes(body: bytes) -> Outcomes:
    """Read the labels of rows."""
    found: Outcomes = _decoded(_OUTCOMES, body)
    if len(found.ids) != len(found.labels) or not found.ids:
        raise InputError(f"labels: has {len(found.labels)} values, and there are {len(found.ids)} ids")
    return found


def _decoded(decoder: Any, body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body cannot be read: {shown(str(error), 160)}") from None


def _matrix(rows: Matrix, name: str) -> NDArray[np.float64]:
    try:
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(rows[0]) if rows else 0)
    except ValueError:
        row = next(row for row, one in enumerate(rows) if len(one) != len(rows[0]))
        raise InputError(f"has {len(rows[row])} numbers, row 0 has {len(rows[0])}", where=name, row=row) from None


def _of_arrow(body: bytes) -> Rows:
    try:
        import pyarrow as pa
        from pyarrow import ipc
    except ImportError:
        raise InputError("Arrow needs pyarrow on the server: pip install 'fedconformal[serve]'") from None
    try:
        reader = ipc.MessageReader.open_stream(body)
        for message in iter(reader):
            if not _is_plain(message.metadata.to_pybytes()):
                raise InputError("the Arrow body is compressed or has dictionaries; send plain columns")
        with ipc.open_stream(body) as stream:
            form = _arrow_form(stream.schema, pa)
            table = stream.read_all()
        table.validate(full=True)
        matrix = _flat(table.column(form), table.schema.field(form).type.list_size)
        ids = table.column("id").to_pylist() if "id" in table.column_names else None
        about = {key.decode(): value for key, value in (table.schema.metadata or {}).items()}
    except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the body is no Arrow stream that can be read: {shown(str(error), 160)}") from None
    said = {key: _said(about[key]) for key in ("columns", "site", "groups") if key in about}
    try:
        return msgspec.convert({"form": form, "matrix": matrix, "ids": ids, **said}, Rows)
    except msgspec.ValidationError as error:
        raise InputError(f"the body cannot be read: {error}") from None


def _said(value: bytes) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise InputError("the Arrow metadata cannot be read: columns, site and groups are JSON") from None


def _arrow_form(schema: Any, pa: Any) -> str:
    """Return the one column of numbers; all else but ids is refused before a row is read."""
    numbers = [name for name in schema.names if name in FORMS]
    if len(numbers) != 1 or sorted(schema.names) not in (numbers, sorted(["id", *numbers])):
        raise InputError(
            f"the Arrow columns are {shown(listed(schema.names))}; expected one of {', '.join(FORMS)}, and id"
        )
    kind = schema.field(numbers[0]).type
    if not pa.types.is_fixed_size_list(kind) or kind.value_type not in (pa.float32(), pa.float64()):
        raise InputError(f"the Arrow column {numbers[0]} is {shown(str(kind))}; expected fixed-size lists of floats")
    if "id" in schema.names and schema.field("id").type not in (pa.string(), pa.large_string()):
        raise InputError("the Arrow column id is no text")
    return str(numbers[0])


def _flat(column: Any, width: int) -> NDArray[Any]:
    parts = [chunk.flatten() for chunk in column.chunks]
    if column.null_count or any(part.null_count for part in parts):
        raise InputError("the Arrow body has missing numbers; give every row its numbers")
    if not parts or not width:
        raise InputError("the Arrow body has no rows")
    arrays = [part.to_numpy(zero_copy_only=True).reshape(-1, width) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _is_plain(metadata: bytes) -> bool:
    """Whether a message is a schema, or a record batch without compression; by its flatbuffer, which Arrow has checked.

    A table is a position; a signed number there says how far before it its list of fields is.
    """

    def field(table: int, index: int) -> int:
        start = table - struct.unpack_from("<i", metadata, table)[0]
        inside = 4 + 2 * index < struct.unpack_from("<H", metadata, start)[0]
        return int(struct.unpack_from("<H", metadata, start + 4 + 2 * index)[0]) if inside else 0

    message: int = struct.unpack_from("<I", metadata, 0)[0]
    kind = metadata[message + field(message, 1)]
    if kind != RECORD_BATCH:
        return kind == SCHEMA
    at = message + field(message, 2)
    return field(at + struct.unpack_from("<I", metadata, at)[0], 3) == 0
