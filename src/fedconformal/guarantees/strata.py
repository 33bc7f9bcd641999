"""Guarantees conditional on the class or the group.

The proof of `Mixture` applies to the rows of a stratum (docs/proofs.md). The price is the largest weight of any site;
the maximum over the sites that contain the stratum would be too small (.783 at .9). Groups may overlap: a row takes the
largest threshold of its groups, which include all rows, and the rows in no other group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import Audience, Counts, Guarantee, StratumKind
from fedconformal.guarantees.mixture import Mixture


@dataclass(frozen=True)
class Stratified(Guarantee):
    """Base class of guarantees that apply another one to every stratum: one threshold each, +inf if rows are few."""

    stratum: ClassVar[StratumKind]

    guarantee: Guarantee = field(default_factory=Mixture)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(), cls(Mixture(weights=(0.5, 0.3, 0.2)))

    def __post_init__(self) -> None:
        inner: Any = self.guarantee
        nested = self.stratum == "group" and isinstance(inner, ByClass)
        if not isinstance(inner, Guarantee) or inner.by_group or (inner.by_class and not nested):
            raise InputError(
                f"{self.name}: {inner!r:.60} is not a guarantee such as fedconformal.Mixture(); by group and by class "
                "is ByGroup(ByClass(...))"
            )

    @property
    def inner(self) -> Guarantee:
        return self.guarantee.inner

    @property
    def sites_apart(self) -> bool:
        return self.guarantee.sites_apart

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Guarantee:
        """Return the form of the inner guarantee for a stratum, given the counts and sizes of that stratum."""
        return self.guarantee.bind(sites, sizes, self.stratum)

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage promised to a stratum that contains all rows."""
        return self.bind((), sizes).promised(counts, sizes)

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        inner = self.guarantee.audience(sites, self.stratum)
        return replace(inner, strata=(self.stratum, *inner.strata))


@dataclass(frozen=True)
class ByClass(Stratified):
    """Coverage given the true label: one threshold per class, +inf for classes with too few rows.

    Every class needs as many scores as the inner guarantee: 1 / alpha for `Mixture()`.

    Parameters
    ----------
    guarantee
        The guarantee for each class.

    Examples
    --------
    >>> ByClass(Mixture()).to_dict()
    {'name': 'by-class', 'guarantee': {'name': 'mixture', 'weights': 'rows'}}

    References
    ----------
    Vovk, "Conditional validity of inductive conformal predictors", 2012.
    """

    name = "by-class"
    stratum = "class"
    by_class = True
    why_not_fractional = "a loss need not have a class"


@dataclass(frozen=True)
class ByGroup(Stratified):
    """Coverage given each group of a row, where groups may overlap and are known at prediction time.

    Every group needs as many scores as the inner guarantee: 1 / alpha for `Mixture()`.

    Parameters
    ----------
    guarantee
        The guarantee for each group; with ByClass(...), for each class in each group.

    Examples
    --------
    >>> ByGroup(Mixture()).to_dict()
    {'name': 'by-group', 'guarantee': {'name': 'mixture', 'weights': 'rows'}}

    References
    ----------
    Barber et al., "The limits of distribution-free conditional predictive inference", 2021.
    """

    name = "by-group"
    stratum = "group"
    by_group = True
    why_not_fractional = "loss curves do not say which group a row is in"

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return *super().examples(), cls(ByClass())

    @property
    def by_class(self) -> bool:  # type: ignore[override]
        """Whether each class in each group has a threshold."""
        return self.guarantee.by_class
