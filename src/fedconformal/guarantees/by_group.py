"""A promise to every group that a row is in, where groups may overlap and are known at prediction time.

Barber, Candes, Ramdas and Tibshirani, "The limits of distribution-free conditional predictive inference", 2021, for one
site. Across sites a group is counted as a class is (`by_class.py`). A row gets the largest threshold of its groups, so
that every group is covered. All rows are a group, else their coverage together would not be promised; and so are the
rows that are in no other group, else these would be promised nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

from fedconformal.errors import InputError
from fedconformal.guarantees.by_class import ByClass
from fedconformal.guarantees.guarantee import Counts, Guarantee
from fedconformal.guarantees.mixture import Mixture
from fedconformal.guarantees.planning import shortfall


@dataclass(frozen=True)
class ByGroup(Guarantee):
    """Keep a guarantee for every group by itself: one threshold a group, +inf where too few rows were seen.

    Every group takes as many scores as the guarantee takes in all: 1 / alpha for `Mixture()`.

    Attributes:
        guarantee: what is promised to each group; with ByClass(...), to each class in each group.

    >>> ByGroup(Mixture()).to_dict()
    {'name': 'by-group', 'guarantee': {'name': 'mixture', 'weights': 'rows'}}
    >>> ByGroup().promise(["a", "b"])
    'given any group that the row is in, for a test row from the mixture of the sites, in proportion to n_k,
     on average over calibration draws'
    """

    guarantee: Guarantee = field(default_factory=Mixture)

    name = "by-group"
    why_not_fractional = "loss curves do not say which group a row is in"
    caveat = (
        "Each group is promised by itself, on average over calibration draws: one that falls below on some test rows "
        "is not a violation. Nothing is promised to a group that no calibration row is in, nor to a set size, nor to "
        "a single site's rows of a group unless that is stated. The summaries show how many calibration rows of each "
        "group a site has."
    )

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(), cls(Mixture(weights=(0.5, 0.3, 0.2))), cls(ByClass())

    def __post_init__(self) -> None:
        given: Any = self.guarantee
        if isinstance(given, Guarantee) and given.by_group:
            raise InputError(f"{self.name}: give all columns to one ByGroup(...); it is not put into another one")
        if not isinstance(given, Guarantee) or (given.by_class and not isinstance(given, ByClass)):
            raise InputError(f"{self.name}: {given!r:.60} is not a guarantee such as fedconformal.Mixture()")

    @property
    def kept(self) -> Guarantee:
        return self.guarantee.kept

    @property
    def by_class(self) -> bool:
        return self.guarantee.by_class

    @property
    def by_group(self) -> bool:
        return True

    @property
    def sites_apart(self) -> bool:
        return self.guarantee.sites_apart

    # Not a class variable as in the others: it follows from what is kept.
    @property
    def assumption(self) -> str:  # type: ignore[override]
        """What the promise rests on."""
        words = self.guarantee.assumption if self.by_class else of_groups(self.guarantee.assumption_in_class)
        same = "the groups of a row are read in the same way everywhere, at calibration and later"
        return (
            f"{words}; {same}; which groups there are, and their borders, was fixed before calibration rows were seen"
        )

    def bind(self, sites: Sequence[str], sizes: Counts) -> Guarantee:
        """Return what promises coverage to a group, from the counts and sizes of that group alone."""
        bound = self.guarantee.bind(sites, sizes)
        return bound if self.by_class else bound.in_class(sizes)

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return what is promised to a group that all rows are in."""
        kept = self.guarantee if self.by_class else self.guarantee.in_class(sizes)
        return kept.promised(counts, sizes)

    def plainly(self, sites: Sequence[str]) -> str:
        return f"the cases of each group by itself: {self.guarantee.plainly(sites)}"

    def promise(self, sites: Sequence[str]) -> str:
        inner = self.guarantee.promise(sites) if self.by_class else of_groups(self.guarantee.promise_in_class(sites))
        return f"given any group that the row is in, {inner}"

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "guarantee": self.guarantee.to_dict()}


def of_groups(words: str) -> str:
    """Say of groups what was said of classes: they are counted in the same way.

    >>> of_groups("10 of each class")
    '10 of each group'
    """
    return words.replace("class", "group")


def group_shortfall(bound: Guarantee, alpha: Fraction, sizes: Counts, sites: Sequence[str]) -> str:
    """Say what a group is missing, from the sizes that it has at the sites.

    >>> group_shortfall(Mixture().in_class([20, 20]), Fraction(1, 10), [5, 2], ["a", "b"])
    'calibration scores needed: 3 more in all, at any site (10 of each group)'
    """
    return of_groups(shortfall(bound, alpha, sizes, sites))
