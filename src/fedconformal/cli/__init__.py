"""Command-line interface: each command parses options, calls one library function and prints one result."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOWrapper


def main() -> None:
    """Run the command line."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the threads of BLAS start more slowly than most commands run
    from fedconformal.cli.app import run

    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    with suppress(OSError):  # of a full disk, which would change the exit code
        sys.stdout.close()
    sys.exit(code)
