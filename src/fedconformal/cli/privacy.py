"""Differential privacy on the command line: --privacy of summarize and calibrate, and the ledger that pays for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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

if TYPE_CHECKING:  # opendp is imported when noise is asked for
    from fedconformal.privacy.local_dp import NoisyHistogram

SiteNoise = Annotated[
    str | None,
    typer.Option(
        "--privacy",
        metavar="SPEC",
        help="Noisy counts: local:epsilon=1, local:epsilon=1,grid=FILE.",
    ),
]
Privacy = Annotated[
    str | None,
    typer.Option(
        "--privacy",
        metavar="SPEC",
        help="dp:epsilon=1, or local for noisy counts (docs/which-privacy.md).",
    ),
]
LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="Pays for epsilon (.json with a budget)."),
]


@dataclass(frozen=True)
class Noise:
    """The mode of --privacy, and its parameters."""

    mode: str
    epsilon: str | None = None
    grid: Path | None = None

    @classmethod
    def parse(cls, text: str | None, *modes: str) -> Noise | None:
        """Read `dp:epsilon=1`; None without an option.

        >>> Noise.parse("local:epsilon=1", "local")
        Noise(mode='local', epsilon='1', grid=None)
        """
        if text is None:
            return None
        mode, _, rest = text.partition(":")
        values = dict(part.partition("=")[::2] for part in rest.split(",")) if rest else {}
        if mode not in modes or not values.keys() <= {"epsilon", "grid"}:
            raise InputError(f"--privacy {text!r:.60}: expected {' or '.join(f'{one}:epsilon=1' for one in modes)}")
        grid = values.get("grid")
        return cls(mode, values.get("epsilon"), None if grid is None else Path(grid))

    @property
    def spent(self) -> float:
        """Epsilon as a number."""
        from fedconformal.privacy.dp import as_epsilon

        if self.epsilon is None:
            raise InputError(f"--privacy {self.mode} needs epsilon, such as {self.mode}:epsilon=1")
        return float(as_epsilon(self.epsilon))

    def check(self) -> Noise:
        """Refuse an epsilon or a grid that cannot be used, before rows are read."""
        _ = self.spent, self.read_grid()
        return self

    def added_to(self, summary: Summary) -> NoisyHistogram:
        """Turn an exact summary, which stays here, into noisy counts."""
        from fedconformal.privacy.local_dp import noisy_histogram

        if not isinstance(summary, ExactSummary):
            raise InputError(f"{summary}: noisy counts need all scores; summarise with --kind exact")
        about: dict[str, Any] = {"site": summary.sites[0], "provenance": summary.provenance}
        return noisy_histogram(summary.values, epsilon=self.epsilon, grid=self.read_grid(), **about)

    def pay(self, summaries: Sequence[Summary], ledger: Path | None) -> None:
        """Enter what is spent on the rows of these summaries, before anything leaves here."""
        from fedconformal.privacy.ledger import rows_of, spending

        with spending(ledger, rows_of(summaries), self.spent, "noisy counts"):
            pass

    def read_grid(self) -> Floats | None:
        """Read candidates for noisy counts."""
        from fedconformal.privacy.dp import as_grid
        from fedconformal.privacy.noise import MOST_CANDIDATES

        if self.grid is None:
            return None
        with prefix_errors(self.grid):
            table = tables.read_table(self.grid, arrays=("grid",))
            if len(table.columns) != 1:
                raise InputError(f"has {len(table.columns)} columns, expected one of thresholds")
            try:
                values = np.array([float(cell) for cell in table.texts(table.columns[0])])
            except ValueError:
                raise InputError("holds text, expected numbers that rise, inf the last") from None
            return as_grid(values, MOST_CANDIDATES)

    def calibrate(self, received: Sequence[Any], *, alpha: Any, guarantee: Guarantee, ledger: Path | None) -> Any:
        """Calibrate with noise: that of the sites, or here; then it is entered before anything leaves."""
        from fedconformal.privacy.dp import release_threshold
        from fedconformal.privacy.ledger import rows_of, spending
        from fedconformal.privacy.local_dp import calibrate_locally

        if self.mode == "local":
            if self.epsilon is not None or self.grid is not None or ledger is not None:
                raise InputError("--privacy local takes no epsilon, grid or ledger here: give them to summarize")
            return calibrate_locally(received, alpha=alpha, guarantee=guarantee)
        if isinstance(guarantee, ByClass):
            raise InputError("--privacy dp does not go with by-class; leave one of them out")
        if ledger is not None and not all(summary.sites for summary in received):
            raise InputError("--ledger needs summaries with site names; give them with --site")
        with spending(ledger, rows_of(received) if ledger else [], self.spent, "threshold"):
            return release_threshold(
                received, epsilon=self.epsilon, alpha=alpha, guarantee=guarantee, grid=self.read_grid()
            )


def read_noisy(paths: Sequence[Path]) -> list[NoisyHistogram]:
    """Read what sites wrote with summarize --privacy local."""
    from fedconformal.privacy.local_dp import NoisyHistogram

    found = []
    for path in progress(paths, "reading noisy counts", len(paths)):
        with prefix_errors(path):
            found.append(NoisyHistogram.from_bytes(read_bytes(path)))
    return found


def describe_privacy(claim: dict[str, Any], *, finite: bool) -> list[str]:
    """Say what is claimed, what is not, and how precise a finite threshold from sums is."""
    words = claim.get("claim")
    if "epsilon" in claim:
        words = f"epsilon {claim['epsilon']:g} for {claim['unit']}; outside the claim: {claim['outside']}"
    lines = [str(words)]
    precision = claim.get("precision")
    if precision is not None and finite:
        rounded = f"rounded up to the edge of a cell, as {precision['stopped']}"
        lines.append(f"the threshold is {'exact to the last bit' if precision['exact'] else rounded}")
    return lines
