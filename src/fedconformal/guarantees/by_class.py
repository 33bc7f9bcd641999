"""A promise given the true label: each class is covered by itself, so a rare one is not paid for by the others.

Vovk, "Conditional validity of inductive conformal predictors", 2012, for one site. Across sites, with w_k =
lambda_k / (n_k + 1), n_k all rows of the site and m_kc(q) its class-c scores at or below q, a threshold for class
c promises sum w_k m_kc(q) / sum w_k (n_kc + 1). Both sums run over all sites, also those that happen to hold no
row of the class: leaving these out, or weighing with n_kc + 1 instead, loses coverage. So in proportion to n_k + 1 a
class takes N_c >= K (1 - alpha) / alpha scores, K all sites, as much as everything takes without classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fedconformal._base import registry
from fedconformal.errors import InputError
from fedconformal.guarantees.guarantee import Counts, Guarantee
from fedconformal.guarantees.mixture import Mixture


@dataclass(frozen=True)
class ByClass:
    """Keep a guarantee for every class by itself: one threshold a class, +inf where too few rows were seen.

    Every class takes as many scores as the guarantee takes in all: K (1 - alpha) / alpha for `Mixture()`.

    >>> ByClass(Mixture()).to_dict()
    {'name': 'by-class', 'guarantee': {'name': 'mixture', 'weights': 'proportional'}}
    """

    guarantee: Guarantee = field(default_factory=Mixture)

    name = "by-class"
    caveat = (
        "Each class is promised by itself, on average over calibration draws: one that falls below on some test "
        "rows is not a violation. It is not a promise to a set size, nor to a single site's rows of a class unless "
        "that is stated. The summaries show how many calibration rows of each class a site has."
    )

    def __post_init__(self) -> None:
        """Check that there is a guarantee to keep."""
        if not isinstance(self.guarantee, Guarantee):
            raise InputError(f"by class: {self.guarantee!r:.60} is not a guarantee such as fedconformal.Mixture()")

    @property
    def assumption(self) -> str:
        """What the promise rests on."""
        return self.guarantee.assumption_in_class

    def promise(self, sites: Sequence[str]) -> str:
        """Say to whom coverage is promised."""
        return f"given the true label, whichever it is, {self.guarantee.promise_in_class(sites)}"

    def to_dict(self) -> dict[str, Any]:
        """Describe for JSON."""
        return {"name": self.name, "guarantee": self.guarantee.to_dict()}


def name_of(parameters: Mapping[str, Any]) -> str:
    """Name a described guarantee in a word or two.

    >>> name_of(ByClass().to_dict())
    'mixture by class'
    """
    if parameters.get("name") == ByClass.name:
        return f"{parameters['guarantee']['name']} by class"
    return str(parameters["name"])


def to_classes(labels: Sequence[int]) -> str:
    """Say to which classes something cannot be promised, the first ten by label.

    >>> to_classes([3, 5]), to_classes([4])
    ('to the classes 3, 5, which are', 'to class 4, which is')
    """
    if len(labels) == 1:
        return f"to class {labels[0]}, which is"
    rest = f" and {len(labels) - 10} more" if len(labels) > 10 else ""
    return f"to the classes {', '.join(map(str, labels[:10]))}{rest}, which are"


def shortfalls(
    bound: Guarantee, alpha: Fraction, labels: Sequence[int], sizes_of: Callable[[int], Counts], sites: Sequence[str]
) -> str:
    """Say what each of these classes is missing, from the sizes that it has at the sites; the first five by label.

    >>> sizes = {1: [5, 2], 3: [0, 1]}
    >>> words = shortfalls(Mixture().in_class([20, 20]), Fraction(1, 10), [1, 3], sizes.__getitem__, ["a", "b"])
    >>> print(*words.split("; "), sep=chr(10))
    class 1: calibration scores needed: 11 more in all, at any site (18 of each class)
    class 3: calibration scores needed: 17 more in all, at any site (18 of each class)
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for label in labels[:5]:
        alike.setdefault(tuple(sizes_of(label)), []).append(label)
    parts = [
        f"{'class' if len(some) == 1 else 'classes'} {', '.join(map(str, some))}: {bound.shortfall(alpha, held, sites)}"
        for held, some in alike.items()
    ]
    return "; ".join([*parts, *([f"and {len(labels) - 5} more classes"] if len(labels) > 5 else [])])


def described(parameters: Mapping[str, Any]) -> Guarantee | ByClass:
    """Rebuild a guarantee, by class or not, from what `to_dict` gave.

    >>> described({"name": "by-class", "guarantee": {"name": "exchangeable"}})
    ByClass(guarantee=Exchangeable())
    """
    if parameters.get("name") != ByClass.name:
        return registry.build(parameters, Guarantee)
    inner = parameters.get("guarantee")
    if set(parameters) != {"name", "guarantee"} or not isinstance(inner, Mapping):
        raise InputError("by-class: expected the name and description of one guarantee")
    return ByClass(registry.build(inner, Guarantee))
