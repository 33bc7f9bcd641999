"""A promise to a test point that comes from a mixture of the sites.

Lu, Yu, Karimireddy, Jordan and Raskar, "Federated Conformal Predictors for Distributed Uncertainty
Quantification", 2023, Theorem 1. The theorem's proof conditions on something that is not fixed; comparing
with the r-th smallest of the augmented N + K scores repairs it. "Largest" in the paper means smallest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fedconformal._base.names import shown
from fedconformal.errors import InputError
from fedconformal.guarantees.class_share import ClassShare
from fedconformal.guarantees.guarantee import Counts, Guarantee, WeightedSum, Weights, as_decimal
from fedconformal.guarantees.luck import MissLimit, mixture_limit
from fedconformal.guarantees.planning import counting

WEIGHT_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True)
class Mixture(WeightedSum):
    """Cover a test point from the mixture of the sites, in proportion to n_k + 1 unless weights are given.

    In proportion, a site that claims a million scores can outweigh everybody else. `most_scores`, fixed beforehand,
    bounds that.

    Attributes:
        weights: "proportional", "uniform", or one number a site, in the order of the summaries, which add up to one.
        most_scores: a site that claims more scores weighs as one that has this many.

    >>> Mixture().promised(counts=[9, 4], sizes=[10, 5])  # 13 of N + K = 17
    Fraction(13, 17)
    >>> Mixture(weights="uniform").promised(counts=[10, 4], sizes=[10, 5])
    Fraction(26, 33)
    >>> Mixture(most_scores=5).promised(counts=[10, 4], sizes=[10, 5])  # the first weighs as much as the second
    Fraction(26, 33)
    """

    name = "mixture"
    assumption = (
        "within each site, given the rows of the others, the calibration rows and the test row are exchangeable; "
        "the test row's site is drawn with the stated weights; the model was not fitted to the calibration rows"
    )
    caveat = (
        "This is not a promise to a single site, class or set size: one that falls below is not a violation "
        "(the guarantee every-client promises it to each site)."
    )

    fractional = True

    weights: str | Sequence[float] = "proportional"
    most_scores: int | None = None

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        weights: list[Sequence[float]] = [(0.5, 0.3, 0.2), (0.0, 1.0, 0.0)]
        return cls(), cls(weights="uniform"), *(cls(weights=given) for given in weights), cls(most_scores=20)

    def __post_init__(self) -> None:
        as_number_of_scores(self.most_scores, "most_scores")
        if self.most_scores is not None and not (isinstance(self.weights, str) and self.weights == "proportional"):
            raise InputError("most_scores goes with weights 'proportional': others do not depend on the sizes")
        if isinstance(self.weights, str):
            if self.weights not in ("proportional", "uniform"):
                raise InputError(f"weights is {self.weights!r}, expected 'proportional', 'uniform' or numbers")
            return
        try:
            weights = tuple(float(w) for w in np.asarray(self.weights, dtype=np.float64).ravel())
        except (ValueError, TypeError, OverflowError):
            weights = ()
        if not weights or not all(math.isfinite(w) and w >= 0 for w in weights):
            raise InputError("weights: expected one finite number a site, none negative")
        if abs(sum(weights) - 1) > WEIGHT_TOLERANCE:
            raise InputError(f"weights: they sum to {sum(weights):.6g}, not 1")
        object.__setattr__(self, "weights", weights)

    @property
    def sites_apart(self) -> bool:
        """Only the proportional mixture without a cap weighs all scores alike."""
        return self.weights != "proportional" or self.most_scores is not None

    def bind(self, sites: Sequence[str], sizes: Counts) -> Guarantee:
        if not isinstance(self.weights, str) and len(self.weights) != len(sizes):
            raise InputError(f"weights: {len(self.weights)} were given for {len(sizes)} sites")
        return self

    def in_class(self, sizes: Counts) -> Guarantee:
        """Weigh as before, with the size of the whole site; every site may hold one more row of the class."""
        weights, _ = self.worth(sizes)
        parts = [1] * len(sizes) if weights is None else weights
        common = math.gcd(*parts)
        parts = [part // common for part in parts]
        return ClassShare(weights=tuple(parts), more=sum(parts))

    def worth(self, sizes: Counts) -> tuple[Weights, int]:
        """Weigh a score with lambda_k / (n_k + 1), over one common denominator: N + K if all weigh alike."""
        if not self.sites_apart:
            return None, sum(sizes) + len(sizes)
        parts = self.parts(sizes)
        whole = math.lcm(*{n + 1 for n in sizes})
        of_one = {(part, n): part * (whole // (n + 1)) for part, n in zip(parts, sizes, strict=True)}
        return [of_one[pair] for pair in zip(parts, sizes, strict=True)], whole * sum(parts)

    def parts(self, sizes: Counts) -> Sequence[int]:
        """Return the weight of every site as a whole number; lambda_k is its share of their sum."""
        if self.weights == "uniform":
            return [1] * len(sizes)
        if isinstance(self.weights, str):
            return [min(n, self.most_scores or n) + 1 for n in sizes]
        exact = [as_decimal(weight) for weight in self.weights]
        whole = math.lcm(*(weight.denominator for weight in exact))
        return [int(weight * whole) for weight in exact]

    def at_most(self, alpha: Fraction, sizes: Counts, gaps: Counts) -> Fraction:
        """Return the upper end of Theorem 1's band, plus what the summaries may cost."""
        if not self.sites_apart:
            return super().at_most(alpha, sizes, gaps)
        one_each = self.promised([1] * len(sizes), sizes)
        return min(Fraction(1), 1 - alpha + one_each + self.slack(gaps, sizes))

    def miss_limits(self, alpha: Fraction, sizes: Counts, failure: float) -> list[MissLimit]:
        return [mixture_limit(alpha, sizes, self.parts(sizes), failure)]

    def plainly(self, sites: Sequence[str]) -> str:
        if not isinstance(self.weights, str):
            counts = "each site counts as much as was agreed"
        elif self.weights == "uniform":
            counts = "each site counts the same"
        else:
            counts = "a site counts by how many calibration cases it has"
        return f"new cases of all sites together, where {counts}; a single site can be below"

    def promise(self, sites: Sequence[str]) -> str:
        words = {
            "proportional": f"in proportion to {capped_words(self.most_scores)}",
            "uniform": "each site equally likely",
        }
        weights = words[self.weights] if isinstance(self.weights, str) else f"with weights {list(self.weights)}"
        return f"for a test row from the mixture of the sites, {weights}, on average over calibration draws"

    def to_dict(self) -> dict[str, Any]:
        weights = self.weights if isinstance(self.weights, str) else list(self.weights)
        cap = {} if self.most_scores is None else {"most_scores": self.most_scores}
        return {"name": self.name, "weights": weights, **cap}


@counting.register
def _(guarantee: Mixture, sizes: Counts) -> Sequence[int]:
    return [k for k, part in enumerate(guarantee.parts(sizes)) if part]


def is_whole(value: Any) -> bool:
    """Whether this is a whole number, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_number_of_scores(value: Any, name: str) -> None:
    """Check a number of scores that is fixed beforehand, where one is given."""
    if value is not None and (not is_whole(value) or value < 1):
        raise InputError(f"{name} is {shown(value)}, expected a whole number, at least 1")


def capped_words(most_scores: int | None) -> str:
    """Say what a site weighs in proportion.

    >>> capped_words(500)
    'n_k + 1 (n_k counted up to 500)'
    """
    return "n_k + 1" if most_scores is None else f"n_k + 1 (n_k counted up to {most_scores})"
