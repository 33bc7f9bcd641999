"""Normal form of site and model names, and values formatted for messages."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from fedconformal.errors import InputError

MAX_NAME = 64
MAX_SHOWN = 60


def abbreviate(value: Any, most: int = MAX_SHOWN) -> str:
    """Format a value in one line of at most `most` characters."""
    try:
        text = " ".join((value if isinstance(value, str) else repr(value)).split())
    except ValueError:  # an integer with thousands of digits
        text = "too long to show"
    text = escape_control(text[: most + 1])
    return text if len(text) <= most else f"{text[:most]}..."


def escape_control(text: str) -> str:
    """Escape characters that are not printable, such as terminal control sequences."""
    return text if text.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def plural(number: int, noun: str) -> str:
    """Format a count with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join_names(names: Sequence[str], most: int = 5) -> str:
    """Join the first names with commas and count the others."""
    return ", ".join(map(abbreviate, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def first_duplicate(names: Iterable[str]) -> str | None:
    """Return the first name that occurs twice, if any."""
    return next((name for name, count in Counter(names).items() if count > 1), None)


def as_name(text: Any, what: str) -> str:
    """Validate a new name of a site or a model, and return its normal form."""
    return check_name(name_key(text) if isinstance(text, str) else text, what)


def check_name(text: Any, what: str) -> str:
    """Validate a name from a file, without normalisation: printable, one line, 1 to 64 characters."""
    if not isinstance(text, str) or not text or len(text) > MAX_NAME or not text.isprintable():
        raise InputError(f"{what} is {text!r:.80}, expected 1 to {MAX_NAME} printable characters")
    return str(text)  # converts numpy strings


def are_names(names: Sequence[str]) -> bool:
    """Whether all texts, of 1 to 64 characters each, are names in normal form."""
    if not names:
        return True
    joined = "\n".join(names)
    return "".join(names).isprintable() and [*names] == name_key(joined).split("\n") == [*map(str.strip, names)]


def as_line(text: Any, what: str, most: int) -> str:
    """Validate free text: printable, one line, up to `most` characters."""
    if not isinstance(text, str) or not text.isprintable() or not 0 < len(text) <= most:
        raise InputError(f"{what} is {abbreviate(text)}, expected a line of up to {most} characters")
    return text


def name_key(name: str) -> str:
    """Return the normal form of a name: stripped, Unicode NFKC; distinct letters that look alike stay distinct."""
    return unicodedata.normalize("NFKC", name).strip()
