"""fedconformal plan --renew: how many new rows restore which promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedconformal._base.names import join_names
from fedconformal.calibration.plan_renewal import FAILURE, Renewal, RenewalPlan, Step, plan_renewal
from fedconformal.calibration.predictor import load
from fedconformal.certificates.certificate import site_names
from fedconformal.cli.console import print_json, say, table
from fedconformal.cli.sites import by_name, for_sites
from fedconformal.errors import InputError, prefix_errors

MOST_SITES = 6
"""With more sites, rows are shown in all, and the one-site guarantees are left out."""


def show_renewal(predictor: Path | None, rows_per_week: str | None, *, plain: bool, json: bool) -> None:
    """Plan how a predictor is calibrated anew."""
    if predictor is None:
        raise InputError("--rows-per-week goes with --renew PREDICTOR")
    if not plain:
        raise InputError(
            "--renew takes sites, alpha and guarantee from the predictor; give it with --rows-per-week only"
        )
    old: Any = load(predictor)
    rates = None
    if rows_per_week is not None:
        named = by_name(rows_per_week, "--rows-per-week")
        sites = site_names(old.certificate.summaries)
        rates = rows_per_week.split(",") if named is None else for_sites(named, sites, "--rows-per-week")
    with prefix_errors(predictor):
        found = plan_renewal(old, rows_per_week=rates)
    if json:
        print_json(found.to_dict())
        return
    crowded = len(found.sites) > MOST_SITES
    shown = [one for one in found.options if one.as_before or not (crowded and one.guarantee.startswith("one-site"))]
    say(f"Sites: {join_names(found.sites, 10)}. A star marks the promise of {predictor}.", "")
    say("The fewest new rows that give a finite threshold:", "")
    _show(found, shown, "fewest")
    say("", "As many new rows as last time:", "")
    _show(found, shown, "last_time")
    lacking = [f"{one.guarantee}: {one.missing}" for one in shown if one.missing]
    say("", *lacking, *_meaning(found), *found.notes)


def _show(found: RenewalPlan, options: list[Renewal], which: str) -> None:
    losses = _of_losses(found)
    head = ["guarantee", "rows", *(["weeks"] if found.rows_per_week else [])]
    head += ["mean loss"] if losses else ["at most", "watch's limit"]
    rows = []
    for one in options:
        step: Step | None = getattr(one, which)
        name = f"{one.guarantee}{' *' if one.as_before else ''}"
        if step is None:
            rows.append((name, "not enough", *["-"] * (len(head) - 2)))
            continue
        weeks = [str(step.weeks) if step.weeks is not None else "-"] if found.rows_per_week else []
        last = [_number(step.mean_loss)] if losses else [_number(step.coverage_at_most), _number(step.watch_limit)]
        rows.append((name, _rows(step.rows), *weeks, *last))
    table(head, rows)


def _rows(rows: list[int]) -> str:
    each = str(rows[0]) if len(set(rows)) == 1 else ""
    if len(rows) > MOST_SITES:
        return f"{each} each" if each else f"{sum(rows)} in all"
    return "+".join(map(str, rows))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _of_losses(found: RenewalPlan) -> bool:
    return any(one.fewest is not None and one.fewest.mean_loss is not None for one in found.options)


def _meaning(found: RenewalPlan) -> list[str]:
    if _of_losses(found):
        return ["mean loss: what the rows of every site may lose on average at most, for the same limit"]
    notices = f"the closer to {found.alpha:g}, the sooner it notices"
    return [
        f"at most: the coverage is between {1 - found.alpha:g} and this, with exact summaries and distinct scores",
        f"watch's limit: a watch takes more misses than this for a broken promise (failure {FAILURE:g}); {notices}",
        "rows that a watch has counted do not count: they promise nothing (docs/recalibration.md)",
    ]
