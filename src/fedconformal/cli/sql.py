"""fedconformal sql: print the query that makes a summary's ranks where the scores are."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedconformal._base.files import write_bytes
from fedconformal.cli.console import print_result, write
from fedconformal.cli.options import Alpha, Json, split
from fedconformal.cli.outputs import check_output
from fedconformal.errors import InputError
from fedconformal.summaries.sql import DIALECTS, Dialect, Scored, column_of, lac_of, residual_of, statement

NEXT = "-- Run this query, then: fedconformal summarize result.csv -o site.fcs"
"""The first line of what is printed."""


class Database(StrEnum):
    """Which database."""

    duckdb = "duckdb"
    postgresql = "postgresql"
    spark = "spark"


class ScoredBy(StrEnum):
    """How rows are scored."""

    lac = "lac"
    residual = "residual"
    scores = "scores"


def sql(
    dialect: Annotated[Database, typer.Option("--dialect", help="The database that the query is for.")],
    table: Annotated[str, typer.Option("--table", metavar="NAME", help="The table, such as scans or clinic.scans.")],
    score: Annotated[
        ScoredBy, typer.Option("--score", help="How rows are scored: scores takes a column of scores as it is.")
    ] = ScoredBy.lac,
    probability_columns: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="With lac: the columns of the classes, in order.")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...", help="With lac: the names of the classes.", show_default="those of the columns"
        ),
    ] = None,
    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="With lac the true class, with residual the true number.")
    ] = "label",
    prediction: Annotated[
        str, typer.Option(metavar="COLUMN", help="With residual: what was predicted.")
    ] = "prediction",
    score_column: Annotated[str, typer.Option(metavar="COLUMN", help="With scores: the column.")] = "score",
    alpha: Alpha = "0.1",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="The .sql file.", show_default="print")] = None,
    json: Json = False,
) -> None:
    """Print an SQL query that summarises rows in a database; summarize reads its result."""
    chosen = DIALECTS[dialect.value]
    if score is not ScoredBy.lac and (probability_columns is not None or classes is not None):
        raise InputError(f"--probability-columns and --classes go with --score lac, not with {score.value}")
    if score is ScoredBy.lac:
        rows = _lac(chosen, probability_columns, label, classes)
    else:
        rows = residual_of(chosen, prediction, label) if score is ScoredBy.residual else column_of(chosen, score_column)
    text = f"{NEXT}\n{statement(chosen, table, rows, alpha)};\n"
    facts = {"dialect": chosen.name, "tested": chosen.tested, "score": score.value, "query": text}
    if output is not None:
        check_output(output, ending=".sql")
        if output.exists():
            raise InputError(f"{output}: exists; choose another place with -o")
        write_bytes(output, text.encode())
        print_result({**facts, "output": str(output)}, f"wrote {output}: a query for {chosen.program}", json=json)
    elif json:
        print_result(facts, json=True)
    else:
        write(text)


def _lac(dialect: Dialect, columns: str | None, label: str, classes: str | None) -> Scored:
    if columns is None:
        raise InputError("--score lac needs the columns of the classes; name them with --probability-columns A,B,...")
    return lac_of(dialect, split(columns), label, None if classes is None else split(classes))
