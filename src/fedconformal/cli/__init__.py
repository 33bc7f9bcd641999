"""The command line: one file a command."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command line; typer and rich are imported only now."""
    from fedconformal.cli.app import run

    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that cannot show a letter shows its number
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
