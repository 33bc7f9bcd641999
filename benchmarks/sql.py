"""Ranks of a column where it is: `fedconformal sql` in DuckDB, a lazy frame of polars, each against its own sort.

    python benchmarks/sql.py [--rows 20000000] [--rounds 3]

Both read one Parquet file. Seconds are of the processor, all threads together, so that other work on the machine
counts little. Each way also runs once in a process of its own, for its memory.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import Seconds, best, in_a_fresh_process, memory, save, table

import fedconformal as fc
from fedconformal.summaries.sql import column_of, lac_of, read_result, statement

ALPHA = 0.1
BAR = 1.5
MOST = 2**22
"""Rows that are written at a time."""


def write(path: Path, rows: int) -> None:
    """Draw probabilities of two classes; the score is that of the first."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(rows)
    with parquet.ParquetWriter(path, pa.schema([("0", "f8"), ("1", "f8"), ("s", "f8"), ("y", "i4")])) as file:
        for start in range(0, rows, MOST):
            first = rng.beta(0.5, 0.5, min(MOST, rows - start))
            label = (rng.random(len(first)) > first).astype(np.int32)
            score = 1.0 - np.where(label == 0, first, 1 - first)
            file.write_table(pa.table({"0": first, "1": 1 - first, "s": score, "y": label}))


def ran(path: Path, query: str) -> Path:
    """Run a query in DuckDB, and save its result."""
    import duckdb

    with duckdb.connect() as connection:
        found = connection.execute(query.replace("ROWS.parquet", str(path)))
        names = [name for name, *_ in found.description or ()]
        lines = [",".join('"' + str(cell).replace('"', '""') + '"' for cell in row) for row in found.fetchall()]
    result = path.with_name("result.csv")
    result.write_text("\n".join([",".join(names), *lines]), encoding="utf-8")
    return result


def duckdb_sort(path: Path) -> None:
    """Sort the column into a table."""
    ran(path, "CREATE TEMP TABLE sorted AS SELECT s FROM 'ROWS.parquet' ORDER BY s")


def duckdb_query(path: Path) -> fc.Summary:
    """Run the query on the column of scores."""
    return read_result(ran(path, statement("ROWS.parquet", column_of("s"), ALPHA))).summary()


def duckdb_rows(path: Path) -> fc.Summary:
    """Run the query on probabilities and labels."""
    return read_result(ran(path, statement("ROWS.parquet", lac_of(["0", "1"], "y"), ALPHA))).summary()


def polars_sort(path: Path) -> None:
    """Sort the column."""
    import polars as pl

    pl.scan_parquet(path).select("s").sort("s").collect()


WAYS: dict[str, Callable[[Path], Any]] = {
    "DuckDB: sort": duckdb_sort,
    "DuckDB: the query on scores": duckdb_query,
    "DuckDB: the query on probabilities and labels": duckdb_rows,
    "polars: sort": polars_sort,
}


def base(who: str) -> str:
    """Name what a way is compared with."""
    return f"{who.partition(':')[0]}: sort"


def alone(who: str, path: Path) -> dict[str, float]:
    """Run one way once: its peak in MB on top of an interpreter."""
    before = memory("VmRSS")
    WAYS[who](path)
    return {"mb": memory("VmHWM") - before}


def main() -> None:
    """Print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", nargs=2, metavar=("WHO", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(alone(options.alone[0], Path(options.alone[1]))))
        return

    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "rows.parquet")
        write(path, options.rows)
        taken: Seconds = {who: [] for who in WAYS}
        for _ in range(options.rounds):
            for who, run in WAYS.items():
                start = time.process_time()
                run(path)
                taken[who].append(time.process_time() - start)
        once = {who: in_a_fresh_process("sql.py", "--alone", who, str(path)) for who in WAYS}
    seconds = best(taken)
    ratio = {who: seconds[who] / seconds[base(who)] for who in WAYS}
    print(f"{options.rows} rows; wanted: at most {BAR}x of the sort\n")
    table(
        ["", "seconds of the processor", "ratio", "peak MB"],
        [[who, seconds[who], ratio[who], f"{once[who]['mb']:.0f}"] for who in WAYS],
    )
    facts = {"rows": options.rows, "seconds": seconds, "rounds": taken, "ratio": ratio}
    save("sql", {**facts, "mb": {who: found["mb"] for who, found in once.items()}})


if __name__ == "__main__":
    main()
