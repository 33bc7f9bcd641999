"""What separates cells: a comma, a semicolon or a tab, or nothing where there is one column.

A reading is possible if every line has as many cells as the others. Of several, one is taken only if it is the only
one without a separator inside a cell, a decimal comma aside: 0,5;0,5 has two cells, as 5;0 is no cell. Else the table
is refused: nothing is guessed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fedconformal.errors import InputError

COMMA, SEMICOLON, TAB = ",", ";", "\t"
SEPARATORS = {COMMA: "commas", SEMICOLON: "semicolons", TAB: "tabs"}
MOST_LINES = 1000
QUOTED = re.compile(r'"(?:[^"]|"")*+"')
SEP_LINE = re.compile(r'"?sep=([,;\t])"?[,; \t]*\n', re.IGNORECASE)
POINT = re.compile(r"[-+]?+(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][-+]?+[0-9]++)?+")
DECIMAL_COMMA = re.compile(r"[-+]?+(?:[0-9]++,[0-9]*+|,[0-9]++)(?:[eE][-+]?+[0-9]++)?+")


class Layout(NamedTuple):
    """How lines are cut into cells; `short` if line 1 has one cell less, as R writes it above row names."""

    separator: str
    said: str
    short: bool = False


def layout_of(text: str) -> Layout:
    r"""Find the layout from the first lines of a file.

    >>> layout_of("a;b\n0,5;0,5\n").said
    'semicolons'
    """
    lines = _lines(text)
    readings = [found for separator in SEPARATORS if (found := _reading(lines, separator))]
    if _one_column(lines):
        readings.append(Layout(SEMICOLON, "one column"))
    if len(readings) > 1:
        readings = [one for one in readings if one.said == "one column" or _clean(lines, one.separator)] or readings
    if len(readings) > 1:
        raise InputError(_ambiguous(readings))
    if readings:
        return readings[0]
    likely = max(SEPARATORS, key=lines[0].count) if lines else COMMA
    return Layout(likely, SEPARATORS[likely])


def _lines(text: str) -> list[str]:
    """Return the first lines, each quoted cell as one letter."""
    start, quote, _ = QUOTED.sub("q", text).partition('"')  # one that is never closed cuts its line off
    lines = start.split("\n")
    lines = lines[:-1] if quote and len(lines) > 1 else lines
    return [line for line in lines[:MOST_LINES] if line.strip(",; \t")]


def _reading(lines: list[str], separator: str) -> Layout | None:
    first, *others = [line.count(separator) for line in lines] or [0]
    counts = set(others)
    if first and counts <= {first}:
        return Layout(separator, SEPARATORS[separator])
    if separator != COMMA and counts == {first + 1} and not any(map(is_number, lines[0].split(separator))):
        return Layout(separator, SEPARATORS[separator], short=True)
    return None


def _one_column(lines: list[str]) -> bool:
    if len({line.lstrip(" -+").startswith(COMMA) for line in lines if COMMA in line}) > 1:
        return False  # a program that writes ,5 does not write 0,5 too; but pandas writes ,0 above 0,5
    return all(
        SEMICOLON not in line
        and TAB not in line.strip()
        and (COMMA not in line or DECIMAL_COMMA.fullmatch(line.strip()))
        for line in lines
    )


def _clean(lines: list[str], separator: str) -> bool:
    """Whether no cell holds another separator, but for decimal commas."""
    for line in lines:
        for cell in line.split(separator):
            if any(other in cell for other in SEPARATORS) and not DECIMAL_COMMA.fullmatch(cell.strip()):
                return False
    return True


def _ambiguous(readings: list[Layout]) -> str:
    if readings[-1].said == "one column":
        return (
            "could be two columns of whole numbers or one column with decimal commas; "
            "write a header with the names of the columns above, or decimal points"
        )
    ways = " or ".join(one.said for one in readings)
    return f"could be separated by {ways}; write a first line such as sep=; above, or put cells with text in quotes"


def is_number(cell: str) -> bool:
    """Whether a cell is a number, with a decimal point or a decimal comma.

    >>> is_number(" 5e-3 "), is_number("0,5"), is_number("1,234.5"), is_number("nan")
    (True, True, False, False)
    """
    cell = cell.strip()
    return bool(POINT.fullmatch(cell) or DECIMAL_COMMA.fullmatch(cell))


FORMULA = ("=", "+", "-", "@")
"""How a cell begins that a spreadsheet runs."""


def guarded(cell: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula; numbers stay.

    >>> guarded("=1+1"), guarded("-0.5"), guarded("p7")
    ("'=1+1", '-0.5', 'p7')
    """
    return f"'{cell}" if _is_formula(cell) and not is_number(cell) else cell


def unguarded(cell: str) -> str:
    """Undo `guarded`: an apostrophe before a formula is not part of the text.

    >>> [unguarded(guarded(text)) for text in ("=1+1", "'=1+1", "'s-Hertogenbosch")]
    ['=1+1', "'=1+1", "'s-Hertogenbosch"]
    """
    return cell[1:] if cell[:1] == "'" and _is_formula(cell) else cell


def _is_formula(cell: str) -> bool:
    return cell.lstrip("'").lstrip()[:1] in FORMULA
