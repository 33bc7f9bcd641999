"""Every table and figure of the paper by name, each with the function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fedconformal.errors import InputError
from fedconformal.paper.compare_loss import compare_loss
from fedconformal.paper.full_results import full_results
from fedconformal.paper.relative_inefficiency import relative_inefficiency
from fedconformal.paper.score_compare import score_compare
from fedconformal.paper.setup import Setup
from fedconformal.paper.size_conditional import size_conditional
from fedconformal.paper.table import Table

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[T]):
    """One table or figure: its label in the paper, what it shows, and how it is made."""

    name: str
    label: str
    about: str
    make: Callable[[Setup], T]


def _by_name(*entries: Entry[T]) -> dict[str, Entry[T]]:
    return {entry.name: entry for entry in entries}


TABLES: dict[str, Entry[Table]] = _by_name(
    Entry(
        name="full-results",
        label="tab:full-results",
        about="coverage and size with FedAvg, FedProx, TCT and a central model",
        make=full_results,
    ),
    Entry(
        name="relative-inefficiency",
        label="tab:relative-inefficiency",
        about="sizes over those of a central model; where the paper's ratios do not follow from its sizes",
        make=relative_inefficiency,
    ),
    Entry(
        name="cifar-efficiency-score-compare",
        label="tab:cifar-efficiency-score-compare",
        about="sets of the rows that all models get right, with each score",
        make=score_compare,
    ),
    Entry(
        name="size-conditional-coverage",
        label="tab:size-conditional-coverage",
        about="coverage in the quarters of rows with the smallest to the largest sets",
        make=size_conditional,
    ),
    Entry(
        name="tct-compare-loss",
        label="tab:tct-compare-loss",
        about="TCT with cross-entropy and with squared loss",
        make=compare_loss,
    ),
)

FIGURES: dict[str, Entry[str]] = {}


def find(name: str, entries: dict[str, Entry[T]], what: str) -> Entry[T]:
    """Look an entry up by its name."""
    if name not in entries:
        raise InputError(f"{name!r} is no {what} of the paper; there are {', '.join(entries)}")
    return entries[name]
