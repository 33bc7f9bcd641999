"""From bytes to text: a mark at the beginning decides, else it is UTF-8, and nothing is replaced in silence."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from fedconformal._base.names import shown
from fedconformal.errors import InputError

MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
SPELLED = {"utf-8": "", "utf-8-sig": "UTF-8 with a mark", "utf-16": "UTF-16"}
ZIP = b"PK\x03\x04"
BEGINNING = 256


def encoding_of(start: bytes, asked: str | None) -> str:
    r"""Choose the encoding of a file that begins with these bytes.

    >>> encoding_of(b"\xef\xbb\xbfa,b", None), encoding_of(b"a,b", None), encoding_of(b"a,b", "cp1252")
    ('utf-8-sig', 'utf-8', 'cp1252')
    """
    if start.startswith(ZIP):
        raise InputError("is a spreadsheet or a zip file, not text; save the sheet as CSV UTF-8 first")
    marked = next((name for mark, name in MARKS if start.startswith(mark)), None)
    if asked is None:
        if marked is None and b"\0" in start:
            likely = "utf-16-le" if start[1::2].count(0) >= start[::2].count(0) else "utf-16-be"
            raise InputError(f"holds NUL bytes and no mark; if it is text in UTF-16, give the encoding {likely}")
        return marked or "utf-8"
    try:
        name = codecs.lookup(asked).name
        "".encode(name)
    except (LookupError, ValueError):
        raise InputError(f"no encoding is called {shown(asked)}; try utf-8, utf-16 or cp1252") from None
    if marked is not None and not name.startswith(marked.removesuffix("-sig")):
        spelled = SPELLED[marked].split()[0]
        raise InputError(f"begins with the mark of {spelled}, not of {shown(asked)}; leave out the encoding")
    return marked or name


@contextmanager
def opened(path: Path, asked: str | None) -> Iterator[tuple[TextIO, str]]:
    """Open a text file, with every kind of line end as one; say which encoding it has, if it is not plain UTF-8."""
    with path.open("rb") as file:
        name = encoding_of(file.read(BEGINNING), asked)
    try:
        with path.open(encoding=name) as text:
            yield text, SPELLED.get(name, name)
    except UnicodeDecodeError:
        raise InputError(_undecodable(path, name)) from None


def _undecodable(path: Path, name: str) -> str:
    """Name the line of the first byte that is not in this encoding."""
    data, start = path.read_bytes(), 0
    try:
        data.decode(name)
    except UnicodeDecodeError as error:
        start = error.start
    before = data[:start].decode(name, "ignore")
    line = before.count("\n") + before.replace("\r\n", "").count("\r") + 1
    found, expected = f"{data[start]:02x}", name.removesuffix("-sig").upper()
    other = "cp1252 (Excel on Windows)" if name.startswith("utf-8") else "another one"
    return f"line {line} holds the byte {found}, which is not {expected}; give its encoding, such as {other}"
