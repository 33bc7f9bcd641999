"""fedconformal summarize-losses: at a site, from losses on a grid of thresholds to a file of their sums."""

from __future__ import annotations

import hashlib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._base.files import write_bytes
from fedconformal._base.names import plural
from fedconformal._base.spec import build
from fedconformal.cli.console import print_result
from fedconformal.cli.inputs import Json
from fedconformal.cli.losses import evaluated
from fedconformal.cli.options import SPEC
from fedconformal.cli.outputs import Force, check_output
from fedconformal.cli.policy import PolicyFile, check_files
from fedconformal.cli.risk import read_grid, read_losses, shows_curves
from fedconformal.cli.sign import CalibrationId
from fedconformal.errors import InputError
from fedconformal.losses import Loss
from fedconformal.losses.loss import GRID, as_grid
from fedconformal.summaries import LossSummary


def summarize_losses(
    losses: Annotated[
        Path,
        typer.Argument(
            help="A row for each calibration row, a column for each threshold (.csv .tsv .txt .parquet .npy .npz); the "
            "header of a table is the thresholds. With --loss, scores from 0 to 1: a row of labels, or an image, a row."
        ),
    ],
    truth: Annotated[
        Path | None, typer.Argument(help="With --loss: which labels or pixels are true, or one label a row.")
    ] = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", help="The .fcs file.")],
    thresholds: Annotated[
        str | None,
        typer.Option(metavar="GRID", help="The grid, fixed beforehand: numbers such as 0,0.1,0.2 or a file of them."),
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar=SPEC,
            help="The loss of scores and truth: false-negative-rate, false-discovery-rate, selective-error:limit=0.1.",
        ),
    ] = None,
    bound: Annotated[float, typer.Option(help="The most that a row can lose.")] = 1,
    rising: Annotated[
        bool,
        typer.Option(
            "--rising", help="Losses need not fall along the grid; calibrate with --guarantee learn-then-test."
        ),
    ] = False,
    model: Annotated[str | None, typer.Option(help="Fingerprint of the model; must be the same everywhere.")] = None,
    site: Annotated[str | None, typer.Option(help="The site's name.", show_default="that of the file")] = None,
    calibration: CalibrationId = None,
    expires: Annotated[
        str | None, typer.Option(metavar="DAY", help="The last day to use this summary, such as 2027-06-30.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Encoding of a text file, if not UTF-8; Excel may use cp1252.")
    ] = None,
    policy: PolicyFile = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Add up a site's losses at every threshold, rounded up, and write the sums."""
    grid_file = None if thresholds is None else Path(thresholds)
    check_output(output, losses, truth, grid_file, policy, ending=".fcs", force=force)
    in_lines: AbstractContextManager[None] = nullcontext()
    about: dict[str, Any] = {"model": model, "calibration": calibration, "expires": expires, "rising": rising}
    if loss is None:
        if truth is not None:
            raise InputError("TRUTH goes with --loss")
        found = read_losses(losses, thresholds, encoding)
        values, grid, in_lines = found.values, found.grid, found.in_lines()
    else:
        if rising or bound != 1 or encoding:
            raise InputError(
                "--rising, --bound and --encoding are for losses that are given; leave them out with --loss"
            )
        made_of = build(loss, Loss)
        grid = GRID if thresholds is None else as_grid(read_grid(thresholds))
        values = evaluated(made_of, losses, truth, grid)
        about["loss"] = made_of
    with in_lines:
        made = LossSummary.of_losses(
            values, thresholds=grid, bound=bound, site=output.stem if site is None else site, **about
        )
    check_files(policy, [made], ledger=None)
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
    what = f"losses of {plural(made.n, 'row')} at {plural(len(made.grid), 'threshold')}, {len(data)} bytes"
    lines = [f"{output}: {what}, site {made.sites[0]!r}", f"who reads the file learns {shows_curves(made)}"]
    print_result(facts, *lines, json=json)
