"""The command line: one file a command."""

from __future__ import annotations

import gc
import io
import os
import sys


def main() -> None:
    """Run the command line; typer and rich are imported only now.

    To start the threads of BLAS takes half as long as to import numpy; what multiplies large matrices here is torch.
    Nothing that is imported is garbage: the collector starts with the command (`app.options`), and goes through none of
    it, also not at the end, when all memory is given back. It would take a sixth of `calibrate`.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()
    from fedconformal.cli.app import run

    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that cannot show a letter shows its number
        sys.stdout.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    gc.freeze()
    sys.exit(code)
