"""What is printed, and where: results to stdout, everything else to stderr.

Names, labels and messages come from other people's files. They are shown as they are: no markup is read from them, and
no command to the terminal passes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from json import dumps
from typing import TYPE_CHECKING, Any, TypeVar

from rich.console import Console

from fedconformal._base.names import harmless

if TYPE_CHECKING:
    from rich.progress import Progress

stdout = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
stderr = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
logger = logging.getLogger("fedconformal")

T = TypeVar("T")


class Harmless(logging.Formatter):
    """Shows the level and the message, in one line."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Write commands to the terminal as their numbers."""
        return harmless(super().format(record))


LOGGED = Harmless()


def print_json(result: dict[str, Any]) -> None:
    """Print exactly one object."""
    stdout.print(dumps(result, indent=1, allow_nan=False))


def print_result(facts: dict[str, Any], *lines: str, json: bool) -> None:
    """Print the result: its facts as JSON, or these lines."""
    if json:
        print_json(facts)
    else:
        say(*lines)


def say(*lines: str) -> None:
    """Print lines of the result as they are."""
    for line in lines:
        stdout.print(harmless(line))


def note(line: str) -> None:
    """Say on stderr what was recognised, unless nothing but results and errors is to be said."""
    if logger.isEnabledFor(logging.WARNING):
        stderr.print(harmless(line))


def progress(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Show a bar on stderr while going through the items; it vanishes at the end. Only a terminal has one."""
    if not stderr.is_terminal:
        yield from items
        return
    with _bar() as bar:
        yield from bar.track(items, total=total, description=label)


@contextmanager
def tracking(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on stderr, and give what moves it: how much is done, of how much, and what is being done."""
    with _bar() as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=harmless(text))


def _bar() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    from rich.table import Table

    grid = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for column in grid.columns[1:]:
        column.justify = "right"
    for row in rows:
        grid.add_row(*map(harmless, row))
    stdout.print(grid, soft_wrap=False)
