"""Tables from text files: encoding, header and row names.

Line 1 is a header if it contains no number and one of the next lines does. Column numbers such as 0,1, the default of
pandas, are a header; if they could also be a row, the file is refused. If all cells are text, the other table decides.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedconformal._base.arrays import SUM_TOLERANCE
from fedconformal._base.names import abbreviate, name_key, plural
from fedconformal.errors import InputError
from fedconformal.tables.table import CellError, Table, absent
from fedconformal.tables.text import (
    COMMA,
    DECIMAL_COMMA,
    SEP_LINE,
    SEPARATORS,
    Layout,
    TextCells,
    layout_of,
    rows_of,
    spells_number,
    split_records,
)

MOST_BYTES = 2**30
LAYOUT_TEXT = 2**20
"""Number of characters used to detect the layout."""
PANDAS_NAMELESS = "Unnamed: 0"
"""Name that pandas gives to an unnamed index read as a column."""
SOME_ROWS = 100
"""Number of rows below line 1 that are searched for a number."""
WHOLE = re.compile(r"[-+]?[0-9]+")
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
SPELLED = {"utf-8": "", "utf-8-sig": "UTF-8 with a mark", "utf-16": "UTF-16"}
ZIP = b"PK\x03\x04"
BEGINNING = 256


def read_text_file(path: Path, encoding: str | None) -> Table:
    """Read a .csv, .tsv or .txt file."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"has {size} bytes, more than {MOST_BYTES}; save it as .npy, or as several files")
    data = path.read_bytes()
    coding = encoding_of(data[:BEGINNING], encoding)
    text = _decode(data, coding)
    stated = SEP_LINE.match(text)
    text = text[stated.end() :] if stated else text
    cut = text.rfind("\n", 0, LAYOUT_TEXT) + 1  # the last line may be cut off, and so may an open quote
    first = text if not cut or text.count('"', 0, cut) % 2 else text[:cut]
    layout = Layout(stated[1], SEPARATORS[stated[1]]) if stated else layout_of(first)
    cells = split_records(text, layout)
    if not cells.rows:
        raise InputError("is empty")
    if layout.separator != COMMA and _has_decimal_comma(text, layout.separator):
        cells = replace(cells, decimal=",")
    said = [
        layout.said,
        "after a line sep= that is not counted" if stated else "",
        "decimal commas" if cells.decimal == "," else "",
        SPELLED.get(coding, coding),
    ]
    return _table(path, cells, said, short=layout.short)


def encoding_of(start: bytes, asked: str | None) -> str:
    """Choose the encoding of a file that begins with these bytes."""
    if start.startswith(ZIP):
        raise InputError("is a spreadsheet or a zip file, not text; save the sheet as CSV UTF-8 first")
    marked = next((name for mark, name in MARKS if start.startswith(mark)), None)
    if asked is None:
        if marked is None and b"\0" in start:
            likely = "utf-16-le" if start[1::2].count(0) >= start[::2].count(0) else "utf-16-be"
            raise InputError(
                f"holds NUL bytes and no mark; if it is text in UTF-16, give the encoding {likely}", param="encoding"
            )
        return marked or "utf-8"
    try:
        name = codecs.lookup(asked).name
        "".encode(name)
    except (LookupError, ValueError):
        raise InputError(f"no encoding is called {abbreviate(asked)}; try utf-8, utf-16 or cp1252") from None
    if marked is not None and not name.startswith(marked.removesuffix("-sig")):
        spelled = SPELLED[marked].split()[0]
        raise InputError(
            f"begins with the mark of {spelled}, not of {abbreviate(asked)}; leave out the encoding", param="encoding"
        )
    return marked or name


def _decode(data: bytes, coding: str) -> str:
    """Decode a file and normalise line ends; an error names the line of an invalid byte."""
    try:
        text = data.decode(coding)
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode(coding, "ignore")
        line = before.count("\n") + before.replace("\r\n", "").count("\r") + 1
        found, expected = f"{error.object[error.start]:02x}", coding.removesuffix("-sig").upper()
        other = "cp1252 (Excel on Windows)" if coding.startswith("utf-8") else "another one"
        raise InputError(
            f"line {line} holds the byte {found}, which is not {expected}; give its encoding, such as {other}",
            param="encoding",
        ) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(
            f"line {line} holds a NUL byte, so this is not text; give the encoding if it is UTF-16", param="encoding"
        )
    return text


def _has_decimal_comma(text: str, separator: str) -> bool:
    cell = rf'(?:^|[{separator}\n])[ "]*+{DECIMAL_COMMA.pattern}[ "]*+(?=[{separator}\n]|$)'
    return COMMA in text and re.search(cell, text) is not None


def _table(path: Path, cells: TextCells, said: list[str], *, short: bool) -> Table:
    head = [*([""] if short else []), *map(name_key, next(rows_of(cells.records[:1], cells.separator)))]
    head[0] = "" if head[0] == PANDAS_NAMELESS else head[0]
    body = replace(cells, records=cells.records[1:])
    empty = _empty_columns(head, body)
    columns = [j for j in range(len(head)) if j not in empty]
    names = [head[j] for j in columns]
    row_names = columns[0] if len(names) > 1 and not names[0] and _are_names(names[1:]) else None
    columns = columns[1:] if row_names is not None else columns
    header = row_names is not None or _is_header([head[j] for j in columns], body, columns)
    if header and not body.rows:
        raise InputError("is empty but for its header")
    if empty:
        said.append(f"{plural(len(empty), 'empty column')} left out")
    numbers = _positions([head[j] for j in columns]) if header else []
    if numbers:
        said.append(f"column numbers {','.join(numbers[:3])}{',...' * (len(numbers) > 3)} in line 1")
    table = Table(
        source=str(path),
        cells=body if header else cells,
        names=tuple(head) if header else None,
        columns=tuple(columns),
        said=tuple(said),
        row_names=row_names,
        head=tuple(head) if header is None else None,
        below=body if header is None else None,
        first_line=2 if header else 1,
    )
    if row_names is None:
        return table
    names = table.texts(row_names)
    counts = any(names == [str(i) for i in range(start, start + len(names))] for start in (0, 1))
    what = "row numbers left out" if counts else "row names in column 1"
    return replace(table, counted=counts, said=(*said, what))


def _empty_columns(head: list[str], cells: TextCells) -> set[int]:
    empty = {j for j, name in enumerate(head) if not name}
    for row in rows_of(cells.records, cells.separator) if empty else ():
        empty -= {j for j in empty if row[j].strip()}
    return empty


def _positions(names: list[str]) -> list[str]:
    """Return the names that are numbers if these count columns, from 0 or from 1; otherwise an empty list."""
    numbers = [name for name in names if spells_number(name)]
    return numbers if any(numbers == [str(i + start) for i in range(len(numbers))] for start in (0, 1)) else []


def _are_names(names: list[str]) -> bool:
    """Whether all cells after an empty first cell are column names."""
    numbers = sum(map(spells_number, names))
    return all(names) and (not numbers or names == ["0"] or (numbers > 1 and bool(_positions(names))))


def _is_header(names: list[str], body: TextCells, columns: list[int]) -> bool | None:
    """Whether line 1 is a header; None if its content is ambiguous."""
    numbers = [j for j, name in zip(columns, names, strict=True) if spells_number(name)]
    if not numbers:
        if not all(names):
            raise InputError(f"line 1, column {columns[names.index('')] + 1} has no name; give every column a name")
        missing = [j for j, name in zip(columns, names, strict=True) if absent(name)]
        if len(missing) > 1:  # a single class may have the name none
            raise InputError(f"line 1, column {missing[0] + 1} {absent(names[columns.index(missing[0])])}, not a name")
        below = rows_of(body.records[:SOME_ROWS], body.separator)
        return True if any(spells_number(row[j]) for row in below for j in columns) else None
    if names == ["0"]:
        return None
    if len(numbers) < 2 or not _positions(names) or not all(names):
        return False
    return _counts_columns(_positions(names), body, numbers)


def _counts_columns(names: list[str], body: TextCells, columns: list[int]) -> bool:
    """Whether a first line of column numbers is a header: other rows have decimal marks, or are distributions."""
    rows = rows_of(body.records, body.separator)
    whole = any(all(WHOLE.fullmatch(row[j].strip()) for j in columns) for row in rows)
    if body.rows and not whole:
        return True
    if body.rows and len(names) > 2:
        try:
            if (np.abs(body.numbers(columns).sum(axis=1) - 1) <= SUM_TOLERANCE).all():
                return True
        except CellError:
            pass
    raise InputError(
        f"line 1 is {','.join(names[:3])}{',...' if len(names) > 3 else ''}, which could be a header of column numbers "
        "or a row; write names there if it is a header, or else decimals such as 0.0,1.0"
    )
