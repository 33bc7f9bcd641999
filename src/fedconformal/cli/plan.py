"""fedconformal plan: which guarantees can be had, before any data is collected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedconformal._base.arrays import as_alpha, shares_of
from fedconformal.calibration.plan import plan as make_plan
from fedconformal.cli.console import note, print_json, say, table
from fedconformal.cli.options import GUARANTEES, SPEC, Alpha, Json, expand_wildcards, read_summaries
from fedconformal.errors import InputError
from fedconformal.summaries.provenance import UNKNOWN, Provenance


def plan(
    summaries: Annotated[
        list[Path] | None,
        typer.Argument(help="Summaries (.fcs), whose sites and sizes are planned for.", callback=expand_wildcards),
    ] = None,
    sizes: Annotated[str | None, typer.Option(help="Calibration rows of each site, such as 200,50,20.")] = None,
    alpha: Alpha = "0.1",
    guarantees: Annotated[list[str] | None, typer.Option("--guarantee", metavar=SPEC, help=GUARANTEES)] = None,
    json: Json = False,
) -> None:
    """Show which guarantees are feasible, the band of coverage of each, and what the others are missing."""
    counts, sites, provenance = _sites(sizes, summaries or [])
    if provenance.bound is not None:
        raise InputError("loss curves have no scores, and a plan is for coverage; give summaries of scores")
    level = as_alpha(alpha)
    if provenance.score is not None and provenance.score.lower_share is not None:
        level = min(shares_of(level, provenance.score.lower_share))
        note(f"each end of {provenance.score.name} has its share of alpha; this is the plan at {float(level):g}")
    found = make_plan(alpha=level, sizes=counts, sites=sites, guarantees=guarantees or ())
    if json:
        print_json(found.to_dict())
        return
    table(
        ["guarantee", "feasible", "coverage", "smallest alpha"],
        [
            (
                one.guarantee,
                "yes" if one.feasible else "no",
                f"{one.coverage_at_least:.4f} to {one.coverage_at_most:.4f}" if one.feasible else "-",
                f"{one.smallest_alpha:.4f}",
            )
            for one in found.options
        ],
    )
    say("", *(f"{one.guarantee}: {one.missing}" for one in found.options if not one.feasible))
    say(
        "If a guarantee is not feasible, every set holds every label, or every interval is the whole line.",
        f"Coverage by class or by group takes {found.rows_of_a_stratum} rows of each class or group, over all sites.",
    )


def _sites(sizes: str | None, summaries: list[Path]) -> tuple[list[int], list[str] | None, Provenance]:
    """Return the sizes of the sites, their names if there are any, and the provenance of summaries."""
    if (sizes is None) != bool(summaries):
        raise InputError("give --sizes, such as 200,50,20, or summaries (.fcs); one of them")
    if sizes is None:
        received = read_summaries(summaries)
        names = [name for one in received for name in one.sites]
        return [size for one in received for size in one.sizes], names or None, received[0].provenance
    try:
        return [int(part) for part in sizes.split(",")], None, UNKNOWN
    except ValueError:
        raise InputError(f"--sizes is {sizes!r}, expected whole numbers such as 200,50,20") from None
