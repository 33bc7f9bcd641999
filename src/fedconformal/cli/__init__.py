"""The command line: one file a command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; typer and rich are imported only now."""
    from fedconformal.cli.app import run

    sys.exit(run(sys.argv[1:]))
