"""fedconformal summarize --from-ranks: the result of the query that fedconformal sql printed becomes a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.arrays import as_alpha
from fedconformal._base.files import read_bytes
from fedconformal._base.spec import build
from fedconformal.cli.rows import NONE, Columns
from fedconformal.errors import InputError, prefix_errors
from fedconformal.scores import AnyScore
from fedconformal.summaries import Summary
from fedconformal.summaries.sql_result import Result, read_result

DEFAULT_ALPHA = "0.1"
"""What --alpha is if nobody typed it; the query says its own."""

FromRanks = Annotated[
    bool, typer.Option("--from-ranks", help="The file is the result (.csv) of the query of fedconformal sql.")
]


def opened(path: Path) -> Result:
    """Read and check the result of a query."""
    with prefix_errors(path):
        return read_result(read_bytes(path))


def result_score(files: Sequence[Path], score: str | None) -> AnyScore | None:
    """Return the score that was named, or the one that the query is for."""
    if len(files) != 1:
        raise InputError(f"--from-ranks takes one file, and {len(files)} were given")
    return opened(files[0]).made.function() if score is None else build(score, AnyScore)


def refuse_beside_ranks(others: Mapping[str, Any], columns: Columns) -> None:
    """Refuse options that are for rows: the query has scored them."""
    wrong = next((option for option, typed in others.items() if typed), None)
    if wrong is not None:
        raise InputError(f"{wrong} does not go with --from-ranks; leave it out")
    if columns != NONE or columns.content is not NONE.content:
        raise InputError("--from, --labels, --classes and the like go with rows; give them to fedconformal sql")


def summary_of_ranks(path: Path, asked: str, provenance: Mapping[str, Any], site: str) -> Summary:
    """Make the summary of a result; alpha is that of the query."""
    found = opened(path)
    alpha = found.made.alpha
    if asked != DEFAULT_ALPHA and as_alpha(asked) != as_alpha(alpha):
        raise InputError(f"{path}: the query is for alpha {alpha}, not {asked}; leave out --alpha")
    with prefix_errors(path):
        return found.summary(site=site, **provenance)
