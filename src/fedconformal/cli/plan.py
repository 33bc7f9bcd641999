"""fedconformal plan: which guarantees can be had, before any data is collected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from fedconformal._base.arrays import as_alpha, shares_of
from fedconformal._base.spec import build
from fedconformal.calibration.plan import DEFAULT_SET, Option, Plan
from fedconformal.calibration.plan import plan as make_plan
from fedconformal.calibration.plan_risk import RiskOption, plan_risk
from fedconformal.cli.console import note, print_json, say, table
from fedconformal.cli.inputs import Alpha, Json, load_predictor, read_summaries
from fedconformal.cli.options import GUARANTEES, SPEC, ScoreOption, expand_options
from fedconformal.cli.renewal import show_renewal
from fedconformal.cli.risk import Risk
from fedconformal.cli.rows import Unlabelled
from fedconformal.cli.sites import by_name, in_order
from fedconformal.errors import InputError
from fedconformal.guarantees import PAC, Guarantee, WorstCase
from fedconformal.scores import AnyScore, RegressionScore
from fedconformal.summaries.provenance import UNKNOWN, Provenance

MOST_SITES = 6
"""With more sites, their one-site rows are left out of the table."""


@expand_options
def plan(
    summaries: Annotated[
        list[Path] | None, typer.Argument(help="Summaries (.fcs), whose sites and sizes are planned for.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(help="Calibration rows of each site, such as 200,50,20 or a=200,b=50.")
    ] = None,
    alpha: Alpha = "0.1",
    risk: Risk = None,
    bound: Annotated[float, typer.Option(help="With --risk: the most that a row can lose.")] = 1.0,
    guarantees: Annotated[
        list[str] | None,
        typer.Option("--guarantee", metavar=SPEC, help=f"One more to plan; repeatable: {GUARANTEES}"),
    ] = None,
    pilot: Annotated[
        Path | None, typer.Option(help="A predictor (.json) from a pilot study, to estimate set sizes.")
    ] = None,
    probs: Annotated[Path | None, typer.Option(help="Rows to estimate them on; goes with --pilot.")] = None,
    *,
    columns: Unlabelled,
    score: ScoreOption = None,
    renew: Annotated[
        Path | None, typer.Option(metavar="PREDICTOR", help="How many new rows restore the promises of this (.json).")
    ] = None,
    rows_per_week: Annotated[
        str | None, typer.Option(help="With --renew: rows that come in a week, such as 40,10 or a=40,b=10.")
    ] = None,
    json: Json = False,
) -> None:
    """Show which guarantees are feasible, the band of coverage of each, and what the others are missing."""
    if renew is not None or rows_per_week is not None:
        options = (summaries, sizes, risk, guarantees, pilot, probs, score)
        plain = not any(options) and alpha == "0.1" and columns == Unlabelled()
        show_renewal(renew, rows_per_week, plain=plain, json=json)
        return
    counts, sites, provenance = _sites(sizes, summaries or [])
    held, bound = provenance.score, provenance.bound or bound
    if risk is not None:
        others = (guarantees, pilot, probs, score)
        _of_losses(plan_risk(risk=risk, sizes=counts, bound=bound, sites=sites), risk, *others, json=json)
        return
    if provenance.bound is not None:
        raise InputError("loss curves have no scores; say --risk LIMIT")
    asked = held if score is None else build(score, AnyScore)
    each = as_alpha(alpha)
    if asked is not None and asked.lower_share is not None:
        each = min(shares_of(each, asked.lower_share))
        note(f"each end of {asked.name} has its share of alpha; this is the plan of the dearer one, at {float(each):g}")
    if (pilot is None) != (probs is None):
        raise InputError("--pilot and --probs go together; give both or neither")
    if probs is None and columns != Unlabelled():
        raise InputError("options that name columns go with --probs; give the table of rows")
    wanted = [build(one, Guarantee) for one in guarantees or ()]
    mixtures = next((one for one in wanted if isinstance(one, WorstCase)), DEFAULT_SET)
    pac = next((one for one in wanted if isinstance(one, PAC)), PAC())
    predictor = rows = None
    if pilot is not None and probs is not None:
        predictor = load_predictor(pilot)
        rows = columns.read_for(predictor, probs).values
    found = make_plan(
        alpha=each,
        sizes=counts,
        sites=sites,
        worst_case=mixtures,
        pac=pac,
        others=[one for one in wanted if one not in (mixtures, pac)],
        pilot=predictor,
        probs=rows,
    )
    if isinstance(asked, RegressionScore):
        found = msgspec.structs.replace(found, by_class="")
    if json:
        print_json(found.to_dict())
    else:
        _say(found, sized=predictor is not None, numbers=isinstance(asked, RegressionScore))


def _say(found: Plan, *, sized: bool, numbers: bool) -> None:
    """Show the table, and what the guarantees that cannot be had are missing."""
    crowded = len(found.sizes) > MOST_SITES
    shown = [option for option in found.options if not (crowded and option.guarantee.startswith("one-site"))]
    header = ["guarantee", "feasible", "at least", "at most", "if alike", "min alpha"]  # 80 characters wide
    table([*header, *["size"] * sized], [_cells(option, numbers=numbers) for option in shown])
    say("")
    for option in shown:
        if not option.feasible:
            say(f"{option.guarantee}: {option.missing}")
    if crowded:
        say(f"one-site: left out for {len(found.sizes)} sites; --json has them")
    say("at least, at most: the band of coverage; if alike: its mean if the sites are alike, where that is known")
    say(*filter(None, (found.condition, found.by_class, *found.notes)))


def _of_losses(options: list[RiskOption], risk: str, *others: Any, json: bool) -> None:
    if any(others):
        raise InputError("--risk plans a limit on losses; give it --sizes or summaries, and --bound")
    if json:
        print_json({"risk": float(risk), "options": msgspec.to_builtins(options)})
        return
    crowded = len(options) > MOST_SITES + 6
    shown = [option for option in options if not (crowded and option.guarantee.startswith("one-site"))]
    rows = [
        (one.guarantee, "yes" if one.feasible else "no", f"{one.least_limit:.4f}", "-")
        if one.mean_loss is None
        else (one.guarantee, "yes", f"{one.least_limit:.4f}", f"{one.mean_loss:.4f}")
        for one in shown
    ]
    table(("guarantee", "feasible", "least limit", "mean loss"), rows)
    say("", "least limit: what is promised if no row loses anything")
    say(f"mean loss: what the rows of every site may lose on average at most, for a limit of {float(risk):g}")


def _sites(sizes: str | None, summaries: list[Path]) -> tuple[list[int], list[str] | None, Provenance]:
    """Return the sizes of the sites, their names if there are any, and what summaries say of their provenance."""
    if (sizes is None) != bool(summaries):
        raise InputError("give --sizes, such as 200,50,20, or summaries (.fcs); one of them")
    if sizes is None:
        received = read_summaries(summaries)
        order = in_order(summaries, [summary.sites for summary in received])
        names = [name for k in order for name in received[k].sites]
        return [size for k in order for size in received[k].sizes], names or None, received[0].provenance
    named = by_name(sizes, "--sizes")
    parts = sizes.split(",") if named is None else list(named.values())
    try:
        return [int(part) for part in parts], None if named is None else list(named), UNKNOWN
    except ValueError:
        raise InputError(f"--sizes is {sizes!r}, expected whole numbers such as 200,50,20") from None


def _cells(option: Option, *, numbers: bool) -> tuple[str, ...]:
    expected = "-" if option.expected_coverage is None else f"{option.expected_coverage:.4f}"
    size = () if option.mean_size is None else (f"{option.mean_size:.3f}",)
    return (
        option.guarantee,
        "yes" if option.feasible else "no",
        f"{option.coverage_at_least:.4f}" if option.feasible else "whole line" if numbers else "all labels",
        f"{option.coverage_at_most:.4f}" if option.feasible else "-",
        expected,
        f"{option.smallest_alpha:.4f}",
        *size,
    )
