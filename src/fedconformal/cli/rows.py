"""Rows of a table: options that say which column is what, and one line that says what was recognised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedconformal._base.arrays import as_probabilities, as_sites, softmax
from fedconformal._base.files import TEXT, read_array
from fedconformal._base.names import abbreviate, name_key, plural
from fedconformal.calibration.predictor import Predictor
from fedconformal.certificates.certificate import Certificate
from fedconformal.cli.console import logger, note
from fedconformal.cli.features import Gives, Onnx, open_model, read_features, scored
from fedconformal.cli.inputs import Source
from fedconformal.errors import InputError
from fedconformal.summaries.provenance import has_expired
from fedconformal.tables import Predictions, Table, beside, pair, probabilities_of, read_table
from fedconformal.tables.files import ENDINGS

if TYPE_CHECKING:
    from fedconformal.serving.onnx import OnnxModel

Sites = Annotated[str | None, typer.Option(metavar="COLUMN|FILE[:COLUMN]", help="Which site each row is from.")]
Groups = Annotated[
    str | None, typer.Option(metavar="A,B,...", help="Columns to give the coverage by, such as sex,age.")
]

PLAIN = {"", "commas", "one column"}
"""What is said of a text file that needs no words."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the options say of a table and its columns; `keep` are others that the command uses."""

    content: Annotated[Source, typer.Option("--from", help="What the file holds; features need --onnx.")] = field(
        default=Source.probs, compare=False
    )
    onnx: Onnx = None
    gives: Gives = None
    ids: Annotated[str | None, typer.Option("--id", metavar="COLUMN", help="The column with the ids of the rows.")] = (
        None
    )
    label_column: Annotated[
        str | None, typer.Option("--labels", metavar="COLUMN", help="The column with the labels.")
    ] = None
    classes: Annotated[
        str | None, typer.Option("--classes", metavar="A,B,...", help="The classes: which columns, in which order.")
    ] = None
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="COLUMN", help="A column to leave out; repeatable, or A,B,..."),
    ] = None
    positive: Annotated[
        str | None,
        typer.Option("--positive", metavar="CLASS", help="Of one single column: the class it is about."),
    ] = None
    predictions: Annotated[
        str | None,
        typer.Option(
            "--predictions",
            metavar="A,B,...",
            help="A regressor's columns: prediction; lower, upper; prediction, scale.",
        ),
    ] = None
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Encoding of a text file, if not UTF-8; Excel may use cp1252.")
    ] = None
    keep: tuple[str, ...] = ()

    def keeping(self, *names: str | None) -> Columns:
        """Keep these columns too, each once; that of ids is kept already."""
        known = {None if self.ids is None else name_key(self.ids)}
        kept = {name_key(name): name for name in names if name is not None and name_key(name) not in known}
        return replace(self, keep=tuple(kept.values()))

    def open(self, path: Path, array: str) -> Table:
        """Read a file; the encoding is that of the ones that are text."""
        encoding = self.encoding if path.suffix.lower() in TEXT else None
        if array == Source.features:
            return read_features(path, encoding)
        return read_table(path, encoding=encoding, arrays=(array,))

    @property
    def model(self) -> OnnxModel | None:
        """The model of --onnx, which goes with features and with nothing else."""
        if (self.onnx is None) == (self.content is Source.features):
            raise InputError("--from features and --onnx go together; give both or neither")
        return None if self.onnx is None else open_model(self.onnx, self.gives)

    def read(
        self,
        path: Path,
        labels: Path | None = None,
        *,
        wanted: int | Sequence[str] | None = None,
        temperature: float | None = None,
        again: bool = False,
    ) -> Predictions:
        """Read rows, in the order of the classes `wanted`, and labels; say once what was recognised.

        Labels are in a column, or in a file of their own. If the two files can be read in the other order only, say so.
        """
        about: dict[str, Any] = {"wanted": wanted, "temperature": temperature}
        try:
            return self._read(path, labels, **about, again=again)
        except InputError:
            if labels is not None and labels != path and self._reads(labels, path, **about):
                problem = f"{path} and {labels} look swapped: probabilities come first, then labels"
                raise InputError(problem, code="swapped") from None
            raise

    def _reads(self, path: Path, labels: Path, **about: Any) -> bool:
        """Whether these files are probabilities and their labels."""
        try:
            as_probabilities(self._read(path, labels, **about, again=True).values)
        except InputError:
            return False
        return self.content is not Source.features  # whose rows may be anything

    def _read(
        self,
        path: Path,
        labels: Path | None,
        *,
        wanted: int | Sequence[str] | None,
        temperature: float | None,
        again: bool,
    ) -> Predictions:
        if self.predictions is not None:
            raise InputError("--predictions is for a score of numbers, such as cqr; classes are chosen with --classes")
        if self.content is Source.logits and self.positive is not None:
            raise InputError("--positive is for one column of probabilities; with --from logits, give a column a class")
        model, own_labels = self.model, self.label_column if labels is None else None
        tables = [self.open(path, self.content.value)]
        if model is not None:
            tables[0] = scored(tables[0], self._aside(own_labels), model, temperature)
        found = self._find(tables[0], own_labels, wanted)
        if wanted is not None:
            found = found.matched(wanted)
        if labels is not None:
            tables.append(self.open(labels, "labels"))
            found = pair(found, tables[1], labels=self.label_column)
        named = wanted is not None and not isinstance(wanted, int)
        logger.debug("%s: %s of shape %s", path, self.content.value, found.values.shape)
        if not again and (self != type(self)() or named or not all(map(_is_plain, tables))):
            note(found.recognised)
        if self.content is not Source.logits:
            return found
        at = 1.0 if temperature is None else temperature
        with found.table.in_lines():
            return replace(found, values=softmax(found.values, temperature=at, name=str(path)))

    def read_for(self, predictor: Predictor, path: Path, labels: Path | None = None) -> Predictions:
        """Read rows for a predictor; warn of a certificate that has expired, and of the temperature it was made at."""
        about = predictor.certificate
        if self.model is not None:
            self.model.check_for(about.provenance.model)
        warn_of_expiry(about)
        if self.content is Source.probs and about.provenance.temperature not in (None, 1.0):
            at = about.provenance.temperature
            logger.warning("the predictor was calibrated at temperature %g; the probabilities must be too", at)
        return self.read(path, labels, wanted=about.class_names, temperature=about.provenance.temperature)

    def _find(self, table: Table, labels: str | None, wanted: int | Sequence[str] | None) -> Predictions:
        """Find the columns of the classes; those of the predictor, `wanted`, name columns that have no names."""
        given = None if self.classes is None else split(self.classes)
        if given is None and wanted is not None and not isinstance(wanted, int):
            aside = set(map(name_key, self._aside(labels)))
            rest = [table.names[j] for j in table.columns if table.names[j] not in aside] if table.names else []
            unnamed = labels is not None and rest == [str(k) for k in range(len(rest))]
            if unnamed or self.positive is not None:
                given = list(wanted)  # labels are names then, as the predictor has them
        about: dict[str, Any] = {"drop": self._dropped(), "keep": self.keep, "positive": self.positive}
        return probabilities_of(table, ids=self.ids, labels=labels, classes=given, **about)

    def _aside(self, labels: str | None) -> list[str]:
        """Name the columns that have another use than the numbers of a row."""
        return [name for name in (labels, self.ids, *self._dropped(), *self.keep) if name is not None]

    def _dropped(self) -> list[str]:
        return [name for one in self.drop or () for name in split(one)]


@dataclass(frozen=True, kw_only=True)
class Unlabelled(Columns):
    """The same for rows without labels."""

    label_column: str | None = None


NONE = Columns()


def warn_of_expiry(certificate: Certificate) -> None:
    """Warn of a certificate that has expired."""
    if has_expired(certificate.provenance.expires):
        logger.warning(
            "the certificate expired on %s; calibrate anew, from new summaries", certificate.provenance.expires
        )


def warn_of_repeated_ids(found: Predictions, advice: str, seen: set[str] | None = None) -> None:
    """Warn if ids have several rows, which no guarantee allows; `seen` are those of earlier files, and is added to."""
    seen, repeated = set() if seen is None else seen, dict[str, None]()
    for one in found.ids or ():
        if one in seen:
            repeated[one] = None
        seen.add(one)
    if repeated:
        first, names = abbreviate(next(iter(repeated))), plural(len(repeated), "id")
        logger.warning("%s: %s with several rows, such as %s: %s", found.table.source, names, first, advice)


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
        return as_sites(read_array(file, array), rows=found.table.rows, name=str(file))
    values, said = beside(found, columns.open(file, array), column=wanted)
    if "joined" in said:
        note(said)
    return as_sites(np.array(values, dtype=np.str_), rows=found.table.rows, name=given)


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


def _is_plain(table: Table) -> bool:
    if table.first_line is None:
        return table.names is None
    return table.names is None and table.head is None and set(table.said) <= PLAIN
