"""fedconformal plan: which guarantees can be had, before any data is collected."""

from __future__ import annotations

from typing import Annotated

import typer

from fedconformal.cli.console import print_json, say, table
from fedconformal.cli.inputs import Alpha, Json
from fedconformal.errors import InputError
from fedconformal.planning import plan as make_plan


def plan(
    sizes: Annotated[str, typer.Option(help="Calibration rows of each site, such as 200,50,20.")],
    alpha: Alpha = "0.1",
    json: Json = False,
) -> None:
    """Show which guarantees are feasible, the band of coverage of each, and what the others are missing."""
    try:
        counts = [int(part) for part in sizes.split(",")]
    except ValueError:
        raise InputError(f"--sizes is {sizes!r}, expected whole numbers such as 200,50,20") from None
    found = make_plan(alpha=alpha, sizes=counts)
    if json:
        print_json(found.to_dict())
        return
    columns = ("guarantee", "feasible", "coverage at least", "at most", "smallest alpha")
    rows = (
        (
            option.guarantee,
            "yes" if option.feasible else "no",
            f"{option.coverage_at_least:.4f}" if option.feasible else "all labels",
            f"{option.coverage_at_most:.4f}" if option.feasible else "all labels",
            f"{option.smallest_alpha:.4f}",
        )
        for option in found.options
    )
    table(columns, rows)
    say("")
    for option in found.options:
        if not option.feasible:
            say(f"{option.guarantee}: {option.missing}")
    say(found.condition)
