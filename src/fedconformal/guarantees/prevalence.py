"""Coverage under label shift, for a population with other class shares than the sites (docs/proofs.md).

Classes take the place of sites. Bounds on their shares give a box of mixtures, unknown shares a promise to every class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fedconformal._base.names import abbreviate, join_names, name_key
from fedconformal.errors import InputError
from fedconformal.guarantees.every_site import EverySite
from fedconformal.guarantees.guarantee import (
    Audience,
    Counts,
    Guarantee,
    Shares,
    StratumKind,
    as_decimal,
    checked_shares,
)
from fedconformal.guarantees.mixture import WEIGHT_TOLERANCE, Mixture
from fedconformal.guarantees.worst_case import WorstCase

ClassShares = Mapping[Any, Shares] | Sequence[tuple[str, Shares]]
"""A share or two bounds, by class name or number."""


@dataclass(frozen=True)
class Prevalence(Guarantee):
    """Coverage for a population with given class shares, if the distribution of X given Y is the same everywhere.

    Omitted classes have share 0 if all shares are numbers, and any share if there are bounds. Summaries by class are
    required; there is one threshold.

    Parameters
    ----------
    shares
        Share of every class by name or number, or its bounds (low, high); None for arbitrary shares.

    Examples
    --------
    >>> Prevalence({"benign": 0.9, "malignant": 0.1}).shares
    (('benign', 0.9), ('malignant', 0.1))
    >>> Prevalence({0: 0.3, 1: 0.7}).promised(counts=[4, 7], sizes=[4, 9])  # 0.3 * 4/4 + 0.7 * 7/9 - 0.7/9
    Fraction(23, 30)
    >>> Prevalence({0: (0.2, 0.5)}).promised(counts=[4, 7], sizes=[4, 9])  # the second class has a share of at most 0.8
    Fraction(251, 360)

    References
    ----------
    Podkopaev and Ramdas, "Distribution-free uncertainty quantification for classification under label shift", 2021.
    """

    name = "prevalence"
    by_class = True
    over_classes = True
    why_not_fractional = "a loss need not have a class"
    assumption = (
        "given its class, a test row is exchangeable with the calibration rows of that class at all sites: a class "
        "looks the same at every site and at the new place (X given Y), and rows were sampled by their class only; the "
        "shares of the classes at the new place are as stated, and were fixed beforehand"
    )
    excluded = ("site", "set size")
    caveat = (
        "If a class looks different at one site than at another, or at the new place, this promise does not hold, and "
        "the summaries do not show it. The guarantee by-class does not need that assumption, but its promise "
        "is for the sites as they were calibrated. A single class is promised coverage only if nothing is known of the "
        "shares. The summaries show how many calibration rows of each class a site has."
    )
    why_no_bound = "no single shares of the classes are named"

    shares: ClassShares | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        bounds: list[ClassShares] = [{"b": (0.05, 0.2)}, {"a": 0.5, "c": (0.1, 0.3)}]
        return cls(), cls({"a": 0.7, "c": 0.3}), cls({"a": 0.2, "b": 0.3, "c": 0.5}), *map(cls, bounds)

    def __post_init__(self) -> None:
        if self.shares is not None:
            object.__setattr__(self, "shares", _checked(self.shares))

    @property
    def sites_apart(self) -> bool:
        """False, as the class of a score matters, and not its site."""
        return False

    def bind(self, sites: Sequence[str], sizes: Counts, stratum: StratumKind | None = None) -> Guarantee:
        """Return the guarantee for these shares, where `sites` are the class names; without names, numbers from 0."""
        if self.shares is None:
            return EverySite()
        names, shares = list(map(name_key, sites)) or list(map(str, range(len(sizes)))), dict(self.shares)
        if unknown := sorted(shares.keys() - set(names)):
            raise InputError(
                f"shares: no class is called {abbreviate(repr(unknown[0]))}; there are {join_names(names)}"
            )
        if not any(isinstance(share, tuple) for share in shares.values()):
            return Mixture(weights=tuple(_ends(shares.get(name, 0.0))[0] for name in names))
        lower, upper = zip(*(_ends(shares.get(name, (0.0, 1.0))) for name in names), strict=True)
        return WorstCase(box=(lower, upper))

    def promised(self, counts: Counts, sizes: Counts) -> Fraction:
        """Return the coverage promised by the counts and sizes of unnamed classes."""
        return self.bind((), sizes).promised(counts, sizes)

    def audience(self, sites: Sequence[str], stratum: StratumKind | None = None) -> Audience:
        where = "with any shares of the classes"
        if self.shares is not None:
            each = [
                f"{abbreviate(name)} "
                + (f"from {share[0]:g} to {share[1]:g}" if isinstance(share, tuple) else f"= {share:g}")
                for name, share in dict(self.shares).items()
            ]
            where = f"where the shares of the classes are {', '.join(each)}"
        return Audience(
            population=(
                f"from a place {where}, provided that a class looks the same at all sites and at that place (X given Y)"
            ),
            lay_population=f"new cases {where}, if the cases of a right answer look the same everywhere",
        )


def _class_key(key: Any) -> str:
    """Return the normal form of the name or the number of a class."""
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and key >= 0:
        return str(int(key))
    if not isinstance(key, str) or not name_key(key):
        raise InputError(f"shares: {abbreviate(repr(key))} is not the name of a class, nor its number from 0")
    return name_key(key)


def _checked(shares: Any) -> tuple[tuple[str, Shares], ...]:
    """Validate the shares as far as possible without the classes."""
    try:
        pairs = [(name, share) for name, share in (shares.items() if isinstance(shares, Mapping) else shares)]
    except (TypeError, ValueError):
        pairs = []
    if not pairs:
        raise InputError('shares: expected a share for each class, such as {"benign": 0.9, "malignant": 0.1}')
    checked: dict[str, Shares] = {}
    for key, share in pairs:
        name = _class_key(key)
        if name in checked:
            raise InputError(f"shares: class {abbreviate(name)} is there twice")
        what = f"the share of class {abbreviate(name)}"
        checked[name] = checked_shares(share, what)
        if len(_ends(checked[name])) != 2:
            raise InputError(f"{what} is {abbreviate(share)}, expected a number or two bounds (low, high)")
    total = float(sum(as_decimal(_ends(share)[0]) for share in checked.values()))
    if abs(total - 1) > WEIGHT_TOLERANCE and not any(isinstance(share, tuple) for share in checked.values()):
        raise InputError(
            f"shares: they sum to {total:.6g}, not 1; give each class its share, or a lower and an upper bound"
        )
    return tuple(checked.items())


def _ends(share: Shares) -> tuple[float, ...]:
    return share if isinstance(share, tuple) else (share, share)
