"""Text from somebody else: numbers to the last bit, bounded memory, and a refusal that names the line."""

from __future__ import annotations

import struct
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal._base.arrays import as_probabilities
from fedconformal.tables import Predictions, probabilities_of, read_table, text, text_file
from fedconformal.tables.table import CellError
from fedconformal.tables.text import Layout, TextCells, rows_of, split_records
from tests.contracts.tools import checks, refusal, refused


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


# --- numbers ---

HARD = [
    "9007199254740993",  # halfway between two floats
    "9007199254740992.999999999999999999999999",
    "2.2250738585072011e-308",  # the one that made PHP and Java loop
    "2.2250738585072014e-308",
    "4.9406564584124654e-324",
    "2.4703282292062327e-324",
    "1.7976931348623157e308",
    "0.500000000000000166533453693773481063544750213623046875",
    "3.518437208883201171875e13",
    "62.5364939768271845828",
    "8.10109172351e-10",
    "1.50000000000000011102230246251565",
    "0.1e-6",
    "+.5E+00",
    "1.",
]


@pytest.mark.parametrize("decimal", [".", ","])
def test_hard_decimals_are_correctly_rounded(decimal: str) -> None:
    cells = [cell.replace(".", decimal) for cell in HARD]
    for plain in (True, False):  # at once, and one by one
        found = TextCells(cells, ";", decimal, plain).numbers([0])[:, 0]
        assert found.tolist() == [float(Fraction(cell)) for cell in HARD]


@checks(200)
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20), st.sampled_from([15, 17, 25]))
def test_floats_come_back(values: list[float], digits: int) -> None:
    cells = [f"{value:.{digits}g}" for value in values]
    found = TextCells(cells, ";").numbers([0])[:, 0]
    assert struct.pack(f"{len(cells)}d", *found) == struct.pack(f"{len(cells)}d", *map(float, cells))


@checks(300)
@given(st.text(alphabet="0123456789.,eE+-_ naif\x1c\x0bxd'", max_size=8), st.sampled_from([".", ","]))
def test_one_way_to_read_a_number(cell: str, decimal: str) -> None:
    quick, slow = (TextCells([f"1;{cell}"], ";", decimal, plain) for plain in (True, False))
    assert numbers_or_message(quick, 1) == numbers_or_message(slow, 1)


@checks(300)
@given(st.lists(st.text(alphabet='01.,;"" a', min_size=1, max_size=12), min_size=1, max_size=4))
def test_a_block_is_cut_as_its_rows_are(lines: list[str]) -> None:
    """At once or one by one: a quote never moves a cell into another column."""
    try:
        cells = split_records("\n".join(lines), Layout(",", "commas"))
    except fc.InputError:
        return
    for j in range(len(next(rows_of(cells.records[:1], ","), []))):
        assert numbers_or_message(cells, j) == numbers_or_message(replace(cells, plain=False), j)


def numbers_or_message(cells: TextCells, column: int) -> list[float] | str:
    try:
        return [float(value) for value in cells.numbers([column])[:, 0]]
    except CellError as error:
        return str(error)


# --- lines, blocks and limits ---


def test_records_are_counted_as_lines(tmp_path: Path) -> None:
    good = ["id,a,b", *(f'"p\n{k}",0.{k},0.{9 - k}' for k in range(1, 9))]
    found = probabilities_of(read_table(written(tmp_path / "a.csv", *good)), ids="id")
    assert found.ids == [f"p\n{k}" for k in range(1, 9)]
    assert found.values[:, 0].tolist() == [k / 10 for k in range(1, 9)]
    for number in range(2, 10):
        for wrong, problem in (("p,x,1", "column a holds 'x'"), ("p,1", "has 2 cells"), (",,", "is blank")):
            lines = [*good[: number - 1], wrong, *good[number:], "q,0.5,0.5"]
            with refused(f"line {number}", problem):  # one row is one line, as a spreadsheet shows it
                probabilities_of(read_table(written(tmp_path / "a.csv", *lines)), ids="id")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_of_a_byte_that_is_no_text(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(["a,b", *["0.5,0.5"] * 9999]).encode() + end.encode() + b"0.5,0.5\x80")
    with refused(f"{path}: line 10001 holds the byte 80, which is not UTF-8", "cp1252"):
        read_table(path)
    path.write_bytes(b"a,b\n0.5,0.5\n\x81")
    with refused("line 3 holds the byte 81", param="encoding"):
        read_table(path, encoding="cp1252")
    path.write_bytes("a,b\n0.5,0.5\n".encode("utf-16") + b"\x00\xd8\n\x00")
    with refused("line 3 holds the byte 00", param="encoding"):
        read_table(path)


def test_marks_and_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    codings = {"utf-8-sig": "utf8", "utf-16": "UTF-16", "utf-16-le": "utf-16-le", "cp1252": "cp1252"}
    for coding, asked in codings.items():
        path.write_bytes("ä,b\n0.5,0.5\n".encode(coding))
        assert probabilities_of(read_table(path, encoding=asked)).classes == ("ä", "b")
    for asked in ("zlib", "rot13", "", "é", "idna\0"):
        with refused("no encoding is called"):
            read_table(path, encoding=asked)
    with refused("only text has an encoding"):
        read_table(tmp_path / "a.npy", encoding="utf-8")


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.csv", "id,a,b", *["p,0.5,0.5"] * 50, "q" * 300 + ",0.5,0.5")
    with refused(f"{path}: line 52, column id has 300 characters, more than 256"):
        probabilities_of(read_table(path), ids="id")
    assert len(probabilities_of(read_table(path), drop=["id"]).values) == 51
    monkeypatch.setattr(text, "MOST_COLUMNS", 2)
    with refused("line 1 has 3 cells, more than 2"):
        read_table(path)
    monkeypatch.undo()
    monkeypatch.setattr(text, "LONGEST_LINE", 200)
    with refused("line 52 has more than 200 characters"):
        read_table(path)
    monkeypatch.setattr(text_file, "MOST_BYTES", 100)
    assert "more than 100; save it as .npy" in refusal(lambda: read_table(path))


def test_a_quote_that_is_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for line, start in ((1, ['"a,b']), (2, ["a,b", '"0.5,0.5']), (2, ['"a\na",b', '"0.5,0.5'])):
        written(path, *start, *["0.5,0.5"] * 10**5)
        with refused(f"line {line} has a quote that is not closed"):
            read_table(path)


def test_a_very_long_cell_is_refused(tmp_path: Path) -> None:
    for cell in ("9" * 200_000, f'"{"9" * 200_000}"'):
        with refused("a.csv: line 3 has", "a cell of more than 131072 characters"):
            read_table(written(tmp_path / "a.csv", "a,b", "0.5,0.5", f"0.5,{cell}"))


def test_many_columns_without_a_name_take_one_pass(tmp_path: Path) -> None:
    width = 20_000
    path = written(tmp_path / "a.csv", "a,b" + "," * width, *["0.5,0.5" + "," * width] * 20)
    assert probabilities_of(read_table(path)).values.shape == (20, 2)


@pytest.mark.parametrize("name", ["a.xml", "a", "a.csv.gz"])
def test_other_endings(tmp_path: Path, name: str) -> None:
    with refused("expected a file that ends in .csv, .tsv, .txt, .parquet, .npy, .npz"):
        read_table(tmp_path / name)
    with refused("cannot be read (No such file"):
        read_table(tmp_path / "a.csv")


# --- headers ---


HEADERS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("0,1", "0.25,0.75", "0.5,0.5"), ("0", "1")),
    ((" 0 , 1 ", "0.25,0.75", "5e-01,5e-01"), ("0", "1")),
    (('"0","1"', "0.25,0.75", "0.5,0.5"), ("0", "1")),
    (("1,2,3", "0,1,0", "1,0,0"), ("1", "2", "3")),
    ((",0,1", "0,0.25,0.75", "1,0.5,0.5"), ("", "0", "1")),
    (("id,0,1", "p,0.25,0.75", "q,0.5,0.5"), ("id", "0", "1")),
    (("0;1", "0,25;0,75", "0,5;0,5"), ("0", "1")),
    (("a;b", "2,5E-9;0,5", "1E-9;1"), ("a", "b")),  # as Excel writes it
    (("id,a,b", "p,NA,", "q,0.5,0.5"), ("id", "a", "b")),
]
ROWS = [("0.0,1.0", "0.5,0.5"), ("1,0", "0.5,0.5"), ("0,1,0", "0.5,0.5,0"), (",0.4", "1,0.6")]
EITHER = [
    ("0,1", "0.25,0.75", "1,0"),  # a writer that leaves out the decimal point
    ("0,1,2",),
    ("0,1,2", "3,1,0", "5,2,1"),  # whole logits
    ("0,1,2", "0.5,0.5,0", "5,2,1"),
    ("1,2,3", "0.5,x,0", "5,2,1"),
    ("id,0,1", "p,1,0", "q,0,1"),
]
NAMELESS = [(",0,1", "p1,0.25"), (",1", "0.5,0.5"), (",a", ",0.5", "x,0.5")]


def test_headers_and_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for lines, names in HEADERS:
        table = read_table(written(path, *lines))
        assert (table.names, table.rows) == (names, 2)
    for lines in ROWS:
        assert read_table(written(path, *lines)).rows == 2
    for lines in EITHER:
        with refused("line 1 is ", "which could be a header", "write names", "decimals such as 0.0,1.0"):
            read_table(written(path, *lines))
    for lines in NAMELESS:
        with refused("a.csv: "):
            probabilities_of(read_table(written(path, *lines)))


# --- anything at all ---


def found_or_message(path: Path, encoding: str | None = None) -> Predictions | str:
    try:
        return probabilities_of(read_table(path, encoding=encoding))
    except fc.InputError as error:
        return str(error)


@checks(300)
@given(st.text(alphabet='01.,;\t\n\r" abNAe-=sp\x00\xa0é', max_size=60), st.sampled_from(["utf-8", "utf-16", "cp1252"]))
@example("sep=;\n", "utf-8")
@example('"', "utf-8")
@example('a,b\n"0.5"",0.5', "utf-8")
@example("\n\n,\n", "utf-8")
def test_any_text_is_read_or_refused_in_one_line(tmp_path: Path, text: str, coding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode(coding, "replace"))
    found = found_or_message(path)
    if isinstance(found, str):
        assert len(found.splitlines()) == 1
        assert found.startswith(f"{path}: ")
    else:
        assert np.isfinite(found.values).all()
        assert len(found.recognised.splitlines()) == 1
        assert found.values.shape[1] > 1


@checks(200)
@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    for encoding in (None, "utf-16", "cp1252"):
        found = found_or_message(path, encoding)
        assert (found if isinstance(found, str) else found.recognised).isprintable()


def test_a_check_of_the_array_names_the_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b", "0.5,0.5", "0.5,0.7")
    found = probabilities_of(read_table(path))
    with refused(f"{path}: line 3 sums to 1.2, not 1"), found.table.in_lines():
        as_probabilities(found.values, found.table.source)
