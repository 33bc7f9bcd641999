"""Watches of a predictor that is replaced: rows that they have counted, and their end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fedconformal._base.names import abbreviate
from fedconformal.cli.console import logger
from fedconformal.errors import InputError
from fedconformal.tables import Predictions

NewRows = Annotated[
    Path | None,
    typer.Option("--watch", metavar="WATCH", help="Refuse rows that this watch has counted (.db); needs --id."),
]
Watches = Annotated[
    list[Path] | None,
    typer.Option("--watch", metavar="WATCH", help="The old predictor's watch (.db), which is closed; repeatable."),
]


def check_new(watch: Path | None, found: Predictions) -> None:
    """Refuse rows that a watch has counted: a predictor from them would promise nothing."""
    if watch is None:
        return
    from fedconformal.monitoring.store import Watch

    if found.ids is None:
        raise InputError("--watch compares ids; name their column with --id")
    with Watch.open(watch) as held:
        known = set(held.counted(found.ids))
        purged = held.status().counts["purged"]
    if purged:
        logger.warning("%s: %d rows were purged; whether these are among them is not known any more", watch, purged)
    if known:
        row = next(k for k, one in enumerate(found.ids) if one in known)
        others = f", and {len(known) - 1} more" if len(known) > 1 else ""
        raise found.table.error(
            f"{found.table.place(row)}, {abbreviate(found.ids[row])}, was counted by {watch}{others}, "
            "so it is not new; "
            "leave such rows out, or summarise without --watch and calibrate with --rows watched"
        )


def check_watches(watches: Sequence[Path], digest: str) -> None:
    """Refuse watches of another predictor."""
    from fedconformal.monitoring.store import Watch

    for path in watches:
        with Watch.open(path) as held:
            if held.settings.predictor != digest:
                raise InputError(f"{path}: watches another predictor, whose SHA-256 is {held.settings.predictor}")


def close_watches(watches: Sequence[Path]) -> None:
    """End the watches of a predictor that was replaced; they still answer."""
    from fedconformal.monitoring.store import Watch

    for path in watches:
        with Watch.open(path) as held:
            held.close()
