"""From the result of the statement in `sql.py` to a summary, with the same bytes as from the rows themselves.

Checks that all rows of the table were scored, that the ranks follow from their number, and that every score has all
digits.
"""

from __future__ import annotations

import csv
import io
import math
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import as_alpha
from fedconformal._base.names import abbreviate, as_name
from fedconformal.errors import InputError
from fedconformal.scores import AnyScore
from fedconformal.summaries.format import MAX_SIZE
from fedconformal.summaries.ranks import POINTS, RankSummary, scheduled_ranks
from fedconformal.summaries.summary import provenance_of

COLUMNS = ("fc_rank", "fc_score", "fc_digits", "fc_rows", "fc_refused", "fc_about")
SEPARATORS = ",;\t|"
MOST_BYTES = 2**26
AGAIN = "run the query again, and save its whole result as it is"


class Made(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Provenance of a result, written by the statement."""

    query: int
    alpha: str
    score: dict[str, Any] | None
    classes: int | tuple[str, ...] | None
    precision: str | None

    def function(self) -> AnyScore | None:
        """The score, if a column of scores does not leave it open."""
        if self.score is None:
            return None
        return registry.find(str(self.score.get("name")), AnyScore)()


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A checked result."""

    made: Made
    rows: int
    values: list[float]

    def summary(self, *, site: str | None = None, score: AnyScore | None = None, **about: Any) -> RankSummary:
        """Make the summary; `score` says how a column of scores was made, and the rest is as in `summarize`."""
        known = self.made.function()
        if score is not None and known is not None and score != known:
            raise InputError(f"the query is for the score {known.name}, not {score.name}; leave the score out")
        if score is not None and score.lower_share is not None:
            raise InputError(f"the query has no ranks for the lower end of {score.name}; summarise the rows themselves")
        alpha = as_alpha(self.made.alpha)
        said: dict[str, Any] = {"classes": self.made.classes, "precision": self.made.precision, "score": known or score}
        made = provenance_of(alpha=alpha, **said, **about)
        sites = () if site is None else (as_name(site, "site"),)
        return RankSummary.scheduled(
            np.array(self.values), (POINTS, alpha), sizes=(self.rows,), sites=sites, provenance=made
        )


def read_result(data: bytes) -> Result:
    r"""Read the CSV of a result, which may have been altered on its way.

    >>> read_result(b"a,b\n1,2\n")
    Traceback (most recent call last):
    fedconformal.errors.InputError: is not the result of a query for a summary: it has no column fc_rank
    """
    lines = _lines(data)
    if len({(one["fc_rows"], one["fc_refused"], one["fc_about"]) for one in lines}) > 1:
        raise InputError(f"its lines are not of one query; {AGAIN}")
    made = _made(lines[0]["fc_about"])
    rows, refused = (_whole(lines[0][name], name, 2) for name in ("fc_rows", "fc_refused"))
    if refused:
        raise InputError(
            f"{refused} of {rows} rows cannot be scored: a number is missing, not finite or no probability, "
            "or a label is no class; correct these rows, and run the query again"
        )
    if not rows:
        raise InputError("the table of the query has no rows; a site needs at least one calibration row")
    if rows > MAX_SIZE:
        raise InputError(f"the table of the query has {rows} rows, more than {MAX_SIZE}")
    ranks = [_whole(one["fc_rank"], "fc_rank", line) for line, one in enumerate(lines, 2)]
    if ranks != scheduled_ranks(rows, POINTS, as_alpha(made.alpha)).tolist():
        raise InputError(f"its ranks are not those of {rows} rows at alpha {made.alpha}; {AGAIN}")
    values = [_score(one["fc_score"], one["fc_digits"], line) for line, one in enumerate(lines, 2)]
    if any(one > other for one, other in pairwise(values)):
        raise InputError(f"its scores are not in ascending order; {AGAIN}")
    return Result(made=made, rows=rows, values=values)


def _lines(data: bytes) -> list[dict[str, str]]:
    if len(data) > MOST_BYTES:
        raise InputError(f"has {len(data)} bytes, more than the result of a query can have")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("is not text in UTF-8; save the result as CSV in UTF-8") from None
    head = text.partition("\n")[0]
    separator = max(SEPARATORS, key=head.count)
    try:
        first, *rest = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)) or [[]]
    except csv.Error as error:
        raise InputError(f"cannot be read as CSV ({error}); {AGAIN}") from None
    names = [name.strip().lower() for name in first]
    if lacking := next((name for name in COLUMNS if name not in names), None):
        raise InputError(f"is not the result of a query for a summary: it has no column {lacking}")
    found = [dict(zip(names, map(str.strip, row), strict=False)) for row in rest if row]
    if not found or any(len(row) != len(first) for row in rest if row):
        raise InputError(f"has no lines, or lines that are cut off; {AGAIN}")
    return found


def _made(text: str) -> Made:
    try:
        made = msgspec.json.decode(text, type=Made)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InputError(f"its fc_about cannot be read ({abbreviate(str(error))}); {AGAIN}") from None
    if made.query != 1:
        raise InputError(f"it is of a query of version {made.query}, not 1; update fedconformal")
    return made


def _whole(text: str, name: str, line: int) -> int:
    number, _, rest = text.partition(".")
    if not number.isascii() or not number.isdecimal() or len(number) > 15 or rest.strip("0"):
        raise InputError(f"line {line}: {name} is {abbreviate(repr(text))}, expected a whole number; {AGAIN}")
    return int(number)


def _score(text: str, digits: str, line: int) -> float:
    """Read a score; a program that opened the file may have cut off its last digits."""
    length = _whole(digits, "fc_digits", line)
    if not length:
        raise InputError(
            f"line {line}: the database wrote {abbreviate(text)}, which is not its score to the last digit; "
            "let it write all digits (PostgreSQL: SET extra_float_digits = 1)"
        )
    if length != len(text):
        raise InputError(
            f"line {line}: fc_score is {abbreviate(text)}, and the database wrote {length} characters; {AGAIN}"
        )
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"line {line}: fc_score is {abbreviate(repr(text))}, expected a finite number")
    return value + 0.0  # -0.0 becomes 0.0
