"""Rows of features, scored by an ONNX model as the server scores them: --onnx and --from features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from numpy.typing import NDArray

from fedconformal._base.files import read_array
from fedconformal.errors import requires_extra
from fedconformal.tables import Table, read_table, table_of
from fedconformal.tables.table import Cells

if TYPE_CHECKING:
    from fedconformal.serving.onnx import OnnxModel


class Output(StrEnum):
    """What a model gives."""

    probs = "probs"
    logits = "logits"


Onnx = Annotated[Path | None, typer.Option("--onnx", metavar="FILE", help="The model, as an ONNX file.")]
Gives = Annotated[
    Output | None,
    typer.Option("--onnx-gives", help="What the ONNX model gives.", show_default="by the name of its output"),
]


@cache
def open_model(path: Path, gives: Output | None = None) -> OnnxModel:
    """Load a model."""
    with requires_extra("serve"):
        from fedconformal.serving.onnx import OnnxModel
    return OnnxModel(path, gives=None if gives is None else gives.value)


@dataclass(frozen=True)
class ScoredCells:
    """The cells of a table, and after its columns those of the model's probabilities."""

    given: Cells
    probs: NDArray[Any]
    width: int

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.probs)

    def numbers(self, columns: Sequence[int]) -> NDArray[Any]:
        """Return columns of probabilities, or of the table."""
        own = [column - self.width for column in columns]
        if min(own) < 0:
            return self.given.numbers(columns)
        return self.probs if own == list(range(self.probs.shape[1])) else self.probs[:, own]

    def texts(self, column: int) -> list[str]:
        """Return a column of the table as text."""
        return self.given.texts(column)


def read_features(path: Path, encoding: str | None) -> Table:
    """Read a table of features; an array may have any shape, such as that of images."""
    if path.suffix.lower() not in (".npy", ".npz"):
        return read_table(path, encoding=encoding)
    found = read_array(path, "features")
    return table_of(found.reshape(len(found), -1) if found.ndim > 2 and len(found) else found, name=str(path))


def scored(table: Table, others: Sequence[str], model: OnnxModel, temperature: float | None) -> Table:
    """Put the model's probabilities in the place of the features, which are all columns but these `others`."""
    table = table.with_header()
    aside = [table.column(name) for name in others]
    with table.in_lines():
        features = table.numbers([column for column in table.columns if column not in aside])
        probs = model.probabilities(features, temperature=temperature)
    width = len(table.names) if table.names is not None else 1 + max(table.columns, default=0)
    places = range(width, width + probs.shape[1])
    return replace(
        table,
        cells=ScoredCells(table.cells, probs, width),
        names=None if table.names is None else (*table.names, *map(str, range(probs.shape[1]))),
        columns=(*aside, *places),
        said=(*table.said, f"scored by {model.path.name}"),
    )
