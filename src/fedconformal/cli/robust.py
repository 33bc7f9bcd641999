"""The options of calibrate for sites that may lie, and what is said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from fedconformal import guarantees
from fedconformal._base.arrays import as_alpha
from fedconformal.cli.console import say
from fedconformal.errors import InputError
from fedconformal.guarantees import Guarantee, QuantileOfQuantiles
from fedconformal.privacy.screening import screen
from fedconformal.summaries.summary import Summary

Robust = Annotated[int | None, typer.Option(metavar="F", help="Hold whatever at most F of the sites send.")]
SitesAlike = Annotated[bool, typer.Option("--sites-alike", help="robust: the honest sites are known to be alike.")]
LeastScores = Annotated[
    int | None, typer.Option(help="sites-alike: the fewest scores a site ought to have, fixed before calibration.")
]
MostScores = Annotated[
    int | None, typer.Option(help="mixture, robust: a site that claims more scores weighs as one that has this many.")
]


def robust_guarantee(
    liars: int | None, guarantee: str, others: Mapping[str, Any], *, sites_alike: bool, least_scores: int | None
) -> Guarantee | None:
    """Return the guarantee that withstands liars, if one is asked for."""
    if least_scores is not None and not sites_alike:
        raise InputError("--least-scores goes with --sites-alike")
    if liars is None:
        if sites_alike:
            raise InputError("--sites-alike goes with --robust F")
        return None
    if guarantee != "mixture":
        raise InputError(f"--robust does not go with --guarantee {guarantee}; leave one of them out")
    for option in [option for option, value in others.items() if value is not None and option != "most_scores"]:
        raise InputError(f"--{option.replace('_', '-')} does not go with --robust")
    most_scores = others.get("most_scores")
    if not sites_alike:
        return guarantees.Robust(liars=liars, most_scores=most_scores)
    if most_scores is not None:
        raise InputError("--most-scores does not go with --sites-alike, where every site weighs the same")
    if liars and least_scores is None:
        raise InputError(
            f"--robust {liars} --sites-alike needs --least-scores N, the fewest scores a site ought to have, fixed "
            "before calibration: otherwise the sizes that liars claim choose the ranks"
        )
    return QuantileOfQuantiles(liars=liars, least_scores=least_scores)


def describe_robustness(guarantee: Guarantee, summaries: Sequence[Summary], alpha: Any) -> None:
    """Say how many liars the threshold bears, and which sites are far from the rest."""
    sizes = [n for summary in summaries for n in summary.sizes]
    if isinstance(guarantee, guarantees.Robust | QuantileOfQuantiles):
        most = guarantee.withstands(as_alpha(alpha), sizes)
        about = " (about K alpha / (1 + alpha))" if isinstance(guarantee, guarantees.Robust) else ""
        say(
            f"Huge scores from up to {most} of these {len(sizes)} sites leave the threshold finite{about}; "
            "from more, they can put every label into every set."
        )
    if isinstance(guarantee, QuantileOfQuantiles) and (few := guarantee.too_small(sizes)):
        say(f"Of these sites {few} have fewer than {guarantee.least_scores} scores; they count as if all were huge.")
    if len(summaries) < 3:
        return
    far = [found for found in screen(summaries) if found.flagged]
    for found in far:
        say(
            f"site {found.site!r} is far from the rest (distance {found.distance:.2f}, noise {found.noise:.2f}); ask "
            "why: it was used like the others, and leaving it out because of its scores voids the promise"
        )
    if not far:
        say("No site's scores are far from the rest.")
