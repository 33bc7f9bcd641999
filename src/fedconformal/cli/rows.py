"""Rows of a table: options that say which column is what, and one line that says what was recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import as_clients
from fedconformal._base.files import read_array
from fedconformal._base.names import name_key
from fedconformal.cli.console import logger, note
from fedconformal.cli.inputs import Source, from_logits
from fedconformal.errors import InputError
from fedconformal.tables import Predictions, Table, beside, pair, probabilities_of, read_table
from fedconformal.tables.files import ENDINGS, TEXT

Id = Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="The column with the ids of the rows.")]
Labels = Annotated[str | None, typer.Option("--labels", metavar="COLUMN", help="The column with the labels.")]
ClassNames = Annotated[
    str | None, typer.Option("--classes", metavar="A,B,...", help="The classes: which columns, in which order.")
]
Drop = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="A column to leave out; repeatable, or A,B,...")
]
Positive = Annotated[
    str | None,
    typer.Option("--positive", metavar="CLASS", help="The class whose probability is the one column there is."),
]
Encoding = Annotated[
    str | None, typer.Option("--encoding", help="Of a text file, if not UTF-8; such as cp1252, from Excel.")
]

PLAIN = {"", "commas", "one column"}
"""What is said of a text file that needs no words."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the options say of a table's columns; `keep` are others that the command uses."""

    ids: str | None = None
    labels: str | None = None
    classes: str | None = None
    drop: Sequence[str] | None = None
    positive: str | None = None
    encoding: str | None = None
    keep: tuple[str, ...] = ()

    def keeping(self, *names: str | None) -> Columns:
        """Keep these columns too, each once; that of ids is kept already."""
        known = {None if self.ids is None else name_key(self.ids)}
        kept = {name_key(name): name for name in names if name is not None and name_key(name) not in known}
        return replace(self, keep=tuple(kept.values()))

    def open(self, path: Path, array: str) -> Table:
        """Read a file; the encoding is that of the ones that are text."""
        encoding = self.encoding if path.suffix.lower() in TEXT else None
        return read_table(path, encoding=encoding, arrays=(array,))

    def find(self, table: Table, wanted: int | Sequence[str] | None) -> Predictions:
        """Find the columns of the classes; those of the predictor, `wanted`, name columns that have no names."""
        named = None if wanted is None or isinstance(wanted, int) else list(wanted)
        given = None if self.classes is None else split(self.classes)
        about: dict[str, Any] = {
            "ids": self.ids,
            "labels": self.labels,
            "drop": [name for one in self.drop or () for name in split(one)],
            "keep": self.keep,
            "positive": self.positive,
        }
        if given is None and named is not None and self.positive is not None:
            given = named
        if given is None and named is not None and self.labels is not None and _unnamed(table, about):
            given = named  # labels are names then, as the predictor has them
        return probabilities_of(table, classes=given, **about)


NONE = Columns()


def read_predictions(
    path: Path,
    source: Source,
    columns: Columns,
    *,
    labels: Path | None = None,
    wanted: int | Sequence[str] | None = None,
    temperature: float | None = None,
    again: bool = False,
) -> Predictions:
    """Read rows, labels from a column or a file, in the order of the classes `wanted`; say once what was recognised."""
    if source is Source.logits and columns.positive is not None:
        raise InputError("--positive is for one column of probabilities; with --from logits, give a column a class")
    apart = None if labels is None else columns.labels
    table = columns.open(path, source.value)
    tables = [table]
    found = (replace(columns, labels=None) if labels is not None else columns).find(table, wanted)
    if wanted is not None:
        found = found.matched(wanted)
    if labels is not None:
        tables.append(columns.open(labels, "labels"))
        found = pair(found, tables[1], labels=apart)
    named = wanted is not None and not isinstance(wanted, int)
    logger.debug("%s: %s of shape %s", path, source.value, found.values.shape)
    if not again and (columns != NONE or named or not all(map(_is_plain, tables))):
        note(found.recognised)
    if source is Source.probs:
        return found
    with found.table.in_lines():
        return replace(found, values=from_logits(found.values, str(path), temperature))


def labels_of(found: Predictions) -> NDArray[Any]:
    """Return the label of each row as the library takes it: a name where classes have names."""
    if found.labels is None:
        raise found.table.error("has no labels; give LABELS as well, or their column with --labels")
    return found.labels if found.classes is None else np.array(found.classes)[found.labels]


def values_of(found: Predictions, given: str, array: str, columns: Columns = NONE) -> NDArray[Any]:
    """Return a value a row: from a column of the table, from FILE, or from FILE:COLUMN."""
    if file_in(given) is None:
        name = name_key(given)
        return np.array(found.ids if name == found.id_column else found.others[name], dtype=np.str_)
    file = file_in(given) or Path(given)
    wanted = None if file == Path(given) else given.rpartition(":")[2]
    if file.suffix.lower() in (".npy", ".npz"):
        if wanted is not None:
            raise InputError(f"{file}: has no columns with names; leave out :{wanted}")
        return as_clients(read_array(file, array), rows=found.table.rows, name=str(file))
    values, said = beside(found, columns.open(file, array), column=wanted)
    if "joined" in said:
        note(said)
    return as_clients(np.array(values, dtype=np.str_), rows=found.table.rows, name=given)


def file_in(given: str | None) -> Path | None:
    """Return the file that an option names, by itself or before a column, if it names one: files have their endings."""
    names = () if given is None else (given, given.rpartition(":")[0])
    return next((Path(name) for name in names if Path(name).suffix.lower() in ENDINGS), None)


def column_in(given: str | None) -> str | None:
    """Return the column of the table that an option names, if it names one."""
    return given if file_in(given) is None else None


def split(names: str) -> list[str]:
    """Cut names at their commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


@contextmanager
def naming_rows(table: Table, first: int = 0) -> Iterator[None]:
    """Name the file and the line where the library names a row of "probabilities", of which this is the first."""
    try:
        yield
    except InputError as error:
        start, called, problem = str(error).partition("probabilities: ")
        if start or not called:
            raise
        row, number, rest = problem.startswith("row "), *problem.removeprefix("row ").partition(" ")[::2]
        if row and number.isdecimal():
            problem = f"{table.place(int(number) + first)} {rest}"
        raise type(error)(f"{table.source}: {problem}") from None


def _is_plain(table: Table) -> bool:
    if table.first_line is None:
        return table.names is None
    return table.names is None and table.head is None and set(table.said) <= PLAIN


def _unnamed(table: Table, about: dict[str, Any]) -> bool:
    asked = [about["labels"], about["ids"], *about["drop"], *about["keep"]]
    aside = {name_key(name) for name in asked if name is not None}
    rest = [table.names[j] for j in table.columns if table.names[j] not in aside] if table.names else []
    return rest == [str(k) for k in range(len(rest))]
