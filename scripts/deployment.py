"""Bring up a deployment on loopback with TLS and node keys, run an app on it, show the certificate, take it down."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from fedconformal.cli.app import run
from fedconformal.cli.console import stderr
from fedconformal.engines.flower.app import make_app
from fedconformal.engines.flower.engines import exit_on_signals
from fedconformal.engines.flower.local_deployment import LocalDeployment


def main() -> int:
    """Run it all in a temporary directory, except for what comes out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("fedconformal-deployment"))
    options = parser.parse_args()
    with exit_on_signals(), tempfile.TemporaryDirectory(prefix="fedconformal-") as folder:
        app = Path(folder) / "app"
        make_app(app)
        stderr.print(f"starting a SuperLink and {options.sites} SuperNodes ...")
        with LocalDeployment(Path(folder), options.sites) as deployment:
            where = (
                "--superlink",
                deployment.address,
                "--root-certificates",
                str(deployment.ca),
                "-o",
                str(options.output),
            )
            settings = ("--set", f"rounds={options.rounds}", "--set", f"min-sites={options.sites}")
            return run(["flower", "run", str(app), "--engine", "deployment", *where, *settings])


if __name__ == "__main__":
    sys.exit(main())
