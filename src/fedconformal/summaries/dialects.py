"""How four databases write the same query: types, names in quotes, texts in quotes, and division.

Names and texts come from a user and go into a statement: each is quoted as its database reads it, and what cannot be
quoted is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedconformal._base.names import harmless, shown
from fedconformal.errors import InputError

TINY = 2.0**-150
"""What is at most this becomes zero in float32."""

FROUND = "CREATE TEMP FUNCTION fc_float32(x FLOAT64) RETURNS FLOAT64 LANGUAGE js AS 'return Math.fround(x);';\n"
"""BigQuery has no float32."""


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One database.

    Attributes:
        name: as it is chosen.
        program: as it calls itself.
        double: the type of a float64.
        text: the type of a text.
        whole: the type of an integer of 64 bits.
        rounded: rounds a number to float32; PostgreSQL fails where that gives zero, so it gets no such numbers.
        halved: divides whole numbers that are not negative, rounding down.
        pairs: makes a table of pairs (i, level).
        tick: what is around a name.
        escaped: whether texts and names are written with backslashes, and not by doubling the quote.
        parted: whether rows are numbered in parts; these databases sort what is not parted on one machine.
        before: what comes before the query.
        tested: which release the query was run on; empty if it never was.
    """

    name: str
    program: str
    double: str
    text: str
    whole: str = "BIGINT"
    rounded: str
    halved: str
    pairs: str = "SELECT i, level FROM (VALUES\n    {}) AS levels(i, level)"
    tick: str = '"'
    escaped: bool = False
    parted: bool = False
    before: str = ""
    tested: str = ""

    def named(self, name: str) -> str:
        """Quote a name.

        >>> DIALECTS["duckdb"].named('a"b')
        '"a""b"'
        """
        if not name or not name.isprintable() or "\\" in name or (self.escaped and "`" in name):
            raise InputError(f"the name {shown(repr(name))} cannot be quoted for {self.program}; give it another one")
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
        if text != harmless(text):
            raise InputError(f"the text {shown(repr(text))} cannot be quoted for {self.program}")
        if self.escaped:
            return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
        return "'" + text.replace("'", "''") + "'"

    def class_text(self, name: str) -> str:
        """Quote the name of a class; a backslash may escape the closing quote, which is a setting of some databases."""
        if "\\" in name:
            raise InputError(
                f"the class {shown(repr(name))} has a backslash, which databases read in two ways; rename it"
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
        Dialect(
            name="bigquery",
            program="BigQuery",
            double="FLOAT64",
            text="STRING",
            whole="INT64",
            rounded="fc_float32({})",
            halved="DIV({}, {})",
            pairs="SELECT i, level FROM UNNEST(ARRAY<STRUCT<i INT64, level INT64>>[\n    {}])",
            tick="`",
            escaped=True,
            parted=True,
            before=FROUND,
        ),
    )
}
