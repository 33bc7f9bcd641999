"""The options of summarize and calibrate for differential privacy, and what is said of a private threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fedconformal import tables
from fedconformal._base.arrays import Floats
from fedconformal._base.files import read_bytes
from fedconformal.cli.console import progress
from fedconformal.errors import InputError, prefix_errors
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.summaries.exact import ExactSummary
from fedconformal.summaries.summary import Summary

if TYPE_CHECKING:  # what adds noise, and what reads tables, is imported when it is asked for
    from fedconformal.privacy.local_dp import NoisyHistogram


class PrivacyMode(StrEnum):
    """Who adds noise: the coordinator, or every site before anything leaves it."""

    dp = "dp"
    local = "local"


class SiteMode(StrEnum):
    """How a site protects its rows from the coordinator."""

    local = "local"


Privacy = Annotated[
    PrivacyMode | None,
    typer.Option(
        help="dp: release the threshold with differential privacy; needs --epsilon. "
        "local: from what summarize --privacy local wrote."
    ),
]
Epsilon = Annotated[str | None, typer.Option(help="With differential privacy: how much of it is spent.")]
BudgetFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="Enter what is spent here (.json with a budget), and refuse to exceed it."),
]
Grid = Annotated[
    Path | None,
    typer.Option(
        help="With differential privacy: thresholds to choose from (.npy .csv), rising, inf the last; "
        "must not come from the scores.",
        show_default="for scores from 0 to 2",
    ),
]


def release(
    summaries: Sequence[Summary], alpha: Any, guarantee: Guarantee, epsilon: str | None, ledger: Path | None
) -> Any:
    """Calibrate with differential privacy; what is spent is entered before anything leaves here."""
    from fedconformal.privacy.dp import as_epsilon, release_threshold
    from fedconformal.privacy.ledger import rows_of, spending

    if epsilon is None:
        raise InputError("--privacy dp needs --epsilon, such as --epsilon 1")
    if isinstance(guarantee, ByClass):
        raise InputError("--privacy dp does not go with by-class; leave one of them out")
    if ledger is not None and not all(summary.sites for summary in summaries):
        raise InputError("--ledger needs summaries with site names; give them with --site")
    spent = float(as_epsilon(epsilon))
    with spending(ledger, rows_of(summaries) if ledger else [], spent, "threshold"):
        return release_threshold(summaries, epsilon=epsilon, alpha=alpha, guarantee=guarantee)


@dataclass(frozen=True, kw_only=True)
class LocalNoise:
    """The options of summarize: the noise that a site adds, and who pays for it."""

    privacy: Annotated[
        SiteMode | None,
        typer.Option(help="local: write noisy counts, with differential privacy; needs --epsilon."),
    ] = None
    epsilon: Epsilon = None
    grid: Grid = None
    ledger: BudgetFile = None

    def is_wanted(self) -> bool:
        """Whether there is --privacy; refuse the others without it, and what cannot be read."""
        if self.privacy is None:
            for option, value in (("--epsilon", self.epsilon), ("--grid", self.grid), ("--ledger", self.ledger)):
                if value is not None:
                    raise InputError(f"{option} goes with --privacy local")
            return False
        if self.epsilon is None:
            raise InputError("--privacy local needs --epsilon, such as --epsilon 1")
        from fedconformal.privacy.dp import as_epsilon

        as_epsilon(self.epsilon)
        read_grid(self.grid)
        return True

    def added_to(self, summary: Summary) -> NoisyHistogram:
        """Turn an exact summary, which stays here, into noisy counts."""
        from fedconformal.privacy.local_dp import noisy_histogram

        if not isinstance(summary, ExactSummary):
            raise InputError(f"{summary}: noisy counts need all scores; summarise with --kind exact")
        grid, provenance = read_grid(self.grid), summary.provenance
        return noisy_histogram(
            summary.values, epsilon=self.epsilon, site=summary.sites[0], grid=grid, provenance=provenance
        )

    def pay(self, summaries: Sequence[Summary]) -> None:
        """Enter what is spent on the rows of these summaries, before anything leaves here."""
        from fedconformal.privacy.dp import as_epsilon
        from fedconformal.privacy.ledger import rows_of, spending

        with spending(self.ledger, rows_of(summaries), float(as_epsilon(self.epsilon)), "noisy counts"):
            pass


def read_noisy(paths: Sequence[Path]) -> list[NoisyHistogram]:
    """Read what sites wrote with summarize --privacy local."""
    from fedconformal.privacy.local_dp import NoisyHistogram

    found = []
    for path in progress(paths, "reading noisy counts", len(paths)):
        with prefix_errors(path):
            found.append(NoisyHistogram.from_bytes(read_bytes(path)))
    return found


def release_locally(
    noisy: Sequence[NoisyHistogram], alpha: Any, guarantee: Guarantee, epsilon: str | None, ledger: Path | None
) -> Any:
    """Calibrate from noisy counts, which the sites have paid for."""
    from fedconformal.privacy.local_dp import calibrate_locally

    if epsilon is not None or ledger is not None:
        raise InputError("--privacy local takes no --epsilon or --ledger here: give them to summarize, at the sites")
    return calibrate_locally(list(noisy), alpha=alpha, guarantee=guarantee)


def describe_privacy(claim: dict[str, Any]) -> str:
    """Say what is claimed, and what is not."""
    return f"epsilon {claim['epsilon']:g} for {claim['unit']}; outside the claim: {claim['outside']}"


def precise(privacy: Mapping[str, Any], *, finite: bool) -> list[str]:
    """Say how precise a finite threshold from sums is, if it comes without noise."""
    precision = privacy.get("precision")
    if precision is None or not finite:
        return []
    rounded = f"rounded up to the edge of a cell, as {precision['stopped']}"
    return [f"the threshold is {'exact to the last bit' if precision['exact'] else rounded}"]


def read_grid(path: Path | None) -> Floats | None:
    """Read candidates for noisy counts from a file."""
    if path is None:
        return None
    from fedconformal.privacy.dp import as_grid
    from fedconformal.privacy.noisy_counts import MOST_CANDIDATES

    with prefix_errors(path):
        table = tables.read_table(path, arrays=("grid",))
        if len(table.columns) != 1:
            raise InputError(f"has {len(table.columns)} columns, expected one of thresholds")
        try:
            values = np.array([float(cell) for cell in table.texts(table.columns[0])])
        except ValueError:
            raise InputError("holds text, expected numbers that rise, inf the last") from None
        return as_grid(values, MOST_CANDIDATES)
