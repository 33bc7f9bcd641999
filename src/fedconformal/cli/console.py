"""What is printed, and where: results to stdout, everything else to stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

stdout = Console(highlight=False, soft_wrap=True)
stderr = Console(stderr=True, highlight=False, soft_wrap=True)
logger = logging.getLogger("fedconformal")

T = TypeVar("T")


def print_json(result: dict[str, Any]) -> None:
    """Print exactly one object."""
    stdout.print(json.dumps(result, indent=1, allow_nan=False), markup=False)


def say(text: str) -> None:
    """Print a line of the result as it is."""
    stdout.print(text, markup=False)


def progress(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Show a bar on stderr while going through the items; it vanishes at the end."""
    with Progress(console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        yield from bar.track(items, total=total, description=label)


@contextmanager
def tracking(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a bar on stderr, and give what moves it: how much is done, of how much, and what is being done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are numbers."""
    grid = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for column in grid.columns[1:]:
        column.justify = "right"
    for row in rows:
        grid.add_row(*row)
    stdout.print(grid, soft_wrap=False)
