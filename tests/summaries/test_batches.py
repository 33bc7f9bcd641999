"""Rows in batches, from lazy frames and streams: the bytes are those of all rows at once, in bounded memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.summaries.predictions import summarize_predictions
from fedconformal.summaries.rows import summarize_rows
from tests.contracts.tools import refusal

pytestmark = pytest.mark.long

pa: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
CLASSES = ["benign", "malignant", "other"]
ABOUT: dict[str, Any] = {"alpha": 0.1, "site": "clinic-a", "model": "m", "calibration": "x", "expires": "2027-06-30"}


def rows(n: int, seed: int = 0) -> tuple[dict[str, Any], bytes]:
    """Return a table of n rows, and the bytes of its summary."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet([1, 0.5, 0.2], n).round(seed % 3 + 2)
    probs[:, 0] += 1 - probs.sum(axis=1)
    probs = np.where(probs.min(axis=1, keepdims=True) < 0, np.eye(3)[0], probs)
    labels = rng.choice(CLASSES, n).tolist()
    expected = summarize_rows(probs, labels, score=fc.LAC(), classes=CLASSES, **ABOUT)
    return {**{one: probs[:, j] for j, one in enumerate(CLASSES)}, "truth": labels}, expected.to_bytes()


def polars() -> Any:
    return pytest.importorskip("polars", reason="polars is not installed")


def of_polars(table: dict[str, Any]) -> Any:
    return polars().LazyFrame(table).with_columns(polars().col("benign") * 1.0)


def of_frame(table: dict[str, Any]) -> Any:
    return polars().DataFrame(table)


def of_arrow(table: dict[str, Any]) -> Any:
    return pa.table(table)


def of_readers(table: dict[str, Any]) -> Any:
    return lambda: pa.table(table).to_reader(max_chunksize=70)


def of_batches(table: dict[str, Any]) -> Any:
    return lambda: iter(pa.table(table).to_batches(max_chunksize=70))


def of_duckdb(table: dict[str, Any]) -> Any:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    connection = duckdb.connect()
    connection.register("rows_of_a_test", pa.table(table))
    return connection.sql("SELECT * FROM rows_of_a_test")


@pytest.mark.parametrize("source", [of_polars, of_frame, of_arrow, of_readers, of_batches, of_duckdb])
@pytest.mark.parametrize("n", [1, 100, 101, 3000])
def test_the_bytes_are_those_of_all_rows(source: Callable[[dict[str, Any]], Any], n: int) -> None:
    table, expected = rows(n, n)
    assert fc.summarize_batches(source(table), labels="truth", **ABOUT).to_bytes() == expected


@pytest.mark.parametrize("memory", [50, 700])
def test_little_memory_changes_nothing(memory: int) -> None:
    table, expected = rows(3000)
    for source in (of_polars, of_readers):
        assert fc.summarize_batches(source(table), labels="truth", memory=memory, **ABOUT).to_bytes() == expected


def test_a_data_set_in_files(tmp_path: Path) -> None:
    from pyarrow import dataset, parquet

    table, expected = rows(2000, 5)
    for k in range(4):
        parquet.write_table(pa.table(table).slice(k * 500, 500), tmp_path / f"{k}.parquet", row_group_size=70)
    found = fc.summarize_batches(dataset.dataset(tmp_path), labels="truth", **ABOUT)
    assert found.to_bytes() == expected
    lazy = polars().scan_parquet(tmp_path / "*.parquet")
    assert fc.summarize_batches(lazy, labels="truth", **ABOUT).to_bytes() == expected
    dropped = lazy.with_columns(polars().lit("x").alias("note"))
    assert fc.summarize_batches(dropped, labels="truth", drop=["note"], **ABOUT).to_bytes() == expected
    chosen = fc.summarize_batches(dropped, labels="truth", classes=CLASSES, **ABOUT)
    assert chosen.to_bytes() == expected


def test_numbers_and_scores() -> None:
    rng = np.random.default_rng(1)
    prediction, y = rng.normal(size=(2, 1000))
    expected = summarize_predictions(prediction, y, score=fc.Residual(), **ABOUT).to_bytes()
    table = pa.table({"f": prediction, "y": y, "s": np.abs(y - prediction)})
    score = fc.Residual()
    found = fc.summarize_batches(table, labels="y", predictions=["f"], score=score, **ABOUT)
    assert found.to_bytes() == expected
    assert fc.summarize_batches(table, scores="s", score=score, **ABOUT).to_bytes() == expected
    plain = fc.summarize_batches(table, scores="s", alpha=0.1)
    assert plain.to_bytes() == fc.summarize(np.abs(y - prediction), alpha=0.1).to_bytes()
    lower = fc.summarize_batches(table, labels="y", predictions=["f"], score=fc.Signed(), alpha=0.1)
    assert lower.to_bytes() == summarize_predictions(prediction, y, score=fc.Signed(), alpha=0.1).to_bytes()


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"s": [0.5, None]}, {"scores": "s"}, "batch 0: row 1, column s is missing"),
        ({"s": [0.5, float("nan")]}, {"scores": "s"}, "batch 0: row 1, column s holds nan"),
        ({"s": [0.5, float("inf")]}, {"scores": "s"}, "batch 0: row 1, column s holds inf"),
        ({"s": ["x"]}, {"scores": "s"}, "not a number"),
        ({"s": [0.5]}, {"scores": "t"}, "has no column t"),
        ({"s": pa.array([], "double")}, {"scores": "s"}, "is empty"),
        ({"s": [0.5]}, {}, "one of them"),
        ({"a": [0.5], "b": [0.5], "y": ["c"]}, {"labels": "y"}, "none of the classes a, b"),
        ({"a": [0.5], "b": [0.25], "y": ["a"]}, {"labels": "y"}, "batch 0: row 0 sums to 0.75"),
    ],
)
def test_bad_rows_are_named(table: dict[str, Any], options: dict[str, Any], message: str) -> None:
    assert message in refusal(lambda: fc.summarize_batches(pa.table(table), **options))


def test_batches_that_do_not_go_together() -> None:
    parts = [{"a": [0.5], "b": [0.5], "y": ["a"]}, {"a": [0.5], "c": [0.5], "y": ["a"]}]
    message = refusal(lambda: fc.summarize_batches(lambda: parts, labels="y"))
    assert message.startswith("batch 1: has the classes a, c, and batch 0 has a, b")


def test_what_can_be_read_once_is_refused() -> None:
    reader = pa.table({"s": [0.5]}).to_reader()
    assert "can be read once" in refusal(lambda: fc.summarize_batches(reader, scores="s"))
    assert "list gives no batches" in refusal(lambda: fc.summarize_batches([1, 2], scores="s"))


@pytest.mark.long
def test_memory_is_bounded() -> None:
    """Ten million scores are 80 MB; what is kept is a batch and what matters of the rest."""

    def batches() -> Iterator[dict[str, Any]]:
        for k in range(40):
            yield {"s": np.random.default_rng(k).random(2**18)}

    fc.summarize_batches(lambda: [{"s": np.arange(300.0)}], scores="s", memory=2**18)  # imports do not count
    tracemalloc.start()
    try:
        found = fc.summarize_batches(batches, scores="s", alpha=0.1, memory=2**18)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.n == 40 * 2**18
    assert most < 24 * 2**20
