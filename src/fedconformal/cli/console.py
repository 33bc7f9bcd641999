"""Output: results to stdout, everything else to stderr.

Names, labels and messages come from untrusted files: markup is not interpreted, and control characters are escaped.
Progress bars and tables are drawn by rich, which is imported lazily; progress bars appear on a terminal only.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from json import dumps
from typing import TYPE_CHECKING, TypeVar

import msgspec

from fedconformal._base.names import escape_control

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

logger = logging.getLogger("fedconformal")

T = TypeVar("T")


class EscapingFormatter(logging.Formatter):
    """Formatter that escapes control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the level and the message."""
        return escape_control(super().format(record))


def write(text: str, *, err: bool = False) -> None:
    """Write text unchanged to stdout or stderr, and flush."""
    stream = sys.stderr if err else sys.stdout
    stream.write(text)
    stream.flush()


def print_json(result: object) -> None:
    """Print a record as one JSON object in ASCII; paths become strings, and NumPy scalars Python numbers."""
    plain = msgspec.to_builtins(result, enc_hook=lambda x: x.item() if hasattr(x, "item") else str(x))
    write(dumps(plain, indent=1, allow_nan=False) + "\n")


def print_result(record: object, *lines: str, json: bool) -> None:
    """Print the result: its record as JSON, or its lines."""
    if json:
        print_json(record)
    else:
        say(*lines)


def say(*lines: str) -> None:
    """Print lines of the result, with control characters escaped."""
    for line in lines:
        write(f"{escape_control(line)}\n")


def note(line: str) -> None:
    """Print a remark on stderr, unless --quiet is given."""
    if logger.isEnabledFor(logging.WARNING):
        tell(line)


def tell(line: str) -> None:
    """Print a line on stderr."""
    write(f"{escape_control(line)}\n", err=True)


def progress(items: Iterable[T], label: str, total: int) -> Iterator[T]:
    """Iterate over items with a transient progress bar on a terminal."""
    if not sys.stderr.isatty():  # saves the import of rich
        yield from items
        return
    with tracking(label) as update:
        for done, item in enumerate(items):
            update(done, total, label)
            yield item


@contextmanager
def tracking(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar on stderr; yield a function to update it with steps done, total steps and text."""
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
    """Print a table whose first column is text and whose other columns are numbers."""
    from rich.table import Table

    grid = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for column in grid.columns[1:]:
        column.justify = "right"
    for row in rows:
        grid.add_row(*map(escape_control, row))
    _console().print(grid, soft_wrap=False)
