"""Every table and figure of the paper by name, each with the function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fedconformal.errors import InputError
from fedconformal_paper.compare_loss import compare_loss
from fedconformal_paper.figures import (
    accuracy,
    challenges,
    classes,
    drawings,
    heterogeneity,
    losses,
    quantiles,
    scores,
    set_sizes,
    sites,
)
from fedconformal_paper.full_results import full_results
from fedconformal_paper.heart import heart_disease
from fedconformal_paper.relative_inefficiency import relative_inefficiency
from fedconformal_paper.rules import rules
from fedconformal_paper.score_compare import score_compare
from fedconformal_paper.setup import Setup
from fedconformal_paper.size_conditional import size_conditional
from fedconformal_paper.table import Table

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Entry(Generic[T]):
    """A table or figure: its label in the paper, a description, and the function that makes it."""

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
    Entry(
        name="threshold-rules",
        label="beyond the paper",
        about="the authors' code, the paper's rank, our default and naive sets on the same logits",
        make=rules,
    ),
    Entry(
        name="heart-disease",
        label="beyond the paper",
        about="four real hospitals: what one that nobody has seen may expect",
        make=heart_disease,
    ),
)

FIGURES: dict[str, Entry[str]] = {
    name: Entry(name=name, label=label, about=about, make=make)
    for name, label, about, make in (
        ("fig1", "fig:fig1", "overview: from clients to a set", drawings.overview),
        (
            "challenge-exchangeability",
            "fig:challenge-exchangeability",
            "calibrated on one client, it covers only there",
            challenges.challenge_exchangeability,
        ),
        (
            "challenge-efficiency",
            "fig:challenge-efficiency",
            "set sizes with like and unlike clients",
            challenges.challenge_efficiency,
        ),
        ("fedavg", "fig:fedavg", "CIFAR-10 by classes a client, FedAvg", heterogeneity.fedavg),
        ("tct-vs-fedavg", "fig:tct-vs-fedavg", "CIFAR-10 by classes a client, TCT", heterogeneity.tct_vs_fedavg),
        (
            "compare-set-size-same-subset",
            "fig:compare-set-size-same-subset",
            "set sizes of rows that all models get right",
            set_sizes.same_subset,
        ),
        (
            "accuracy-vs-set-size",
            "fig:accuracy-vs-set-size",
            "accuracy at each set size, median of 100 trials",
            accuracy.accuracy_vs_size,
        ),
        (
            "selective-classification",
            "fig:selective-classification",
            "accuracy when the largest sets are left out",
            accuracy.selective,
        ),
        (
            "conformal-score-compare",
            "fig:conformal-score-compare",
            "coverage by set size with each score",
            scores.by_size,
        ),
        (
            "quantile-compare",
            "fig:quantile-compare",
            "ways to find a quantile across clients",
            quantiles.quantile_compare,
        ),
        (
            "cifar-conformal-score-compare",
            "fig:cifar-conformal-score-compare",
            "coverage and size with each score at every level",
            scores.by_level,
        ),
        ("cifar-score-dist", "fig:cifar-score-dist", "set sizes with each score", set_sizes.score_dist),
        ("loss-comparison-cifar100", "fig:loss-comparison-cifar100", "CIFAR-100: reliability by loss", losses.cifar100),
        (
            "loss-comparison-fitzpatrick",
            "fig:loss-comparison-fitzpatrick",
            "Fitzpatrick17k: reliability by loss",
            losses.fitzpatrick,
        ),
        ("appendix-compute-q-aht", "fig:appendix-compute-q-aht", "the threshold of two clients", drawings.two_clients),
        ("skin-class-dist", "fig:skin-class-dist", "Fitzpatrick17k: images of each condition", classes.skin_class_dist),
        ("skin-rate", "fig:skin-rate", "Fitzpatrick17k: images of each skin type", classes.skin_rate),
        ("derma", "fig:derma", "DermaMNIST: classes and clients", classes.derma),
        ("path", "fig:path", "PathMNIST: classes and clients", classes.path),
        ("tissue", "fig:tissue", "TissueMNIST: classes and clients", classes.tissue),
        ("coverage-by-site", "beyond the paper", "each client under a promise for the mixture", sites.coverage_by_site),
        ("derma-by-source", "beyond the paper", "DermaMNIST by the collection of the image", sites.derma_by_source),
        ("worst-site", "beyond the paper", "the worst client under each guarantee, and the cost", sites.worst_site),
    )
}


def find(name: str, entries: dict[str, Entry[T]], what: str) -> Entry[T]:
    """Return the entry of a name."""
    if name not in entries:
        raise InputError(f"{name!r} is no {what} of the paper; there are {', '.join(entries)}")
    return entries[name]
