"""What is printed, and where: results to stdout, everything else to stderr.

Names, labels and messages come from other people's files. They are shown as they are: no markup is read from them, and
no command to the terminal passes.

Lines are written as they are. Only bars and tables are drawn by rich, which takes longer to import than most commands
take for their work. Bars are for a terminal, whatever FORCE_COLOR says: a log has no use for them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from json import dumps
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from fedconformal._base.names import escape_control

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

logger = logging.getLogger("fedconformal")

T = TypeVar("T")


class Harmless(logging.Formatter):
    """Shows the level and the message, in one line."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Write commands to the terminal as their numbers."""
        return escape_control(super().format(record))


LOGGED = Harmless()


def write(text: str, *, err: bool = False) -> None:
    """Write text as it is to stdout, or to stderr, and at once."""
    stream = sys.stderr if err else sys.stdout
    stream.write(text)
    stream.flush()


def print_json(result: dict[str, Any]) -> None:
    """Print exactly one object."""
    write(msgspec.json.format(dumps(result, allow_nan=False), indent=1) + "\n")


def print_result(facts: dict[str, Any], *lines: str, json: bool) -> None:
    """Print the result: its facts as JSON, or these lines."""
    if json:
        print_json(facts)
    else:
        say(*lines)


def say(*lines: str) -> None:
    """Print lines of the result as they are."""
    for line in lines:
        write(f"{escape_control(line)}\n")


def note(line: str) -> None:
    """Say on stderr what was recognised, unless nothing but results and errors is to be said."""
    if logger.isEnabledFor(logging.WARNING):
        tell(line)


def tell(line: str) -> None:
    """Say something on stderr."""
    write(f"{escape_control(line)}\n", err=True)


def progress(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Show a bar on stderr while going through the items; it vanishes at the end. Only a terminal has one."""
    if not sys.stderr.isatty():
        yield from items
        return
    with _bar() as bar:
        yield from bar.track(items, total=total, description=label)


@contextmanager
def tracking(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on stderr, and give what moves it: how much is done, of how much, and what is being done."""
    with _bar() as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=escape_control(text))


def _bar() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=_console(err=True), transient=True, disable=not sys.stderr.isatty())


def _console(*, err: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=err, highlight=False, soft_wrap=True, markup=False, emoji=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    from rich.table import Table

    grid = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for column in grid.columns[1:]:
        column.justify = "right"
    for row in rows:
        grid.add_row(*map(escape_control, row))
    _console().print(grid, soft_wrap=False)
