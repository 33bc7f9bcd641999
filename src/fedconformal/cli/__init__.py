"""The command line: one file a command."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run the command line; typer and rich are imported only now.

    To start the threads of BLAS takes 0.08 s of processor time; what multiplies large matrices here is torch.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from fedconformal.cli.app import run

    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that cannot show a letter shows its number
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
