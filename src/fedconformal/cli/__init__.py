"""Command-line interface: each command parses options, calls one library function and prints one result."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run the command line."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the threads of BLAS start more slowly than most commands run
    from fedconformal.cli.app import run

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
