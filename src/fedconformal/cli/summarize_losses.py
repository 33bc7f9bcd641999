"""fedconformal summarize-losses: at a site, from losses on a grid of thresholds to a file of their sums."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import write_bytes
from fedconformal.cli.console import print_result
from fedconformal.cli.inputs import Json
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.policy import PolicyFile, check_files
from fedconformal.cli.risk import read_losses, shows_curves
from fedconformal.cli.sign import CalibrationId
from fedconformal.summaries import summarize_losses as summarize_curves
from fedconformal.tables.table import counted


def summarize_losses(
    losses: Annotated[
        Path,
        typer.Argument(
            help="A row for each calibration row, a column for each threshold (.csv .tsv .txt .parquet .npy .npz); the "
            "header of a table is the thresholds."
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .fcs file.")],
    thresholds: Annotated[
        str | None,
        typer.Option(metavar="GRID", help="The grid, fixed beforehand: numbers such as 0,0.1,0.2 or a file of them."),
    ] = None,
    bound: Annotated[float, typer.Option(help="The most that a row can lose.")] = 1,
    rising: Annotated[
        bool, typer.Option("--rising", help="Losses need not fall along the grid; calibrate with --guarantee pac.")
    ] = False,
    model: Annotated[str | None, typer.Option(help="Fingerprint of the model; must be the same everywhere.")] = None,
    site: Annotated[str | None, typer.Option(help="The site's name.", show_default="that of the file")] = None,
    calibration: CalibrationId = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DAY", help="The last day to use this summary, such as 2027-06-30.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Of a text file, if not UTF-8; such as cp1252, from Excel.")
    ] = None,
    policy: PolicyFile = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Add up a site's losses at every threshold, rounded up, and write the sums."""
    grid_file = None if thresholds is None else Path(thresholds)
    check_output(output, losses, grid_file, policy, ending=".fcs", force=force)
    found = read_losses(losses, thresholds, encoding)
    about: dict[str, Any] = {"model": model, "calibration": calibration, "expires": expires, "rising": rising}
    with found.in_lines():
        made = summarize_curves(
            found.values, thresholds=found.grid, bound=bound, site=output.stem if site is None else site, **about
        )
    check_files(policy, [made], ledger=None, stays=False)
    data = made.to_bytes()
    write_bytes(output, data)
    facts = {
        "file": str(output),
        "site": made.sites[0],
        "kind": made.name,
        "rows": made.n,
        "thresholds": len(made.grid),
        "bound": made.bound,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    what = f"losses of {counted(made.n, 'row')} at {counted(len(made.grid), 'threshold')}, {len(data)} bytes"
    lines = [f"{output}: {what}, site {made.sites[0]!r}", f"who reads the file learns {shows_curves(made)}"]
    print_result(facts, *lines, json=json)
