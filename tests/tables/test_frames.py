"""Tables in memory and in arrays: frames by what they can do, without the libraries they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fedconformal.tables import aligned_column, numbers_of, pair, probabilities_of, read_table, table_of
from tests.contracts.tools import FakeTensor, refusal, refused

COLUMNS: dict[str, list[Any]] = {"id": ["a", "b"], "no": [0.9, 0.4], "yes": [0.1, 0.6], "truth": ["no", "yes"]}


def arrow_table(columns: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pyarrow", reason="reading .parquet needs pyarrow").table(columns)


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, arrow_table])
def test_frames(make: Any) -> None:
    found = probabilities_of(table_of(make(COLUMNS), name="f"), ids="id", labels="truth")
    assert found.recognised == (
        "f: columns id, no, yes, truth; 2 rows; classes no, yes; ids from id; labels from truth"
    )
    assert found.values.tolist() == [[0.9, 0.1], [0.4, 0.6]]
    assert found.ids == ["a", "b"]
    assert found.labels is not None
    assert found.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    "labels",
    [
        ["yes", "no"],
        ("yes", "no"),
        np.array(["yes", "no"]),
        np.array([b"yes", b"no"]),
        np.array([["yes"], ["no"]]),
        pd.Series(["yes", "no"], name="truth"),
        pd.DataFrame({"truth": ["yes", "no"]}),
    ],
)
def test_labels_by_name(labels: Any) -> None:
    found = pair(probabilities_of(table_of({"no": [0.9, 0.4], "yes": [0.1, 0.6]})), table_of(labels, name="y"))
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0]


@pytest.mark.parametrize("labels", [[1, 0], [1.0, 0.0], [True, False], pd.Series([True, False]), FakeTensor([1, 0])])
def test_labels_by_position(labels: Any) -> None:
    matrix = np.array([[0.9, 0.1], [0.4, 0.6]], dtype=np.float32)
    found = pair(probabilities_of(table_of(matrix)), table_of(labels, name="y"))
    assert found.values is matrix  # not copied, and not made more precise than it is
    assert found.labels is not None
    assert found.labels.tolist() == [1, 0]


REFUSED: list[tuple[Any, str]] = [
    ({"a": [0.5, None]}, "row 1, column a holds nan, a missing value"),
    ({"a": [0.5, "x"]}, "row 1, column a holds 'x', which is not a number"),
    ({"a": [0.5], "b": [1.0, 2.0]}, "its columns differ in length"),
    ([[0.5, 0.5], [1.0]], "cannot be read as one value per row"),
    ([["a", None]], "row 0, column 1 holds 'a'"),
    ({" a": [1.0], "a": [1.0]}, "two columns are called a"),
    ({"a": [True], "b": [1j]}, "row 0, column b holds neither numbers nor text"),
    ([object()], "row 0, column 1 holds neither"),
    ({}, "has no columns"),
    (3.0, "has shape ()"),
    (np.zeros((2, 2, 2)), "has shape (2, 2, 2)"),
    ([], "has no rows"),
    (pd.Series([0.5]), "has one column"),
]


def test_refusals() -> None:
    for values, problem in REFUSED:
        with refused(f"t: {problem}"):
            probabilities_of(table_of(values, name="t"))


def test_predictions_of_numbers() -> None:
    ends = {"lower": [1.0, 2.0], "upper": [3.0, 5.0], "note": ["x", "y"]}
    found = numbers_of(table_of(ends), ("lower", "upper"), keep=["note"])
    assert (found.values.tolist(), found.others) == ([[1.0, 3.0], [2.0, 5.0]], {"note": ["x", "y"]})
    assert numbers_of(table_of([[1.0, 3.0]]), ("lower", "upper")).recognised.endswith("lower and upper in this order")
    for values, columns, problem in (
        (ends, ["lower"], "1 columns are named, lower; the score needs lower and upper"),
        (ends, ["lower", "high"], "has no column high"),
        (ends, ["lower", "lower"], "the column lower has two uses"),
        ([[1.0, 2.0, 3.0]], None, "has 3 columns without names, and the score needs lower and upper"),
    ):
        with refused(problem):
            numbers_of(table_of(values), ("lower", "upper"), columns=columns)
    with refused("has no column of probabilities left"):
        probabilities_of(table_of({"id": ["a"]}), ids="id")
    with refused("has a missing value in every row"):
        probabilities_of(table_of({"a": [None], "b": [0.5]}), skip_missing=True)


def test_texts_of_numbers() -> None:
    days = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
    table = table_of({"a": [1.0, 0.5], "b": [7, 8], "c": [True, False], "d": days})
    found = [table.texts(name) for name in "abcd"]
    assert found == [["1", "0.5"], ["7", "8"], ["True", "False"], ["2020-01-01", "2020-01-02"]]


def test_a_column_beside() -> None:
    probs = probabilities_of(table_of({"id": ["p", "q"], "a": [0.5, 0.1], "b": [0.5, 0.9]}, name="probs"), ids="id")
    sites = table_of({"id": ["q", "p"], "site": ["clinic-b", "clinic-a"], "sex": ["f", "m"]}, name="sites")
    found, said = aligned_column(probs, sites, column="site")
    assert found == ["clinic-a", "clinic-b"]
    assert said == "sites: columns id, site, sex; 2 rows; joined by id, as the rows are in another order"
    with refused("sites: ", param="column"):
        aligned_column(probs, sites)
    with refused("x: row 1, column 1 is empty"):
        aligned_column(probs, table_of(["a", ""], name="x"))
    with refused("sites: has no column patient"):
        aligned_column(probs, sites, ids="patient", column="site")
    with refused("m: has no ids, and sites has"):
        aligned_column(probabilities_of(table_of([[0.5, 0.5]] * 2, name="m")), sites, ids="id", column="site")


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 0, 1, 2], None])
@pytest.mark.parametrize("whole", [True, False])
def test_rows_that_one_file_lacks_are_left_out_of_the_others(order: list[int] | None, whole: bool) -> None:
    rows = pl.DataFrame({"id": list("pqrs"), "a": [0.9, None, 0.2, 0.7], "b": [0.1, 0.5, 0.8, 0.3]})
    other = pl.DataFrame({"id": list("pqrs"), "truth": ["a", "b", "b", ""], "site": ["n", "", "s", "n"]})
    if order is None:
        rows, other = rows.drop("id"), other.drop("id")
    other = other[order or range(4)]
    if not whole:  # row q is missing in every file
        other = other.filter(pl.col("site") != "")
    found = probabilities_of(table_of(rows, name="probs"), ids="id" if order else None, skip_missing=True)
    found = pair(found, table_of(other.drop("site"), name="labels"), skip_missing=True)
    assert found.truth.tolist() == ["a", "b"]
    assert len(found.skipped) == 2
    assert ("in another order" in found.recognised) == (order == [3, 0, 1, 2])
    if whole:
        assert aligned_column(found, table_of(other.drop("truth"), name="sites"))[0] == ["n", "s"]


def test_the_other_class_is_rounded_alike_in_every_precision() -> None:
    p = np.random.default_rng(0).random(300)
    double, single = (
        probabilities_of(table_of({"p": p.astype(kind), "truth": ["no", "yes"] * 150}), labels="truth", positive="yes")
        for kind in (np.float64, np.float32)
    )
    assert np.array_equal(double.values.astype(np.float32), single.values.astype(np.float32))


def test_a_site_is_no_header(tmp_path: Path) -> None:
    probs = probabilities_of(table_of([[0.5, 0.5], [0.1, 0.9]], name="m"))
    path = tmp_path / "sites.csv"
    for text, expected in (("site\na\nb\n", ["a", "b"]), ("a\nb\n", ["a", "b"]), ("a\na\n", ["a", "a"])):
        path.write_text(text, encoding="utf-8")
        assert aligned_column(probs, read_table(path))[0] == expected
    for text in ("a\na\nb\n", "a\n", "a\nb\nc\nd\n"):
        path.write_text(text, encoding="utf-8")
        with refused("sites.csv: has ", ", and m has 2"):
            aligned_column(probs, read_table(path))


# --- arrays in files ---


def test_arrays_in_files(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[0.9, 0.1], [0.4, 0.6]], dtype=np.float32))
    (tmp_path / "a.npy").rename(tmp_path / "A.NPY")
    np.savez(tmp_path / "b.npz", labels=np.array(["yes", "no"]), other=np.zeros(3))
    found = probabilities_of(read_table(tmp_path / "A.NPY"), classes=["no", "yes"])
    assert found.values.dtype == np.float32
    labelled = pair(found, read_table(tmp_path / "b.npz"))
    assert labelled.labels is not None
    assert labelled.labels.tolist() == [1, 0]
    np.save(tmp_path / "c.npy", np.array([0, 5]))
    with refused(f"{tmp_path / 'c.npy'}: row 1 is 5, expected a whole class index from 0 to 1"):
        pair(probabilities_of(read_table(tmp_path / "A.NPY")), read_table(tmp_path / "c.npy"))


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="reading .parquet needs pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"

    def put(**columns: Any) -> None:
        parquet.write_table(pyarrow.table(columns), path)

    put(**COLUMNS, note=["x" * 300, "y"], parts=[[1], [2]], __index_level_0__=[5, 3])
    found = probabilities_of(read_table(path), ids="id", labels="truth", classes=["yes", "no"])
    assert found.values.tolist() == [[0.1, 0.9], [0.6, 0.4]]
    assert found.recognised.endswith(
        "index of pandas; 2 rows; classes yes, no; not used: note, parts; ids from id; labels from truth"
    )
    assert probabilities_of(read_table(path), classes=["yes", "no"]).ids == ["5", "3"]
    for name in ("note", "parts"):
        with refused(f"{path}: row 0, column {name} holds neither numbers nor text of up to 256 characters"):
            probabilities_of(read_table(path), classes=["yes", "no"], keep=[name])
    put(a=[0.25, None], b=[0.75, 0.5])
    with refused(f"{path}: row 1, column a", code="missing"):
        probabilities_of(read_table(path))
    assert probabilities_of(read_table(path), skip_missing=True).values.tolist() == [[0.25, 0.75]]
    put(a=np.zeros(10**6))
    monkeypatch.setattr("fedconformal._base.files.FREE_BYTES", 10**6)
    assert "more than 100 times as much" in refusal(lambda: read_table(path))
    put(a=["x" * 10**5] * 1000)
    assert path.stat().st_size < 10**6
    for content in (b"", b"PAR1", path.read_bytes()[:-4], b"x" * 100 + b"PAR1"):
        path.write_bytes(content)
        with refused(f"{path}: "):
            read_table(path)


def number(value: int, size: int = 0) -> bytes:
    """A number as the footer of a Parquet file has it, in this many bytes at least."""
    found: list[int] = []
    left = 2 * value
    while left > 127 or len(found) + 1 < size:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


@pytest.mark.parametrize("rows", [3_000_000, 300_000])
def test_a_footer_that_lies_about_its_rows(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="reading .parquet needs pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    table = pyarrow.table({"a": np.zeros(rows)})
    parquet.write_table(table, path, use_dictionary=False, compression="zstd", row_group_size=rows)
    about = parquet.ParquetFile(path).metadata.row_group(0)
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:]
    for true, places in ((about.total_byte_size, -1), (rows, 1)):  # bytes everywhere, rows of the file only
        assert footer.count(number(true)) > 0
        footer = footer.replace(number(true), number(100, len(number(true))), places)
    path.write_bytes(data[:start] + footer)
    assert parquet.ParquetFile(path).metadata.num_rows == 100
    monkeypatch.setattr("fedconformal._base.files.FREE_BYTES", 10**7)
    problem = "more than 100 times as much" if rows > 10**6 else f"has {rows} rows, and its footer states 100"
    assert problem in refusal(lambda: read_table(path))
