"""One table as Excel, R, pandas and polars write it gives the same numbers, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedconformal._base.arrays import Floats
from fedconformal.tables import probabilities_of, read_table

CLASSES = ("benign", "malignant", "unsure")
DIGITS = 15
"""What Excel keeps, and R writes."""


def table() -> list[list[str]]:
    """Draw decimals of up to 15 digits, with whole numbers and exponents among them, as these programs print them."""
    rng = np.random.default_rng(16)
    rows = rng.dirichlet([0.3, 0.3, 0.3], size=400)
    rows[0], rows[1], rows[2] = [1, 0, 0], [0.5, 0.5, 0], [1 - 1e-9, 1e-9, 0]
    return [[f"{value:.{DIGITS}g}" for value in row] for row in rows.tolist()]


def excel(cell: str) -> str:
    return cell.replace("e-0", "e-").replace("e", "E")


def with_comma(cell: str) -> str:
    return cell.replace(".", ",")


def pandas(cell: str) -> str:
    return repr(float(cell))


def lines(separator: str, head: list[str], rows: list[list[str]], end: str) -> str:
    return "".join(separator.join(cells) + end for cells in [head, *rows])


def quoted(names: tuple[str, ...]) -> list[str]:
    return [f'"{name}"' for name in names]


def body(spell: Callable[[str], str], first: Callable[[int], str] | None = None) -> list[list[str]]:
    return [[*([first(i)] if first else []), *map(spell, row)] for i, row in enumerate(table())]


WRITERS: dict[str, bytes] = {
    "excel-us.csv": lines(",", [*CLASSES], body(excel), "\r\n").encode(),
    "excel-us-utf8.csv": lines(",", [*CLASSES], body(excel), "\r\n").encode("utf-8-sig"),
    "excel-german.csv": lines(";", [*CLASSES], body(lambda c: with_comma(excel(c))), "\r\n").encode("cp1252"),
    "excel-german-utf8.csv": lines(";", [*CLASSES], body(lambda c: with_comma(excel(c))), "\r\n").encode("utf-8-sig"),
    "excel-unicode.txt": lines("\t", [*CLASSES], body(lambda c: with_comma(excel(c))), "\r\n").encode("utf-16"),
    "excel-mac.csv": lines(";", [*CLASSES], body(lambda c: with_comma(excel(c))), "\r").encode(),
    "excel-sep.csv": b"sep=;\r\n" + lines(";", [*CLASSES], body(excel), "\r\n").encode(),
    "r-csv.csv": lines(",", ['""', *quoted(CLASSES)], body(str, lambda i: f'"{i + 1}"'), "\n").encode(),
    "r-csv2.csv": lines(";", ['""', *quoted(CLASSES)], body(with_comma, lambda i: f'"{i + 1}"'), "\n").encode(),
    "r-names.csv": lines(",", ['""', *quoted(CLASSES)], body(str, lambda i: f'"patient {i}"'), "\n").encode(),
    "r-table.tsv": lines("\t", quoted(CLASSES), body(str, lambda i: f'"{i + 1}"'), "\n").encode(),
    "pandas.csv": lines(",", [*CLASSES], body(pandas), "\n").encode(),
    "pandas-index.csv": lines(",", ["", *CLASSES], body(pandas, str), "\n").encode(),
    "PANDAS-GERMAN.CSV": lines(";", [*CLASSES], body(lambda c: with_comma(pandas(c))), "\n").encode(),
}


@pytest.fixture(scope="module")
def expected() -> Floats:
    return np.array([[float(cell) for cell in row] for row in table()])


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_bits(name: str, tmp_path: Path, expected: Floats) -> None:
    path = tmp_path / name
    path.write_bytes(WRITERS[name])
    found = probabilities_of(read_table(path))
    assert found.classes == CLASSES
    assert found.values.tobytes() == expected.tobytes()
    assert found.recognised.startswith(f"{path}: ")


def test_parquet_has_the_same_bits(tmp_path: Path, expected: Floats) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="reading .parquet needs pyarrow")
    from pyarrow import parquet

    columns = dict(zip(CLASSES, expected.T, strict=True))
    parquet.write_table(pyarrow.table({**columns, "__index_level_0__": range(400)}), tmp_path / "a.PARQUET")
    found = probabilities_of(read_table(tmp_path / "a.PARQUET"))
    assert found.classes == CLASSES
    assert found.values.tobytes() == expected.tobytes()
