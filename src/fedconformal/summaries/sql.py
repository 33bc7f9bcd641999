"""One SQL statement that finds a summary's ranks where the scores are: about a hundred rows, whatever the table holds.

The ranks that a site sends follow from the number of its rows and from alpha: the statement holds the levels, counts
the rows, and takes the score of each rank. Rows that cannot be scored are counted, never left out in silence: if
there is one, the answer is that count and nothing else. `sql_result.py` reads the result. Names and texts come from a
user: each is quoted as its database reads it, and text that cannot be quoted is refused.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from fedconformal._base.arrays import SUM_TOLERANCE, as_alpha
from fedconformal._base.names import abbreviate, escape_control, join_names
from fedconformal.errors import InputError
from fedconformal.scores import LAC, AnyScore, Residual
from fedconformal.summaries.provenance import Classes, as_classes
from fedconformal.summaries.ranks import LEVEL, POINTS, levels_of
from fedconformal.summaries.rows import PRECISION

TINY = 2.0**-150
"""What is at most this becomes zero in float32."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """SQL of one database: types, quoting, rounding and integer division."""

    name: str
    program: str
    double: str
    text: str
    rounded: str
    """Rounds to float32; PostgreSQL fails where that gives zero, so it gets no such numbers."""
    halved: str
    """Divides whole numbers that are not negative, rounding down."""
    tick: str = '"'
    """Quote around a name."""
    escaped: bool = False
    """Whether texts and names are escaped with backslashes, and not by doubling the quote."""
    parted: bool = False
    """Whether rows are numbered in parts: these databases sort anything else on one machine."""
    tested: str
    """Release on which the query was run."""

    def named(self, name: str) -> str:
        """Quote a name.

        >>> DIALECTS["duckdb"].named('a"b')
        '"a""b"'
        """
        if not name or not name.isprintable() or "\\" in name or (self.escaped and "`" in name):
            raise InputError(
                f"the name {abbreviate(repr(name))} cannot be quoted for {self.program}; give it another one"
            )
        return f"{self.tick}{name.replace(self.tick, 2 * self.tick)}{self.tick}"

    def table(self, name: str) -> str:
        """Quote the name of a table, part by part; for DuckDB it may be a file."""
        if self.name == "duckdb" and name.lower().endswith((".parquet", ".csv")):
            return self.named(name)
        return ".".join(self.named(part) for part in name.split("."))

    def quoted(self, text: str) -> str:
        r"""Quote a text.

        >>> print(DIALECTS["postgresql"].quoted("it's"), DIALECTS["spark"].quoted("it's"))
        'it''s' 'it\'s'
        """
        if text != escape_control(text):
            raise InputError(f"the text {abbreviate(repr(text))} cannot be quoted for {self.program}")
        if self.escaped:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"

    def class_text(self, name: str) -> str:
        """Quote the name of a class; a backslash may escape the closing quote, which is a setting of some databases."""
        if "\\" in name:
            raise InputError(
                f"the class {abbreviate(repr(name))} has a backslash, which databases read in two ways; rename it"
            )
        return self.quoted(name)

    def as_double(self, column: str) -> str:
        """Read a column as float64."""
        return f"CAST({self.named(column)} AS {self.double})"

    def as_float32(self, value: str) -> str:
        """Round a probability to float32, as a float64 again; NULL for what can be none."""
        real = self.rounded.format(value)
        normal = f"WHEN {value} > {TINY!r} AND {value} <= 2 THEN CAST({real} AS {self.double})"
        return f"CASE {normal} WHEN {value} >= 0 AND {value} <= {TINY!r} THEN 0 END"


DIALECTS = {
    one.name: one
    for one in (
        Dialect(
            name="duckdb",
            program="DuckDB",
            double="DOUBLE",
            text="VARCHAR",
            rounded="CAST({} AS REAL)",
            halved="({}) // {}",
            tested="2.0",
        ),
        Dialect(
            name="postgresql",
            program="PostgreSQL",
            double="double precision",
            text="text",
            rounded="CAST({} AS real)",
            halved="({}) / {}",
            tested="15",
        ),
        Dialect(
            name="spark",
            program="Spark SQL",
            double="DOUBLE",
            text="STRING",
            rounded="CAST({} AS FLOAT)",
            halved="({}) div {}",
            tick="`",
            escaped=True,
            parted=True,
            tested="4.3",
        ),
    )
}

LARGEST = 1.7976931348623157e308
BUCKETS = 2048
"""Twice as many parts are numbered by themselves where one machine cannot sort all scores."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """SQL expressions that score a row of a table."""

    steps: tuple[dict[str, str], ...]
    """Columns by their names in the statement; a step may use those before it."""
    sound: str
    """Condition of a row that can be scored."""
    score: str
    function: AnyScore | None = None
    """The score; None if a column holds scores of any kind."""
    classes: Classes | None = None


def lac_of(dialect: Dialect, probabilities: Sequence[str], label: str, classes: Sequence[str] | None = None) -> Scored:
    """Score by one minus the probability of the label; classes are called as their columns unless they are named.

    Columns that are called 0, 1, 2 and so on have no names, and their labels are numbers.
    """
    if len(probabilities) < 2:
        raise InputError("a probability for each class is needed, in a column each; name two columns or more")
    if len(set(probabilities)) < len(probabilities):
        raise InputError(f"the columns {join_names(probabilities)} are not all different; name each once")
    numbered = classes is None and list(probabilities) == [str(k) for k in range(len(probabilities))]
    known = as_classes(len(probabilities) if numbered else list(probabilities if classes is None else classes))
    if not isinstance(known, int) and len(known) != len(probabilities):
        raise InputError(
            f"there are {len(known)} classes and {len(probabilities)} columns; give a column for each class"
        )
    doubles = {f"d{k}": dialect.as_double(name) for k, name in enumerate(probabilities)}
    truth = dialect.named(label) if isinstance(known, int) else f"TRIM(CAST({dialect.named(label)} AS {dialect.text}))"
    values = [str(k) for k in range(known)] if isinstance(known, int) else [dialect.class_text(name) for name in known]
    own = " ".join(f"WHEN y = {value} THEN p{k}" for k, value in enumerate(values))
    rounded = {f"p{k}": dialect.as_float32(f"d{k}") for k in range(len(doubles))}
    total = " + ".join(rounded)  # NULL if one of them is
    return Scored(
        steps=({"y": truth, **doubles}, {"y": "y", **rounded}, {"own": f"CASE {own} END", "total": total}),
        sound=f"own IS NOT NULL AND ABS(total - 1) <= {SUM_TOLERANCE!r}",
        score="1 - own",
        function=LAC(),
        classes=known,
    )


def residual_of(dialect: Dialect, prediction: str, label: str) -> Scored:
    """Score by the absolute error of a prediction."""
    value = f"ABS({dialect.as_double(label)} - {dialect.as_double(prediction)})"
    return Scored(steps=({"s": value},), sound=_finite("s"), score="s", function=Residual())


def column_of(dialect: Dialect, column: str) -> Scored:
    """Take scores from a column."""
    return Scored(steps=({"s": dialect.as_double(column)},), sound=_finite("s"), score="s")


def _finite(value: str) -> str:
    return f"{value} BETWEEN {-LARGEST!r} AND {LARGEST!r}"  # NaN is above all numbers, or nothing holds for it


def described(rows: Scored, alpha: Fraction) -> str:
    """Describe the rows in JSON, which the result returns."""
    function = rows.function
    score = None if function is None else function.to_dict()
    precision = PRECISION if rows.classes is not None else None
    said = {"query": 1, "alpha": repr(float(alpha)), "score": score, "classes": rows.classes, "precision": precision}
    return json.dumps(said, ensure_ascii=False)


def statement(dialect: Dialect, table: str, rows: Scored, alpha: object) -> str:
    """Write the statement.

    >>> duckdb = DIALECTS["duckdb"]
    >>> print(statement(duckdb, "clinic.scans", column_of(duckdb, "score"), 0.1).splitlines()[-1])
    ORDER BY 1
    """
    exact = as_alpha(alpha)
    product = f"CAST(level AS BIGINT) * good + {LEVEL - 1}"
    rank = f"CASE WHEN good <= {POINTS} THEN i ELSE GREATEST(1, {dialect.halved.format(product, LEVEL)}) END"
    wanted = f"WHERE n = good AND (good > {POINTS} OR i <= good)"
    ends = ", MIN(s) AS low, MAX(s) AS high" if dialect.parted else ""
    parts = [
        *_read(dialect.table(table), rows),
        f"fc_totals AS (SELECT COUNT(*) AS n, COUNT(s) AS good{ends} FROM fc_scored)",
        f"fc_levels AS ({_levels(exact)})",
        f"fc_ranks AS (SELECT DISTINCT {rank} AS r\n  FROM fc_levels CROSS JOIN fc_totals {wanted})",
        *_numbered(dialect),
        "fc_found AS (SELECT fc_ranks.r, s FROM fc_ranks JOIN fc_numbered ON fc_ranks.r = fc_numbered.r)",
    ]
    written = f"CAST(s AS {dialect.text})"
    digits = f"CASE WHEN CAST({written} AS {dialect.double}) = s THEN LENGTH({written}) ELSE 0 END"
    return (
        f"-- The scores at about {POINTS} ranks, for a summary. Tested on {dialect.program} {dialect.tested}. "
        "Save the result as CSV with its header.\nWITH " + ",\n".join(parts) + "\n"
        f"SELECT r AS fc_rank, {written} AS fc_score,\n  {digits} AS fc_digits,\n"
        "  n AS fc_rows, n - good AS fc_refused,\n"
        f"  {dialect.quoted(described(rows, exact))} AS fc_about\n"
        "FROM fc_totals LEFT JOIN fc_found ON n = good\n"
        "ORDER BY 1"
    )


def _levels(alpha: Fraction) -> str:
    """List the levels with their numbers, as a table."""
    pairs = [f"({i}, {level})" for i, level in enumerate(levels_of(POINTS, alpha).tolist(), 1)]
    lines = ",\n    ".join(", ".join(pairs[k : k + 6]) for k in range(0, len(pairs), 6))
    return f"SELECT i, level FROM (VALUES\n    {lines}) AS levels(i, level)"


def _read(table: str, rows: Scored) -> list[str]:
    """Read the columns step by step, then score the valid rows."""
    parts: list[str] = []
    for number, columns in enumerate(rows.steps):
        made = ",\n  ".join(f"{value} AS {name}" for name, value in columns.items())
        parts.append(f"fc_read_{number} AS (SELECT {made}\n  FROM {f'fc_read_{number - 1}' if number else table})")
    last = f"fc_read_{len(rows.steps) - 1}"
    return [*parts, f"fc_scored AS (SELECT CASE WHEN {rows.sound}\n  THEN {rows.score} END AS s FROM {last})"]


def _numbered(dialect: Dialect) -> list[str]:
    """Number the scores in ascending order; in parts, where one machine cannot sort them all.

    A part is a function of the score that never falls, whatever is rounded: each step is one IEEE operation. It is
    fine near both ends, where scores crowd. So parts only share out the work.
    """
    if not dialect.parted:
        return ["fc_numbered AS (SELECT s, ROW_NUMBER() OVER (ORDER BY s) AS r FROM fc_scored WHERE s IS NOT NULL)"]
    part = f"FLOOR({BUCKETS} * SQRT(SQRT(t))) + FLOOR({BUCKETS} * (1 - SQRT(SQRT(1 - t))))"
    wide, place = "high / 4 - low / 4", "s / 4 - low / 4"  # a quarter, so that differences stay finite
    placed = f"CASE WHEN {wide} > 0 THEN ({place}) / ({wide}) ELSE 0 END"
    number = "k + ROW_NUMBER() OVER (PARTITION BY fc_parted.part ORDER BY s)"
    joined = "fc_parted JOIN fc_before ON fc_parted.part = fc_before.part"
    return [
        f"fc_placed AS (SELECT s, {placed} AS t\n  FROM fc_scored CROSS JOIN fc_totals WHERE s IS NOT NULL)",
        f"fc_parted AS (SELECT s, CAST({part} AS BIGINT) AS part FROM fc_placed)",
        "fc_counted AS (SELECT part, COUNT(*) AS c FROM fc_parted GROUP BY part)",
        "fc_before AS (SELECT part, SUM(c) OVER (ORDER BY part) - c AS k FROM fc_counted)",
        f"fc_numbered AS (SELECT s, {number} AS r\n  FROM {joined})",
    ]
