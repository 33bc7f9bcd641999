"""Text files of rows: every way to write the same numbers, and every way to write none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedconformal.tables import probabilities_of, read_table
from tests.contracts.tools import refused

ROWS = np.array([[0.25, 0.75], [0.5, 0.5], [1, 0]])


def put(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        "0.25,0.75\n0.5,0.5\n1,0\n",
        "0.25,0.75\n0.5,0.5\n1,0",
        "0.25,0.75\r\n0.5,0.5\r\n1,0\r\n",
        "\ufeff0.25,0.75\n0.5,0.5\n1,0\n",
        "cat,dog\n0.25,0.75\n0.5,0.5\n1,0\n",
        "\ufeffcat,dog\n0.25,0.75\n0.5,0.5\n1,0\n",
        '"cat","dog"\n0.25,0.75\n0.5,0.5\n1,0\n',
        "#cat,#dog\n0.25,0.75\n0.5,0.5\n1,0\n",
        " 0.25 , 0.75 \n0.5, 0.5\n1e0,0.0e5\n",
        '"cat","dog"\n"0.25","0.75"\n"0.5","0.5"\n"1","0"\n',
        "0.25,0.75\n0.5,0.5\n1,0\n\n \n,\n",
    ],
)
def test_the_same_rows(tmp_path: Path, content: str) -> None:
    found = probabilities_of(read_table(put(tmp_path / "a.csv", content)))
    assert found.values.dtype == np.float64
    assert np.array_equal(found.values, ROWS)


BAD: dict[str, tuple[str | bytes, str]] = {
    "ragged": ("0.5,0.5\n0.5\n", "line 2 has 1 cell, and line 1 has 2"),
    "ragged the other way": ("0.5\n0.5,0.5\n", "line 2 has 2 cells, and line 1 has 1"),
    "ragged below a header": ("a,b\n0.5,0.5\n0.5\n", "line 3 has 1 cell, and line 1 has 2"),
    "a quote that stays open": ('0.5,0.5\n"0.5,0.5\n0.5,0.5"\n', "line 2 has 1 cell, and line 1 has 2"),
    "text in the middle": ("0.5,0.5\n0.5,x\n", "line 2, column 2 holds 'x', which is not a number"),
    "an empty cell": ("0.5,0.5\n,1\n", "line 2, column 1 is empty"),
    "a blank line": ("0.5,0.5\n\n0.5,0.5\n", "line 2 is blank; delete it, or fill it in"),
    "a blank line below a header": ("a,b\n0.5,0.5\n \n\n0.5,0.5\n", "line 3 is blank"),
    "a blank line before all others": ("\n0.5,0.5\n", "line 1 is blank"),
    "a row of empty cells": ("0.5,0.5\n,\n0.5,0.5\n", "line 2 is blank"),
    "a cell that never ends": ('"' + "x" * 200_000 + '"\n', "line 1 has a quote that is not closed, or a cell of"),
    "a half header": ("0.25,x\n0.5,0.5\n", "x"),
    "an empty cell in the first row": ("0.25,\n0.5,0.5\n", ""),
    "only text": ("hello world, this\nis not, a table\n", ""),
    "only a header": ("cat,dog\n", ""),
    "empty csv": ("", "is empty"),
    "blank csv": ("\n \n\n", "is empty"),
    "only a byte order mark": ("\ufeff", "is empty"),
    "not UTF-8": (b"0.5,0.5\n\xff\xfe,1\n", "line 2 holds the byte ff, which is not UTF-8"),
    "binary": (bytes(range(256)), "holds NUL bytes"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_refused(tmp_path: Path, what: str) -> None:
    content, fragment = BAD[what]
    path = put(tmp_path / "a.csv", content)
    with refused(f"{path}: ", fragment):
        probabilities_of(read_table(path))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with refused(f"{path}: cannot be read (No such file or directory)"):
        read_table(path)
    path.mkdir()
    with refused(f"{path}: cannot be read (Is a directory)"):
        read_table(path)
