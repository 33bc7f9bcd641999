"""The options of calibrate for differential privacy."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal.calibration import Calibration, site_names
from fedconformal.errors import InputError
from fedconformal.guarantees import ByClass, Guarantee
from fedconformal.privacy.dp import as_epsilon, calibrate_privately
from fedconformal.privacy.ledger import read_ledger, write_ledger
from fedconformal.summaries.base import Summary


class PrivacyMode(StrEnum):
    """How the rows are protected from whoever sees the result."""

    dp = "dp"


Privacy = Annotated[
    PrivacyMode | None, typer.Option(help="dp: release the threshold with differential privacy; needs --epsilon.")
]
Epsilon = Annotated[str | None, typer.Option(help="dp: how much privacy is spent.")]
BudgetFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="dp: enter the release here (.json with a budget), and refuse to exceed it."),
]


def release(
    summaries: Sequence[Summary], alpha: Any, guarantee: Guarantee | ByClass, epsilon: str | None, ledger: Path | None
) -> Calibration:
    """Calibrate with differential privacy; what is spent is entered before anything leaves here."""
    if epsilon is None:
        raise InputError("--privacy dp needs --epsilon, such as --epsilon 1")
    if isinstance(guarantee, ByClass):
        raise InputError("--privacy dp does not go with --by-class; leave one of them out")
    spent = float(as_epsilon(epsilon))
    if ledger is not None and not all(summary.sites for summary in summaries):
        raise InputError("--ledger needs summaries with site names; give them with --site")
    after = None if ledger is None else read_ledger(ledger).spend(site_names(summaries), spent, "threshold")
    result = calibrate_privately(summaries, epsilon=epsilon, alpha=alpha, guarantee=guarantee)
    if ledger is not None and after is not None:
        write_ledger(ledger, after)
    return result
