"""Tables from somebody else: what is a header, what is a row, and where a line is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedconformal._base import tables
from fedconformal._base.files import read_array
from tests.contracts.tools import refusal, refused


def written(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


# --- column numbers as a header ---


@pytest.mark.parametrize(
    "lines",
    [
        ("0,1", "0.25,0.75", "0.5,0.5"),
        (" 0 , 1 ", "0.25,0.75", "0.5,0.5"),
        ('"0","1"', "0.25,0.75", "0.5,0.5"),
        ("0,1", "0.25,0.75", "5e-01,5e-01"),
        (",0,1", "0,0.25,0.75", "1,0.5,0.5"),
        ('"",a,b', "0,0.25,0.75", "1,0.5,0.5"),
    ],
)
def test_column_numbers_are_a_header(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert read_array(written(tmp_path / "a.csv", *lines)).tolist() == [[0.25, 0.75], [0.5, 0.5]]


def test_of_three_columns_whole_numbers_cannot_be_a_distribution(tmp_path: Path) -> None:
    found = read_array(written(tmp_path / "a.csv", "0,1,2", "0,1,0", "1,0,0"))
    assert found.tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    "lines",
    [
        ("0,1", "1,0", "0,1"),
        ("0,1", "0.25,0.75", "1,0"),  # a writer that leaves out the decimal point
        ("0,1",),
        ("0,1,2",),
        ("0,1,2", "3,1,0", "5,2,1"),  # whole logits
        ("0,1,2", "0.5,0.5,0", "5,2,1"),
    ],
)
def test_what_could_be_either_is_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    path = written(tmp_path / "a.csv", *lines)
    with refused(f"{path}: line 1 is {lines[0]}, which could be a header", "write names", "decimals such as 0.0,1.0"):
        read_array(path, "probs")


@pytest.mark.parametrize("lines", [("0.0,1.0", "0.5,0.5"), ("1,0", "0.5,0.5"), ("0,1,0", "0.5,0.5,0")])
def test_a_row_stays_a_row(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert len(read_array(written(tmp_path / "a.csv", *lines))) == 2


def test_a_header_that_could_be_a_patient_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path / "a.csv", "0,1", "0.25,0.75")
    read_array(path)
    assert caplog.messages == [f"{path}: line 1, which is 0,1, is read as a header; write 0.0,1.0 if it is a row"]
    caplog.clear()
    read_array(written(path, "0,1,2", "0.25,0.75,0.0"))
    assert caplog.messages == []


# --- one column ---


def test_the_rows_tell_whether_a_column_begins_with_its_name(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "0", "2", "1")
    assert read_array(path, rows=2).tolist() == [[2.0], [1.0]]
    assert read_array(path, rows=3).tolist() == [[0.0], [2.0], [1.0]]
    assert read_array(path, rows=7).tolist() == [[0.0], [2.0], [1.0]]  # refused later: neither fits
    assert read_array(written(path, "1", "2", "1"), rows=2).tolist() == [[1.0], [2.0], [1.0]]  # no name of a column
    assert read_array(written(path, "0", "a", "b"), text=True, rows=2).tolist() == [["a"], ["b"]]
    assert read_array(written(path, ",site", "0,a", "1,b"), text=True, rows=2).tolist() == [["a"], ["b"]]


# --- a column of row numbers ---


@pytest.mark.parametrize(
    "lines",
    [
        (",0,1", "1,0.25,0.75", "2,0.5,0.5"),
        (",0,1", "0,0.25,0.75", "2,0.5,0.5"),
        (",0,1", "p1,0.25,0.75"),
        (",1", "0.5,0.5"),
    ],
)
def test_a_column_without_a_name_that_does_not_count_rows_is_refused(tmp_path: Path, lines: tuple[str, ...]) -> None:
    with refused("a.csv: line"):
        read_array(written(tmp_path / "a.csv", *lines))


def test_what_to_do_about_it(tmp_path: Path) -> None:
    with refused("begins with an empty cell", "pandas: index=False", "R: row.names=FALSE"):
        read_array(written(tmp_path / "a.csv", ",0,1", "1,0.25,0.75"))


# --- long files ---


def test_lines_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "LINES", 3)
    good = ["a,b", *(f"0.{k},0.{9 - k}" for k in range(1, 9))]
    assert read_array(written(tmp_path / "a.csv", *good)).shape == (8, 2)
    for number in range(2, 10):
        for wrong, problem in (("x,1", "column 1 holds 'x'"), ("1", "has 1 cell"), ("", "is blank")):
            lines = [*good[: number - 1], wrong, *good[number:], "0.5,0.5"]
            with refused(f"line {number}", problem):
                read_array(written(tmp_path / "a.csv", *lines))


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.csv", *["a"] * 50, "b" * 300)
    with refused(f"{path}: line 51 has 301 characters, more than 256"):
        read_array(path, text=True)
    monkeypatch.setattr("fedconformal._base.npy.FREE_BYTES", 0)
    written(path, *["a"] * 5000, "b" * 250)
    assert "more than 100 times as much" in refusal(lambda: read_array(path, text=True))
    monkeypatch.setattr(tables, "MOST_CSV", 100)
    with refused(f"{path}: has 10251 bytes, more than 100; save it as .npy"):
        read_array(path)


# --- .parquet ---


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="reading .parquet needs pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"

    def put(names: list[str], *columns: object) -> None:
        parquet.write_table(pyarrow.table(list(columns), names=names), path)

    put(["a", "a"], [0.25, 0.5], [0.75, 0.5])
    assert read_array(path).tolist() == [[0.25, 0.75], [0.5, 0.5]]
    put(["a", "b"], [0.25, None], [0.75, 0.5])
    with refused(f"{path}: has missing values in the columns ['a']"):
        read_array(path)
    for column in (["x" * 10**5] * 50, [[0.5]] * 3, [{"a": 1}] * 3):
        put(["a"], column)
        assert f"{path}: the column a holds " in refusal(lambda: read_array(path))
    put(["a"], np.zeros(10**6))
    assert path.stat().st_size < 10_000
    monkeypatch.setattr("fedconformal._base.npy.FREE_BYTES", 10**6)
    assert "more than 100 times as much" in refusal(lambda: read_array(path))
    for content in (b"", b"PAR1", path.read_bytes()[:-4], b"x" * 100 + b"PAR1"):
        path.write_bytes(content)
        with refused(f"{path}: "):
            read_array(path)
