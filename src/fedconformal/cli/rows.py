"""Options for the columns of a table, and the reading of its rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import as_probabilities, softmax
from fedconformal._base.files import TEXT, read_array
from fedconformal._base.groups import as_sites
from fedconformal._base.names import abbreviate, name_key, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.cli.console import logger, note
from fedconformal.cli.options import refuse, split, warn_of_expiry
from fedconformal.errors import InputError, SuspiciousInputWarning, requires_extra
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.tables import (
    Predictions,
    Table,
    aligned_column,
    columns_that_add_up,
    numbers_of,
    pair,
    probabilities_of,
    read_table,
    table_of,
)
from fedconformal.tables.files import ENDINGS
from fedconformal.tables.table import MOST_LISTED

if TYPE_CHECKING:
    from fedconformal.serving.onnx import OnnxModel

Classes = int | Sequence[str] | None

Source = Literal["probs", "logits", "features"]
"""Content of a file of numbers."""

Sites = Annotated[str | None, typer.Option("--sites", metavar="COLUMN|FILE", help="The site of each row.")]
Onnx = Annotated[
    str | None, typer.Option("--onnx", metavar="FILE", help="The ONNX model; FILE:logits if it gives logits.")
]


@cache
def open_model(option: str) -> OnnxModel:
    """Load the model of --onnx, FILE or FILE:probs or FILE:logits."""
    with requires_extra("serve"):
        from fedconformal.serving.onnx import OnnxModel
    path, _, output = option.rpartition(":")
    stated: Any = output if output in ("probs", "logits") else None
    return OnnxModel(Path(option if stated is None else path), gives=stated)


@dataclass(frozen=True)
class PredictorRows:
    """Rows for a predictor: outputs of the model, groups and sites."""

    table: Predictions
    groups: dict[str, NDArray[Any]] = field(default_factory=dict)
    sites: NDArray[Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The options of a table; `keep` are further columns that the command uses."""

    content: Annotated[
        Source, typer.Option("--from", metavar="KIND", help="probs, logits, or features for --onnx.")
    ] = field(default="probs", compare=False)
    onnx: Onnx = None
    ids: Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="Ids of the rows, such as patients.")] = None
    labels: Annotated[str | None, typer.Option("--labels", metavar="COLUMN", help="Labels, or true numbers.")] = None
    classes: Annotated[
        str | None, typer.Option("--classes", metavar="A,B,...", help="Columns of the classes, in order.")
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Columns to leave out: A,B,...; repeatable.")
    ] = None
    positive: Annotated[
        str | None, typer.Option("--positive", metavar="CLASS", help="The class of the only column of probabilities.")
    ] = None
    predictions: Annotated[
        str | None,
        typer.Option("--predictions", metavar="A,B,...", help="Columns of a regressor, such as lower,upper."),
    ] = None
    groups: Annotated[
        str | None, typer.Option("--groups", metavar="A,B,...", help="Columns with groups, such as sex,age.")
    ] = None
    encoding: Annotated[str | None, typer.Option("--encoding", help="Of text that is not UTF-8, such as cp1252.")] = (
        None
    )
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out rows with a missing probability or label.")
    ] = field(default=False, compare=False)
    keep: tuple[str, ...] = ()

    @property
    def given(self) -> str:
        """The first option that names a column; empty without one."""
        typed = [one for one in fields(self) if one.compare and getattr(self, one.name) != one.default]
        return typed[0].name.replace("ids", "id") if typed else ""

    @property
    def model(self) -> OnnxModel | None:
        """The model of --onnx, which requires --from features."""
        if (self.onnx is None) == (self.content == "features"):
            raise InputError("--from features and --onnx go together; give both or neither")
        return None if self.onnx is None else open_model(self.onnx)

    def group_columns(self, predictor: Predictor | None = None) -> list[str]:
        """Return the columns of --groups and those that the predictor needs."""
        needed = [] if predictor is None else predictor.certificate.group_columns
        typed = [] if self.groups is None else split(self.groups)
        if self.groups is not None and not typed:
            raise InputError("--groups names no column; give names such as sex,age")
        return list({name_key(name): name for name in (*needed, *typed)}.values())

    def keeping(self, *names: str | None) -> Columns:
        """Return options that keep these columns too, each once; the column of ids is always kept."""
        known = {None if self.ids is None else name_key(self.ids)}
        columns = {name_key(name): name for name in names if name is not None and name_key(name) not in known}
        return replace(self, keep=tuple(columns.values()))

    def open(self, path: Path, array: str) -> Table:
        """Read a file; the encoding applies to text files only."""
        if array == "features" and path.suffix.lower() in (".npy", ".npz"):  # of any shape, such as images
            rows = read_array(path, "features")
            return table_of(rows.reshape(len(rows), -1) if rows.ndim > 2 and len(rows) else rows, name=str(path))
        encoding = self.encoding if path.suffix.lower() in TEXT else None
        return read_table(path, encoding=encoding, arrays=(array,))

    def read_for(
        self,
        predictor: Predictor,
        path: Path,
        labels: Path | None = None,
        *,
        sites: str | None = None,
        beside: Sequence[str | None] = (),
    ) -> PredictorRows:
        """Read rows for a predictor, with groups, sites and the columns `beside`."""
        about, by = predictor.certificate, self.group_columns(predictor)
        warn_of_expiry(predictor)
        at = about.provenance.temperature
        if not about.intervals:
            if self.model is not None:
                self.model.check_for(about.provenance.model)
            if self.content == "probs" and at not in (None, 1.0):
                logger.warning("the predictor was calibrated at temperature %g; the probabilities must be too", at)
        columns = self.keeping(*by, column_in(sites), *map(column_in, beside))
        table = columns.read(predictor.score, path, labels, wanted=about.class_names, temperature=at)
        groups = {name: self.values_of(table, name, "groups") for name in by}
        return PredictorRows(table, groups, None if sites is None else self.values_of(table, sites, "sites"))

    def read(
        self,
        score: AnyScore,
        path: Path,
        labels: Path | None = None,
        *,
        wanted: Classes = None,
        temperature: float | None = None,
    ) -> Predictions:
        """Read outputs, in the order of the classes `wanted`, and the truth, from a column or a separate file."""
        if isinstance(score, RegressionScore):
            return self.read_numbers(path, score.columns, labels)
        predictions = self._read_classes(path, labels, wanted, temperature)
        _note_recognised(predictions)
        return predictions

    def values_of(self, found: Predictions, given: str, array: str) -> NDArray[Any]:
        """Return one value per row, from a column of the table, from FILE or from FILE:COLUMN."""
        file = file_in(given)
        if file is None:
            name = name_key(given)
            return np.array(found.ids if name == found.id_column else found.others[name], dtype=np.str_)
        column = None if file == Path(given) else given.rpartition(":")[2]
        values, said = aligned_column(found, self.open(file, array), column=column)
        note(said)
        return as_sites(np.array(values, dtype=np.str_), rows=found.table.rows, name=given)

    def read_numbers(self, path: Path, wanted: Sequence[str], labels: Path | None = None) -> Predictions:
        """Read these columns of numbers, and the true numbers from a column or a separate file."""
        reason = "is for classes, and these are numbers; leave it out"
        refuse(reason, classes=self.classes, positive=self.positive, onnx=self.onnx)
        refuse(reason, **{"from logits": self.content == "logits"})
        predictions = numbers_of(
            self.open(path, "predictions"),
            wanted,
            columns=None if self.predictions is None else split(self.predictions),
            ids=self.ids,
            y=self.labels if labels is None else None,
            drop=self._dropped(),
            keep=self.keep,
            skip_missing=self.skip_missing,
        )
        predictions = self._paired(predictions, labels)
        _note_recognised(predictions)
        return predictions

    def _paired(self, found: Predictions, labels: Path | None) -> Predictions:
        if labels is None:
            return found
        return pair(found, self.open(labels, "labels"), labels=self.labels, skip_missing=self.skip_missing)

    def _read_classes(self, path: Path, labels: Path | None, wanted: Classes, temperature: float | None) -> Predictions:
        if self.predictions is not None:
            raise InputError("--predictions is for a score of numbers, such as cqr; classes are chosen with --classes")
        if self.content == "logits" and self.positive is not None:
            raise InputError("--positive is for one column of probabilities; with --from logits, give a column a class")
        model, own_labels = self.model, self.labels if labels is None else None
        table = self.open(path, self.content)
        if model is not None:
            names = split(self.classes) if self.classes is not None else wanted
            table = _infer(table, self._aside(own_labels), model, temperature, names)
        predictions = self._find(table, own_labels, wanted, labels)
        if wanted is not None:
            predictions = predictions.matched(wanted)
        predictions = self._paired(predictions, labels)
        if self.content != "logits":
            return predictions
        at = 1.0 if temperature is None else temperature
        with predictions.table.in_lines():
            return replace(predictions, values=softmax(predictions.values, temperature=at, name=str(path)))

    def _find(self, table: Table, labels: str | None, wanted: Classes, truth: Path | None) -> Predictions:
        """Find the columns of the classes, by name if the predictor's classes are `wanted`; others are ignored."""
        given, positive = None if self.classes is None else split(self.classes), self.positive
        if given is None and wanted is not None and not isinstance(wanted, int):
            aside = set(map(name_key, self._aside(labels)))
            table = table.with_header()
            rest = [table.names[j] for j in table.columns if table.names[j] not in aside] if table.names else []
            if rest != [str(k) for k in range(len(rest))] or labels is not None or positive is not None:
                given = list(wanted)  # labels are then names, as in the predictor
            if positive is None and len(wanted) == 2 and len(rest) == 1 and rest[0] in map(name_key, wanted):
                positive = rest[0]
        try:
            found = probabilities_of(
                table,
                ids=self.ids,
                labels=labels,
                classes=given,
                drop=self._dropped(),
                keep=self.keep,
                positive=positive,
                skip_missing=self.skip_missing,
            )
        except InputError as error:
            if given is None and error.code == "not-a-number":
                self._propose_classes(table.with_header(), labels, f"{error}")
                if truth is not None:
                    raise InputError(f"{error} (--drop), or give the probabilities before the labels") from None
            raise
        if given is None and found.classes is not None and self.model is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SuspiciousInputWarning)  # raised when rows are scored
                    as_probabilities(found.values)
            except InputError:
                self._propose_classes(found.table, labels, f"{table.source}: has columns that are no probabilities")
        return found

    def _propose_classes(self, table: Table, labels: str | None, problem: str) -> None:
        """Raise with a proposal if some of the columns without another use add up to one."""
        aside = [table.column(name) for name in self._aside(labels)]
        rest = [j for j in table.columns if j not in aside]
        names = columns_that_add_up(table, rest)
        if names is not None and len(names) < len(rest):
            raise InputError(
                f'{problem}; columns that add up to one: --classes "{",".join(names)}"', code="stray-column"
            )

    def _aside(self, labels: str | None) -> list[str]:
        """Return the columns with another use than the numbers of a row."""
        return [name for name in (labels, self.ids, *self._dropped(), *self.keep) if name is not None]

    def _dropped(self) -> list[str]:
        return [name for names in self.drop or () for name in split(names)]


@dataclass(frozen=True, kw_only=True)
class Unlabelled(Columns):
    """The options of a table without labels."""

    labels: str | None = None
    skip_missing: bool = field(default=False, compare=False)


def _infer(table: Table, others: Sequence[str], model: OnnxModel, temperature: float | None, classes: Classes) -> Table:
    """Replace the features, all columns but `others`, with the model's probabilities."""
    table = table.with_header()
    aside = [table.column(name) for name in others]
    with table.in_lines():
        features = table.numbers([column for column in table.columns if column not in aside])
        probs = model.probabilities(features, temperature=temperature)
        if classes is not None and not isinstance(classes, int):
            model.check_names(features, classes)
    held = {name: table.texts(name) for name in others}
    columns = {**held, **{str(k): probs[:, k] for k in range(probs.shape[1])}} if held else probs
    return replace(table_of(columns, name=table.source), said=(*table.said, f"scored by {model.path.name}"))


def _note_recognised(found: Predictions) -> None:
    """Report the recognised columns, unless the input is a plain array, and the skipped rows."""
    if found.table.first_line is not None or found.table.names is not None or found.classes is not None:
        note(found.recognised)
    if found.skipped:
        names = f"{'; '.join(found.skipped[:MOST_LISTED])}{'; ...' if len(found.skipped) > MOST_LISTED else ''}"
        logger.warning("%s: %s left out: %s", found.table.source, plural(len(found.skipped), "row"), names)


def warn_of_repeated_ids(found: Predictions, advice: str) -> None:
    """Warn if ids have several rows, which violates every guarantee."""
    repeated = [row_id for row_id, count in Counter(found.ids or ()).items() if count > 1]
    if repeated:
        first, names = abbreviate(repeated[0]), plural(len(repeated), "id")
        logger.warning("%s: %s with several rows, such as %s: %s", found.table.source, names, first, advice)


def file_in(given: str | None) -> Path | None:
    """Return the file named by an option, FILE or FILE:COLUMN, recognised by its ending."""
    names = () if given is None else (given, given.rpartition(":")[0])
    return next((Path(name) for name in names if Path(name).suffix.lower() in ENDINGS), None)


def column_in(given: str | None) -> str | None:
    """Return the column of the table named by an option; None if it names a file."""
    return given if file_in(given) is None else None
