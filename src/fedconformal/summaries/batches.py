"""Rows that come in batches, from a lazy frame or a stream of Arrow: one summary in bounded memory.

No library is imported for its own sake: a lazy frame of polars gives batches, so does a data set of Arrow, and what
else has Arrow's C stream (a frame, a relation of DuckDB) is read through pyarrow. The rows are read twice or more, so
what can be read once is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from fedconformal import tables
from fedconformal._base.arrays import Floats
from fedconformal._base.names import listed
from fedconformal.errors import InputError
from fedconformal.scores import DEFAULT, AnyScore, RegressionScore, Score
from fedconformal.summaries.predictions import score_predictions
from fedconformal.summaries.ranks import RankSummary
from fedconformal.summaries.rows import about_site, score_rows
from fedconformal.summaries.stream import MEMORY, summarize_stream

Scored = tuple[Floats, dict[str, Any]]
"""The scores of some rows, and what a summary is to say of them."""
Piece = tuple[str, Floats, dict[str, Any]]
"""The same, with a name for messages before it."""

ONCE = "can be read once, and the rows are read twice; give the data set, or a function that opens the stream anew"


def summarize_batches(  # noqa: PLR0913
    source: Any,
    *,
    score: AnyScore | None = None,
    labels: str | None = None,
    classes: Sequence[str] | None = None,
    predictions: Sequence[str] | None = None,
    scores: str | None = None,
    drop: Sequence[str] = (),
    alpha: Any = None,
    memory: int = MEMORY,
    **about: Any,
) -> RankSummary:
    """Summarise the rows of a lazy frame, a data set or a stream; the bytes are those of all rows at once.

    `source` is a LazyFrame of polars, a data set or table of pyarrow, anything with Arrow's C stream that can be read
    again, or a function that returns one of these, or batches, from the beginning. `labels` is the column of true
    classes or numbers; the other columns are the classes, or `classes` chooses them, and `drop` leaves some out;
    `predictions` are the columns of a score of numbers. With `scores`, a column holds scores, and `score` only says
    which. `memory` is how many scores are kept at a time. `about` is what `summarize` takes: site, model, calibration.

    >>> rows = [{"benign": [0.75, 0.5], "malignant": [0.25, 0.5], "truth": ["benign", "malignant"]}]
    >>> summarize_batches(lambda: rows, labels="truth", site="clinic-a")
    <ranks summary of 2 scores from site 'clinic-a'>
    """
    if (scores is None) == (labels is None):
        raise InputError("name the column of labels, or a column of scores; one of them")
    function = DEFAULT if score is None and scores is None else score
    columns: dict[str, Any] = {"labels": labels, "classes": classes, "predictions": predictions, "drop": drop}

    def read() -> Iterator[Piece]:
        for number, batch in enumerate(_batches(source)):
            table = tables.table_of(batch, name=f"batch {number}")
            if not table.rows:
                continue
            with table.in_lines():
                found = _column(table, scores) if scores is not None else _scored(table, function, **columns)
            yield table.source, *found

    return summarize_scored(read, score=function, alpha=alpha, memory=memory, **about)


def summarize_scored(
    read: Callable[[], Iterable[Piece]], *, alpha: Any, memory: int = MEMORY, site: str | None = None, **about: Any
) -> RankSummary:
    """Summarise scores that come in pieces, which must all say the same of themselves.

    The score is in `about` from the start, as one with a lower end has other ranks.
    """
    first: list[tuple[str, dict[str, Any]]] = []

    def pieces() -> Iterator[Floats]:
        for name, scores, found in read():
            if not first:
                first.append((name, found))
            known, said = first[0]
            if found != said:
                mine, theirs = (_classes(one["classes"]) for one in (found, said))
                raise InputError(
                    f"has the classes {mine}, and {known} has {theirs}; give all rows the same", where=name
                )
            yield scores

    stated = about_site(site, alpha=alpha, **about)
    summary = summarize_stream(pieces, alpha=alpha, memory=memory, **stated)
    return replace(summary, origin=replace(summary.origin, **first[0][1]))


def _classes(classes: int | Sequence[str]) -> str:
    return str(classes) if isinstance(classes, int) else listed(classes)


def _scored(
    table: Any,
    score: AnyScore | None,
    *,
    labels: str | None,
    classes: Sequence[str] | None,
    predictions: Sequence[str] | None,
    drop: Sequence[str],
) -> Scored:
    if isinstance(score, RegressionScore):
        found = tables.numbers_of(table, score.columns, columns=predictions, y=labels, drop=drop)
        return score_predictions(found.values, found.truth, score)
    if not isinstance(score, Score):
        raise InputError(f"score is {score!r:.80}, expected a score such as fedconformal.LAC()")
    found = tables.probabilities_of(table, labels=labels, classes=classes, drop=drop)
    return score_rows(found.values, found.truth, score, found.classes)


def _column(table: Any, name: str) -> Scored:
    return table.numbers([name])[:, 0], {}


def _batches(source: Any) -> Iterable[Any]:
    """Start reading from the beginning."""
    if callable(source):
        found = source()
        return found if isinstance(found, Iterable) and not hasattr(found, "__arrow_c_stream__") else _opened(found)
    if hasattr(source, "read_next_batch"):
        raise InputError(f"a stream of batches {ONCE}")
    return _opened(source)


def _opened(source: Any) -> Iterable[Any]:
    for method in ("collect_batches", "to_batches"):  # of polars' lazy frames, of Arrow's data sets and tables
        if hasattr(source, method):
            found: Iterable[Any] = getattr(source, method)()
            return found
    if hasattr(source, "__arrow_c_stream__"):
        try:
            from pyarrow import RecordBatchReader
        except ImportError:
            raise InputError("reading Arrow's C stream needs pyarrow: pip install 'fedconformal[parquet]'") from None
        reader: Iterable[Any] = RecordBatchReader.from_stream(source)
        return reader
    raise InputError(f"{type(source).__name__} gives no batches; give a lazy frame, a data set or a function")
