"""SQL statement that computes a rank summary in the database: about a hundred rows, whatever the size of the table.

It runs on DuckDB and PostgreSQL, and on Spark as sqlglot translates it. The statement contains the levels of the ranks,
counts the rows and selects the score of each rank. If any rows cannot be scored, the result is only their count. All
names and texts of users are quoted, and text that cannot be quoted is refused. The summary of a result has the same
bytes as the summary of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fedconformal._base import registry
from fedconformal._base.arrays import LARGEST, SUM_TOLERANCE, as_alpha
from fedconformal._base.names import abbreviate, as_name, escape_control
from fedconformal.errors import InputError, prefix_errors
from fedconformal.scores import LAC, AnyScore, Residual
from fedconformal.summaries.format import MAX_SIZE
from fedconformal.summaries.provenance import Classes, as_classes
from fedconformal.summaries.ranks import LEVEL, POINTS, RankSummary, levels_of, scheduled_ranks
from fedconformal.summaries.rows import PRECISION
from fedconformal.summaries.summary import provenance_of
from fedconformal.tables import read_table

TINY = 2.0**-150
"""Largest number that becomes zero in float32."""
TESTED = "For DuckDB (tested on 2.0), PostgreSQL (15) and, translated by sqlglot, Spark (4.3)"
COLUMNS = ("fc_rank", "fc_score", "fc_digits", "fc_rows", "fc_refused", "fc_about")
AGAIN = "run the query again, and save its whole result as it is"


def quote_name(name: str) -> str:
    """Quote an identifier."""
    if not name or not name.isprintable() or "\\" in name:
        raise InputError(f"the name {abbreviate(repr(name))} cannot be quoted; give it another one")
    return '"' + name.replace('"', '""') + '"'


def quote_table(name: str) -> str:
    """Quote the name of a table, part by part, or of a file for DuckDB."""
    parts = [name] if name.lower().endswith((".parquet", ".csv")) else name.split(".")
    return ".".join(map(quote_name, parts))


def quote_text(text: str) -> str:
    """Quote a string literal."""
    if text != escape_control(text):
        raise InputError(f"the text {abbreviate(repr(text))} cannot be quoted")
    return "'" + text.replace("'", "''") + "'"


def as_double(column: str) -> str:
    """Cast a column to float64."""
    return f"CAST({quote_name(column)} AS DOUBLE PRECISION)"


def as_float32(value: str) -> str:
    """Round a probability to float32 and back; NULL if invalid. PostgreSQL cannot round to zero, hence `TINY`."""
    normal = f"WHEN {value} > {TINY!r} AND {value} <= 2 THEN CAST(CAST({value} AS REAL) AS DOUBLE PRECISION)"
    return f"CASE {normal} WHEN {value} >= 0 AND {value} <= {TINY!r} THEN 0 END"


@dataclass(frozen=True)
class Scored:
    """SQL that scores the rows of fc_table: a table fc_scored with the score s, NULL for invalid rows."""

    tables: str
    function: AnyScore | None = None
    """The score; None if a column holds scores of any kind."""
    classes: Classes | None = None


def lac_of(probabilities: Sequence[str], label: str) -> Scored:
    """Score by one minus the probability of the label; classes are named by their columns unless these are 0, 1, ..."""
    count = range(len(probabilities))
    numbered = list(probabilities) == [str(k) for k in count]
    known = as_classes(len(count) if numbered else list(probabilities))
    truth = quote_name(label) if numbered else f"TRIM(CAST({quote_name(label)} AS VARCHAR))"
    values = map(str, count) if isinstance(known, int) else map(quote_text, known)
    doubles = ", ".join(f"{as_double(name)} AS d{k}" for k, name in enumerate(probabilities))
    floats = ",\n  ".join(f"{as_float32(f'd{k}')} AS p{k}" for k in count)
    own = " ".join(f"WHEN y = {value} THEN p{k}" for k, value in enumerate(values))
    total = " + ".join(f"p{k}" for k in count)  # NULL if one of them is
    tables = f"""fc_doubles AS (SELECT {truth} AS y, {doubles} FROM fc_table),
fc_floats AS (SELECT y, {floats} FROM fc_doubles),
fc_own AS (SELECT CASE {own} END AS own, {total} AS total FROM fc_floats),
fc_scored AS (SELECT CASE WHEN own IS NOT NULL AND ABS(total - 1) <= {SUM_TOLERANCE!r} THEN 1 - own END AS s
  FROM fc_own)"""
    return Scored(tables, LAC(), known)


def residual_of(prediction: str, label: str) -> Scored:
    """Score by the absolute error of a prediction."""
    return Scored(_finite(f"ABS({as_double(label)} - {as_double(prediction)})"), Residual())


def column_of(column: str) -> Scored:
    """Read precomputed scores from a column."""
    return Scored(_finite(as_double(column)))


def _finite(value: str) -> str:
    # NaN is above all numbers, or comparisons with it are false.
    return f"""fc_values AS (SELECT {value} AS v FROM fc_table),
fc_scored AS (SELECT CASE WHEN v BETWEEN {-LARGEST!r} AND {LARGEST!r} THEN v END AS s FROM fc_values)"""


class QueryTerms(msgspec.Struct, forbid_unknown_fields=True, frozen=True, tag=1, tag_field="query"):
    """Provenance of a result, contained in the statement and repeated in every line of the result."""

    alpha: str
    score: str | None
    classes: int | tuple[str, ...] | None


@dataclass(frozen=True)
class QueryResult:
    """A validated result."""

    terms: QueryTerms
    rows: int
    values: list[float]

    def summary(self, *, site: str | None = None, score: AnyScore | None = None, **about: Any) -> RankSummary:
        """Return the summary; `score` names the score of a column of scores, and `about` is as in `summarize`."""
        known = None if self.terms.score is None else registry.find(self.terms.score, AnyScore)()
        if score is not None and known is not None and score != known:
            raise InputError(f"the query is for the score {known.name}, not {score.name}; leave the score out")
        if score is not None and score.lower_share is not None:
            raise InputError(f"the query has no ranks for the lower end of {score.name}; summarise the rows themselves")
        alpha, classes = as_alpha(self.terms.alpha), self.terms.classes
        precision = None if classes is None else PRECISION
        origin = provenance_of(alpha=alpha, classes=classes, precision=precision, score=known or score, **about)
        sites = () if site is None else (as_name(site, "site"),)
        return RankSummary.scheduled(
            np.array(self.values), (POINTS, alpha), sizes=(self.rows,), sites=sites, provenance=origin
        )


def statement(table: str, rows: Scored, alpha: object) -> str:
    """Return the statement."""
    exact = as_alpha(alpha)
    about = QueryTerms(repr(float(exact)), None if rows.function is None else rows.function.name, rows.classes)
    levels = ",\n    ".join(f"({i}, {level})" for i, level in enumerate(levels_of(POINTS, exact).tolist(), 1))
    divided = f"(CAST(level AS BIGINT) * good + {LEVEL - 1}) >> {LEVEL.bit_length() - 1}"  # rounding down
    return f"""-- The scores at about {POINTS} ranks, for a summary. {TESTED}. Save the result as CSV with its header.
WITH fc_table AS (SELECT * FROM {quote_table(table)}),
{rows.tables},
fc_totals AS (SELECT COUNT(*) AS n, COUNT(s) AS good FROM fc_scored),
fc_levels AS (SELECT i, level FROM (VALUES
    {levels}) AS levels(i, level)),
fc_ranks AS (SELECT DISTINCT CASE WHEN good <= {POINTS} THEN i ELSE GREATEST(1, {divided}) END AS r
  FROM fc_levels CROSS JOIN fc_totals WHERE n = good AND (good > {POINTS} OR i <= good)),
fc_numbered AS (SELECT s, ROW_NUMBER() OVER (ORDER BY s) AS r FROM fc_scored WHERE s IS NOT NULL),
fc_found AS (SELECT fc_ranks.r, s, CAST(s AS VARCHAR) AS digits
  FROM fc_ranks JOIN fc_numbered ON fc_ranks.r = fc_numbered.r)
SELECT r AS fc_rank, digits AS fc_score,
  CASE WHEN CAST(digits AS DOUBLE PRECISION) = s THEN LENGTH(digits) ELSE 0 END AS fc_digits,
  n AS fc_rows, n - good AS fc_refused,
  {quote_text(msgspec.json.encode(about).decode())} AS fc_about
FROM fc_totals LEFT JOIN fc_found ON n = good
ORDER BY 1"""


def read_result(path: Path) -> QueryResult:
    """Read and validate the table of a result, which may have been altered."""
    table = read_table(path)
    names = [name.lower() for name in table.names or ()]
    if lacking := next((name for name in COLUMNS if name not in names), None):
        raise InputError(f"is not the result of a query for a summary: it has no column {lacking}", where=path)
    ranks, scores, digits, counts, refusals, about = (table.cells.texts(names.index(name)) for name in COLUMNS)
    with prefix_errors(path):
        if len({*zip(counts, refusals, about, strict=True)}) > 1:
            raise InputError(f"its lines are not of one query; {AGAIN}")
        try:
            terms = msgspec.json.decode(about[0], type=QueryTerms)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            raise InputError(f"its fc_about cannot be read ({abbreviate(str(error))}); {AGAIN}") from None
        rows, refused = _whole(counts[0], "fc_rows", 2), _whole(refusals[0], "fc_refused", 2)
        if refused:
            raise InputError(
                f"{refused} of {rows} rows cannot be scored: a number is missing, not finite or no probability, "
                "or a label is no class; correct these rows, and run the query again"
            )
        if not 1 <= rows <= MAX_SIZE:
            raise InputError(f"the table of the query has {rows} rows, expected 1 to {MAX_SIZE}")
        schedule = scheduled_ranks(rows, POINTS, as_alpha(terms.alpha)).tolist()
        if [_whole(rank, "fc_rank", line) for line, rank in enumerate(ranks, 2)] != schedule:
            raise InputError(f"its ranks are not those of {rows} rows at alpha {terms.alpha}; {AGAIN}")
        values = [_score(*cells, line) for line, cells in enumerate(zip(scores, digits, strict=True), 2)]
        if any(value > following for value, following in pairwise(values)):
            raise InputError(f"its scores are not in ascending order; {AGAIN}")
    return QueryResult(terms, rows, values)


def _whole(text: str, name: str, line: int) -> int:
    number, _, rest = text.partition(".")
    if not number.isascii() or not number.isdecimal() or len(number) > 15 or rest.strip("0"):
        raise InputError(f"line {line}: {name} is {abbreviate(repr(text))}, expected a whole number; {AGAIN}")
    return int(number)


def _score(text: str, digits: str, line: int) -> float:
    """Read a score; refuse it if another program has truncated its digits."""
    length = _whole(digits, "fc_digits", line)
    if not length:
        raise InputError(
            f"line {line}: the database wrote {abbreviate(text)}, which is not its score to the last digit; "
            "let it write all digits (PostgreSQL: SET extra_float_digits = 1)"
        )
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if length != len(text) or not math.isfinite(value):
        raise InputError(f"line {line}: fc_score is {abbreviate(repr(text))}, expected {length} characters; {AGAIN}")
    return value + 0.0  # -0.0 becomes 0.0
