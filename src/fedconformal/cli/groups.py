"""Groups on the command line: columns of the table that holds the rows, those of the predictor always among them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedconformal._base.names import name_key
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.rows import split, values_of
from fedconformal.errors import InputError
from fedconformal.tables import Predictions

ByColumns = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="A,B,...",
        help="Group by group, for calibrate --guarantee by-group: such as sex,age; shows how many rows each has.",
    ),
]
Needed = Annotated[
    str | None,
    typer.Option("--groups", metavar="A,B,...", help="Columns with the groups.", show_default="the predictor's"),
]


def columns_in(groups: str | None, predictor: Predictor | None = None) -> list[str]:
    """Name the columns of an option, and those that the predictor needs."""
    needed = [] if predictor is None else predictor.certificate.group_columns
    typed = [] if groups is None else split(groups)
    if groups is not None and not typed:
        raise InputError("--groups names no column; give names such as sex,age")
    return list({name_key(name): name for name in (*needed, *typed)}.values())


def read_groups(rows: Predictions, columns: list[str]) -> dict[str, Any]:
    """Return the values of these columns."""
    return {name: values_of(rows, name, "groups") for name in columns}
