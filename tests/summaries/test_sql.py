"""The query of fedconformal sql on real databases: the bytes are those of the rows, and no row is lost in silence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.summaries import sql
from fedconformal.summaries.sql import QueryResult, column_of, lac_of, residual_of, statement
from tests.contracts.tools import refusal
from tests.summaries.databases import Columns, Database, DuckDB, PostgreSQL, Spark, postgresql

pytestmark = pytest.mark.long

Case = tuple[Columns, str, bytes]
"""A table, the query, and the bytes of the summary of its rows."""

SIZES = (1, 2, 3, 99, 100, 101, 102, 150, 777)
ALPHAS = (0.1, 0.05, "0.3", 0.001, 0.9)
CLASSES = ("benign", "it's", 'say "x" /', "Köln 病院")


def read_result(data: bytes) -> QueryResult:
    with TemporaryDirectory() as folder:
        path = Path(folder, "result.csv")
        path.write_bytes(data)
        return sql.read_result(path)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with postgresql() as found:
        if isinstance(found, str):
            pytest.skip(found)
        yield found


@pytest.fixture(scope="module", params=["duckdb", "postgresql", pytest.param("spark", marks=pytest.mark.slow)])
def run(request: pytest.FixtureRequest) -> Database:
    """A database."""
    if request.param == "postgresql":
        found: Database = request.getfixturevalue("server")
        return found
    if request.param == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    return DuckDB() if request.param == "duckdb" else Spark()


def case(number: int) -> Case:
    """Make a random case: many ties, tiny and dyadic numbers, few rows and more."""
    rng = np.random.default_rng(number)
    n, alpha = SIZES[number % len(SIZES)], ALPHAS[number % len(ALPHAS)]
    kind = ("lac", "residual", "scores")[number % 3]
    if kind == "lac":
        k = int(rng.integers(2, 5))
        probs = rng.dirichlet(np.full(k, (0.05, 1.0)[number % 2]), n)
        if number % 4 == 0:
            probs = np.round(probs * 16) / 16
            probs[:, 0] += 1 - probs.sum(axis=1)
            probs = np.where(probs.min(axis=1, keepdims=True) < 0, np.eye(k)[0], probs)
        classes = CLASSES[:k] if number % 5 else tuple(map(str, range(k)))
        drawn = rng.integers(0, k, n)
        labels = [classes[j] for j in drawn] if number % 5 else drawn.astype(float).tolist()
        table = {**{one: probs[:, j].tolist() for j, one in enumerate(classes)}, 'the "label': labels}
        rows = lac_of(classes, 'the "label')
        truth = drawn if isinstance(rows.classes, int) else labels
        made = fc.summarize(probs, truth, score=fc.LAC(), classes=rows.classes, alpha=alpha, site="a")
        return table, statement("rows", rows, alpha), made.to_bytes()
    scale = 10.0 ** rng.integers(-300, 300)
    first, second = rng.normal(size=(2, n)) * scale
    if number % 2:
        first, second = np.round(rng.normal(size=(2, n)), 1)
    if kind == "residual":
        table = {"f": first.tolist(), "y": second.tolist()}
        found = fc.summarize(first, second, score=fc.Residual(), alpha=alpha, site="a")
        return table, statement("rows", residual_of("f", "y"), alpha), found.to_bytes()
    first[0] = (0.0, -0.0, 5e-324, 1.7976931348623157e308)[number % 4]
    whole = fc.Summary.of_scores(first, alpha=alpha, site="a").to_bytes()
    return {"s": first.tolist()}, statement("rows", column_of("s"), alpha), whole


@pytest.mark.long
@pytest.mark.parametrize("block", range(4))
def test_the_bytes_are_those_of_the_rows(run: Database, block: int) -> None:
    for number in range(block * 20, block * 20 + 20):
        table, query, expected = case(number)
        assert read_result(run(table, query)).summary(site="a").to_bytes() == expected, number


ODD = (float("nan"), float("inf"), float("-inf"))
TWO: dict[str, list[Any]] = {"a": [0.5, 0.25], "b": [0.5, 0.75], "y": ["a", "b"]}


BAD_CELLS: dict[str, list[Any]] = {"a": [None, *ODD, -0.25, 0.2, 1e300], "y": [None, "c", "A", ""]}
BAD_ROWS: list[tuple[sql.Scored, Any]] = [
    *(
        (lac_of(["a", "b"], "y"), {**TWO, column: [value, TWO[column][1]]})
        for column, values in BAD_CELLS.items()
        for value in values
    ),
    (lac_of(["a", "b"], "y"), {"a": [-1e-300, 0.5], "b": [1.0, 0.5], "y": ["b", "b"]}),  # never taken for zero
    *(
        (rows, {"a": [1.0, value], "b": [1.0, 2.0]})
        for value in (None, *ODD)
        for rows in (column_of("a"), residual_of("a", "b"), residual_of("b", "a"))
    ),
]


def test_a_row_that_cannot_be_scored_is_counted(run: Database) -> None:
    for rows, table in BAD_ROWS:
        found = run(table, statement("rows", rows, 0.1))
        assert len(found.splitlines()) == 2  # the header and the count: no score leaves
        assert "1 of 2 rows cannot be scored" in refusal(partial(read_result, found))


def test_tiny_probabilities_and_spaces_around_labels(run: Database) -> None:
    """Probabilities that float32 cannot hold become zero or the smallest ones; PostgreSQL by itself would fail."""
    tiny = [1e-300, 2.0**-150, 2.0**-149 * 0.75, 5e-324, 2.0**-126, 0.0, -0.0]
    table: dict[str, list[Any]] = {"a": tiny, "b": [1.0] * len(tiny), "y": [" a "] * len(tiny)}
    rows = lac_of(["a", "b"], "y")
    found = read_result(run(table, statement("rows", rows, 0.1))).summary()
    probs = np.array([table["a"], table["b"]]).T
    labels = ["a"] * len(tiny)
    expected = fc.summarize(probs, labels, score=fc.LAC(), classes=["a", "b"], alpha=0.1)
    assert found.to_bytes() == expected.to_bytes()


def test_a_table_without_rows(run: Database) -> None:
    query = statement("rows", column_of("s"), 0.1)
    table = {"s": [1.0]}
    empty = run(table, query.replace('FROM "rows"', 'FROM "rows" WHERE FALSE'))
    assert "has 0 rows, expected 1 to" in refusal(lambda: read_result(empty))


def test_a_database_that_cuts_digits_off_is_noticed(server: PostgreSQL) -> None:
    query = statement("rows", column_of("s"), 0.1)
    table, few = {"s": [0.1, 1 / 3]}, "SET extra_float_digits = 0;\n"
    assert "SET extra_float_digits = 1" in refusal(lambda: read_result(server(table, query, few)))
    assert read_result(server(table, query, "SET extra_float_digits = 3;\n")).values == [0.1, 1 / 3]


NAMES = ('a"; DROP TABLE rows; --', "a'b", "a b", "Köln", "a.b", "select", "--", "/*", "$$")


@pytest.mark.parametrize("odd", NAMES)
def test_names_are_quoted(run: Database, odd: str) -> None:
    table: dict[str, list[Any]] = {odd: [0.25, 0.5], "other": [0.75, 0.5], "y": [odd, "other"]}
    found = run(table, statement("rows", lac_of([odd, "other"], "y"), 0.1))
    assert read_result(found).values == [0.5, 0.75]
    assert run({odd: [0.25]}, statement("rows", column_of(odd), 0.1)).count(b"0.25") == 1


def test_what_cannot_be_quoted_or_does_not_fit_is_refused() -> None:
    for odd in ("", "a\nb", "a\x00b", "a\u2028b"):
        assert "cannot be quoted" in refusal(partial(sql.quote_name, odd))
        if odd:
            assert "cannot be quoted" in refusal(partial(sql.quote_text, odd))
    # With standard_conforming_strings = off the text would go on.
    for odd in ("a\\", "a\\`b.c", "a\\'; DROP TABLE rows; --"):
        assert "cannot be quoted" in refusal(partial(sql.quote_table, odd))
        assert "cannot be quoted" in refusal(partial(lac_of, [odd, "other"], "y"))
    assert "twice" in refusal(partial(lac_of, ["a", "a"], "y"))
    assert "alpha is 2" in refusal(lambda: statement("x", column_of("s"), 2))


# --- results that were altered on their way


def result(**altered: str) -> bytes:
    made = {"query": 1, "alpha": "0.1", "score": "residual", "classes": None}
    line = {"fc_rank": "1", "fc_score": "0.5", "fc_digits": "3", "fc_rows": "1", "fc_refused": "0"}
    line |= {"fc_about": json.dumps(made)} | altered
    cells = ",".join('"' + value.replace('"', '""') + '"' for value in line.values())
    return f"{','.join(line)}\n{cells}\n".encode()


ALTERED: list[tuple[dict[str, str], str]] = [
    ({"fc_rank": "2"}, "ranks are not those of 1 rows at alpha 0.1"),
    ({"fc_rows": "2"}, "ranks are not those of 2 rows"),
    ({"fc_rows": "-1"}, "expected a whole number"),
    ({"fc_rows": "9" * 15}, "rows, expected 1 to"),
    ({"fc_refused": "2.5"}, "expected a whole number"),
    ({"fc_score": "0.50"}, "expected 3 characters"),
    ({"fc_score": "0,5"}, "expected 3 characters"),
    ({"fc_score": "nan"}, "expected 3 characters"),
    ({"fc_digits": "0"}, "to the last digit"),
    ({"fc_about": "{"}, "fc_about cannot be read"),
    ({"fc_about": result().decode().partition('"{')[2][:20]}, "fc_about cannot be read"),
    ({"fc_about": '{"query": 1, "alpha": "7", "score": null, "classes": null}'}, "alpha is 7"),
]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        *((result(**altered), message) for altered, message in ALTERED),
        (b"", "is empty"),
        (b"\xff\xfe", ""),
        (b"a,b\n1,2\n", "no column fc_rank"),
        (result().splitlines()[0], "no column fc_rank"),
        (result() + b"1,0.5\n", "has 2 cells"),
        (result() + result(fc_rows="2").splitlines()[1] + b"\n", "not of one query"),
        (result()[:-9], "a quote that is not closed"),
    ],
)
def test_what_is_no_result_is_refused(data: bytes, message: str) -> None:
    assert read_result(result()).values == [0.5]
    assert message in refusal(lambda: read_result(data))


def test_scores_that_do_not_ascend_are_refused() -> None:
    lines = [result(fc_rank=rank, fc_score=score, fc_rows="2") for rank, score in (("1", "0.5"), ("2", "0.1"))]
    assert "not in ascending order" in refusal(lambda: read_result(lines[0] + lines[1].splitlines()[1]))


def test_the_score_of_a_column_of_scores_may_be_named() -> None:
    made = {"query": 1, "alpha": "0.1", "score": None, "classes": None}
    found = read_result(result(fc_about=json.dumps(made)))
    assert found.summary(score=fc.APS()).provenance.score == fc.APS()
    assert found.summary().provenance.score is None
    assert "lower end" in refusal(lambda: found.summary(score=fc.Signed()))
    assert "for the score residual" in refusal(lambda: read_result(result()).summary(score=fc.LAC()))
